#include "libs/ports/telemetry.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "libs/base/error.h"

namespace callboard::ports {

namespace names = span_names;

namespace {

// The limit of https://google.aip.dev/193.
constexpr size_t kReasonBytesMax = 63;

bool IsReason(absl::string_view text) {
  return !text.empty() && text.size() <= kReasonBytesMax &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isupper(c) || absl::ascii_isdigit(c) || c == '_';
         });
}

// The codes that OpenTelemetry's conventions list for gRPC servers.
bool IsServerError(absl::StatusCode code) {
  constexpr absl::StatusCode kAll[] = {
      absl::StatusCode::kUnknown,  absl::StatusCode::kDeadlineExceeded,
      absl::StatusCode::kInternal, absl::StatusCode::kUnimplemented,
      absl::StatusCode::kDataLoss, absl::StatusCode::kUnavailable};
  return std::find(std::begin(kAll), std::end(kAll), code) != std::end(kAll);
}

}  // namespace

std::string SpanErrorType(const absl::Status& error) {
  const std::string reason = base::GetErrorDetails(error).reason;
  return IsReason(reason) ? reason : absl::StatusCodeToString(error.code());
}

FinishedSpan RpcSpan(SpanKind kind, absl::string_view method, const absl::Status& status) {
  const absl::StatusCode code = status.code();
  const std::pair<std::string, std::string> service_and_method = absl::StrSplit(method, '/');
  FinishedSpan span = {.name = std::string(method),
                       .kind = kind,
                       .attributes = {{names::kRpcSystem, names::kRpcSystemValue},
                                      {names::kRpcService, service_and_method.first},
                                      {names::kRpcMethod, service_and_method.second},
                                      {names::kRpcStatusCode, static_cast<int64_t>(code)}}};
  if (kind == SpanKind::kServer ? IsServerError(code) : !status.ok()) {
    span.status = {code, absl::StatusCodeToString(code)};
    span.attributes.push_back({names::kErrorType, SpanErrorType(status)});
  }
  return span;
}

}  // namespace callboard::ports
