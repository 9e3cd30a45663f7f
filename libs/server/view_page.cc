#include "libs/server/view_page.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/json_quoted.h"
#include "libs/base/version.h"

namespace callboard::server {

std::string ViewPage(const std::vector<std::string>& interfaces,
                     const std::vector<ViewMember>& members) {
  const auto quoted = [](std::string* out, const std::string& text) {
    *out += base::JsonQuoted(text);
  };
  std::string page =
      absl::StrCat(R"({"type":"view","interfaces":[)", absl::StrJoin(interfaces, ",", quoted),
                   R"(],"version":)", base::JsonQuoted(base::kVersion));
  for (const ViewMember& member : members) {
    absl::StrAppend(&page, ",", base::JsonQuoted(member.name), ":", member.json);
  }
  return page + "}";
}

}  // namespace callboard::server
