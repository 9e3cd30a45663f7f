#ifndef CALLBOARD_LIBS_SERVER_VIEW_PAGE_H_
#define CALLBOARD_LIBS_SERVER_VIEW_PAGE_H_

#include <string>
#include <vector>

namespace callboard::server {

// A member of a JSON object: its name, and its value as JSON.
struct ViewMember {
  std::string name;
  std::string json;
};

// The body of a server's /status: its kind, the interfaces it has, the version, and `members`.
std::string ViewPage(const std::vector<std::string>& interfaces,
                     const std::vector<ViewMember>& members);

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_VIEW_PAGE_H_
