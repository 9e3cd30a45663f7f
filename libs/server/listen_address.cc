#include "libs/server/listen_address.h"

#include <arpa/inet.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/base/text.h"
#include "libs/http/http_server.h"

namespace callboard::server {
namespace {

bool IsIpAddress(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

}  // namespace

std::string ListenAddress::ToString() const {
  const bool v6 = host.find(':') != std::string::npos;
  return absl::StrCat(v6 ? "[" : "", host, v6 ? "]" : "", ":", port);
}

absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view setting, absl::string_view text,
                                                 Exposure exposure) {
  const size_t colon = text.rfind(':');
  absl::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != absl::string_view::npos) {
    host = "";  // An IPv6 address without brackets is ambiguous.
  }
  ListenAddress address{.host = std::string(host), .port = 0};
  uint32_t port = 0;
  if (colon == absl::string_view::npos || !absl::SimpleAtoi(text.substr(colon + 1), &port) ||
      port > 65535 || (host != "localhost" && !IsIpAddress(address.host))) {
    return absl::InvalidArgumentError(absl::StrCat(
        setting, ": '", base::EscapeForError(text),
        "' is not valid; expected: an IP address or localhost, a colon and a port, such as "
        "127.0.0.1:7070 or [::1]:0"));
  }
  address.port = static_cast<uint16_t>(port);
  if (exposure == Exposure::kInsecureAllowed || http::IsLoopbackHost(host)) return address;
  if (exposure == Exposure::kNever) {
    return absl::InvalidArgumentError(
        absl::StrCat(setting, ": '", base::EscapeForError(text),
                     "' can be reached from other machines; use 127.0.0.1:", port));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      setting, ": '", base::EscapeForError(text),
      "' can be reached from other machines. There is no TLS, so anyone who can connect can run "
      "commands. Choose one:\n"
      "  --",
      setting, "=127.0.0.1:", port,
      "   listen on this machine only, and let others in through a tunnel or a TLS proxy\n"
      "  --insecure_listen   accept the risk, on a network where you trust every host"));
}

}  // namespace callboard::server
