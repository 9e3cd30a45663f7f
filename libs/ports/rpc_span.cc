#include "libs/ports/rpc_span.h"

#include <string>
#include <utility>

#include "absl/strings/str_split.h"
#include "libs/ports/span_names.h"

namespace callboard::ports {

namespace names = span_names;

FinishedSpan RpcSpan(SpanKind kind, absl::string_view method, absl::StatusCode code) {
  const std::pair<std::string, std::string> service_and_method = absl::StrSplit(method, '/');
  FinishedSpan span = {.name = std::string(method),
                       .kind = kind,
                       .attributes = {{names::kRpcSystem, names::kRpcSystemValue},
                                      {names::kRpcService, service_and_method.first},
                                      {names::kRpcMethod, service_and_method.second},
                                      {names::kRpcStatusCode, static_cast<int64_t>(code)}}};
  if (code != absl::StatusCode::kOk) span.status = {code, absl::StatusCodeToString(code)};
  return span;
}

}  // namespace callboard::ports
