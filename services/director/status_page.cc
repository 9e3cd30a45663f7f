#include "services/director/status_page.h"

#include "absl/strings/str_cat.h"
#include "libs/base/json_quoted.h"
#include "libs/base/version.h"
#include "libs/wire/json.h"
#include "libs/wire/queue_status.h"

namespace callboard {

std::string StatusPage(const core::QueueStatus& queue) {
  return absl::StrCat(R"({"type":"view","interfaces":["statusable","observable","taskable"],)",
                      R"("version":)", base::JsonQuoted(base::kVersion), R"(,"queue":)",
                      wire::ToJson(wire::ToProto(queue)), "}");
}

}  // namespace callboard
