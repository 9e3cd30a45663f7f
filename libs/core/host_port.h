#ifndef CALLBOARD_LIBS_CORE_HOST_PORT_H_
#define CALLBOARD_LIBS_CORE_HOST_PORT_H_

#include "absl/strings/string_view.h"

namespace callboard::core {

// Whether it is an address that can be dialled: a name, an IP address or one of IPv6 in brackets,
// and a port, as in 10.0.0.7:7071. Nothing that gRPC reads as another scheme.
bool IsHostPort(absl::string_view address);

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_HOST_PORT_H_
