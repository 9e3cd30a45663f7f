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

  // Returns host:port, with brackets around an IPv6 address.
  std::string ToString() const;
};

// Whether a server may listen on an address that other machines can reach. There is no TLS.
enum class Exposure {
  // Not allowed, and no setting allows it.
  kNever,
  // Not allowed; the setting insecure_listen would allow it.
  kLoopbackOnly,
  kInsecureAllowed,
};

// Parses `text` (host:port), the value of `setting`. Returns INVALID_ARGUMENT if it is not an
// address, or if other machines can reach it and `exposure` does not allow that. The message lists
// the choices.
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view setting, absl::string_view text,
                                                 Exposure exposure);

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_LISTEN_ADDRESS_H_
