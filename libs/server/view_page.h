#ifndef CALLBOARD_LIBS_SERVER_VIEW_PAGE_H_
#define CALLBOARD_LIBS_SERVER_VIEW_PAGE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace callboard::server {

// The body of a server's /status: its kind, the interfaces it has, the version, and `json` as
// `member`.
std::string ViewPage(const std::vector<std::string>& interfaces, absl::string_view member,
                     absl::string_view json);

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_VIEW_PAGE_H_
