#ifndef CALLBOARD_LIBS_SERVER_LISTEN_ADDRESS_H_
#define CALLBOARD_LIBS_SERVER_LISTEN_ADDRESS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace callboard::server {

struct ListenAddress {
  // An IP address without brackets, or localhost.
  std::string host;
  uint16_t port = 0;

  // host:port, with brackets where they are needed.
  std::string ToString() const;
};

// Whether a server may be reached by others without TLS.
enum class Exposure {
  // No, and there is no way to ask for it.
  kNever,
  // Not unless insecure_listen says so.
  kLoopbackOnly,
  kInsecureAllowed,
};

// Parses `text` (host:port) as the value of `setting`. INVALID_ARGUMENT when it is none, or when
// others could reach it and `exposure` does not allow that; the message lists the choices.
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view setting, absl::string_view text,
                                                 Exposure exposure);

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_LISTEN_ADDRESS_H_
