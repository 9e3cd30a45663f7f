#include "libs/base/error.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/base/check.h"

namespace callboard::base {
namespace {

// Each detail is one payload, in plain text, under one of these keys.
constexpr absl::string_view kReason = "callboard/reason";
constexpr absl::string_view kRetryAfterNanoseconds = "callboard/retry_after_ns";
constexpr absl::string_view kMetadataPrefix = "callboard/metadata/";
constexpr absl::string_view kFieldPrefix = "callboard/field/";

// Returns `error` with another message.
absl::Status ReplaceMessage(const absl::Status& error, absl::string_view message) {
  absl::Status replaced(error.code(), message);
  error.ForEachPayload([&replaced](absl::string_view url, const absl::Cord& payload) {
    replaced.SetPayload(url, payload);
  });
  return replaced;
}

}  // namespace

absl::Status WithReason(absl::Status error, absl::string_view reason,
                        const std::map<std::string, std::string>& metadata) {
  CHECK(!error.ok()) << reason;
  error.SetPayload(kReason, absl::Cord(reason));
  for (const auto& [key, value] : metadata) {
    error.SetPayload(absl::StrCat(kMetadataPrefix, key), absl::Cord(value));
  }
  return error;
}

absl::Status WithRetryAfter(absl::Status error, absl::Duration wait) {
  CHECK(!error.ok());
  error.SetPayload(kRetryAfterNanoseconds,
                   absl::Cord(absl::StrCat(absl::ToInt64Nanoseconds(wait))));
  return error;
}

absl::Status WithFieldViolation(absl::Status error, absl::string_view field,
                                absl::string_view description) {
  CHECK(!error.ok()) << field;
  error.SetPayload(absl::StrCat(kFieldPrefix, field), absl::Cord(description));
  return error;
}

absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return ReplaceMessage(status, absl::StrCat(context, ": ", status.message()));
}

absl::Status WithAdvice(const absl::Status& status, absl::string_view advice) {
  if (status.ok()) return status;
  return ReplaceMessage(status, absl::StrCat(status.message(), "; ", advice));
}

absl::Status InvalidField(absl::string_view field, absl::string_view message) {
  return WithFieldViolation(WithReason(absl::InvalidArgumentError(message), "INVALID_FIELD",
                                       {{"field", std::string(field)}}),
                            field, message);
}

ErrorDetails GetErrorDetails(const absl::Status& error) {
  ErrorDetails details;
  error.ForEachPayload([&details](absl::string_view key, const absl::Cord& payload) {
    const std::string value(payload);
    if (key == kReason) {
      details.reason = value;
    } else if (key == kRetryAfterNanoseconds) {
      int64_t nanoseconds = 0;
      CHECK(absl::SimpleAtoi(value, &nanoseconds)) << value;
      details.retry_after = absl::Nanoseconds(nanoseconds);
    } else if (absl::ConsumePrefix(&key, kMetadataPrefix)) {
      details.metadata.emplace(key, value);
    } else if (absl::ConsumePrefix(&key, kFieldPrefix)) {
      details.field_violations.emplace(key, value);
    }
  });
  return details;
}

}  // namespace callboard::base
