#ifndef CALLBOARD_LIBS_HTTP_LOOPBACK_H_
#define CALLBOARD_LIBS_HTTP_LOOPBACK_H_

#include "absl/strings/string_view.h"

namespace callboard::http {

// Whether `host`, an address or a name as in a URL (brackets allowed, no port), can only be this
// machine: localhost, 127.0.0.0/8 or ::1. Other names are not looked up and are not loopback.
bool IsLoopbackHost(absl::string_view host);

}  // namespace callboard::http

#endif  // CALLBOARD_LIBS_HTTP_LOOPBACK_H_
