#include "libs/wire/status.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "google/rpc/error_details.pb.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/core/limits.h"
#include "libs/wire/time.h"

namespace callboard::wire {
namespace {

constexpr char kDomain[] = "callboard";
// gRPC sends an error in headers of at most 8 KiB. A larger error does not reach the caller.
constexpr size_t kMessageBytesMax = 2048;
constexpr size_t kMetadataBytesMax = base::kErrorValueBytesMax;

void AddDetail(const google::protobuf::Message& detail, google::rpc::Status& status) {
  status.add_details()->PackFrom(detail);
}

absl::Status WithDetail(absl::Status error, const google::protobuf::Any& detail) {
  google::rpc::ErrorInfo info;
  google::rpc::RetryInfo retry;
  google::rpc::BadRequest bad_request;
  if (detail.UnpackTo(&info)) {
    return base::WithReason(std::move(error), info.reason(),
                            {info.metadata().begin(), info.metadata().end()});
  }
  if (detail.UnpackTo(&retry)) {
    // Ignore an invalid delay.
    const std::optional<absl::Duration> wait = FromProto(retry.retry_delay());
    return wait.has_value() ? base::WithRetryAfter(std::move(error), *wait) : error;
  }
  if (detail.UnpackTo(&bad_request)) {
    for (const auto& violation : bad_request.field_violations()) {
      error =
          base::WithFieldViolation(std::move(error), violation.field(), violation.description());
    }
  }
  return error;
}

}  // namespace

google::rpc::Status ToProto(const absl::Status& status) {
  google::rpc::Status rich;
  if (status.ok()) return rich;
  const base::ErrorDetails details = base::GetErrorDetails(status);
  rich.set_code(static_cast<int>(status.code()));
  rich.set_message(base::SanitizeText(std::string(status.message()), kMessageBytesMax));

  google::rpc::ErrorInfo info;
  info.set_reason(details.reason.empty() ? absl::StatusCodeToString(status.code())
                                         : details.reason);
  info.set_domain(kDomain);
  for (const auto& [key, value] : details.metadata) {
    (*info.mutable_metadata())[key] = base::SanitizeText(value, kMetadataBytesMax);
  }
  AddDetail(info, rich);

  if (details.retry_after.has_value()) {
    google::rpc::RetryInfo retry;
    *retry.mutable_retry_delay() = ToProto(*details.retry_after);
    AddDetail(retry, rich);
  }
  if (!details.field_violations.empty()) {
    google::rpc::BadRequest bad_request;
    for (const auto& [field, description] : details.field_violations) {
      auto& violation = *bad_request.add_field_violations();
      violation.set_field(field);
      violation.set_description(description);
    }
    AddDetail(bad_request, rich);
  }
  return rich;
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const google::rpc::Status rich = ToProto(status);
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), rich.message(),
                      rich.SerializeAsString());
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  google::rpc::Status rich;
  if (!rich.ParseFromString(status.error_details())) rich.Clear();
  rich.set_code(static_cast<int>(status.error_code()));
  rich.set_message(status.error_message());
  return FromProto(rich);
}

absl::Status FromProto(const google::rpc::Status& status) {
  // A gRPC header may contain any bytes.
  absl::Status error(static_cast<absl::StatusCode>(status.code()),
                     base::SanitizeText(status.message(), core::kErrorBytesMax));
  if (error.ok()) return error;
  for (const google::protobuf::Any& detail : status.details()) {
    error = WithDetail(std::move(error), detail);
  }
  return error;
}

}  // namespace callboard::wire
