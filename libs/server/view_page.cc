#include "libs/server/view_page.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/json_quoted.h"
#include "libs/base/version.h"

namespace callboard::server {

std::string ViewPage(const std::vector<std::string>& interfaces, absl::string_view member,
                     absl::string_view json) {
  const auto quoted = [](std::string* out, const std::string& text) {
    *out += base::JsonQuoted(text);
  };
  return absl::StrCat(R"({"type":"view","interfaces":[)", absl::StrJoin(interfaces, ",", quoted),
                      R"(],"version":)", base::JsonQuoted(base::kVersion), ",",
                      base::JsonQuoted(member), ":", json, "}");
}

}  // namespace callboard::server
