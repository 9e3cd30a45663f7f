#include "libs/wire/fields.h"

#include <google/protobuf/stubs/logging.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/error.h"
#include "libs/base/log.h"

namespace callboard::wire {

// ---- FieldChecks --------------------------------------------------------------------------------

namespace {

// gRPC sends at most 8 KiB of headers, and a violation needs up to 200 bytes.
constexpr size_t kViolationsMax = 32;

}  // namespace

void FieldChecks::EnterMessage(absl::string_view field) { prefix_ = absl::StrCat(field, "."); }

void FieldChecks::AddViolation(absl::string_view name, absl::string_view problem) {
  const std::string field = absl::StrCat(prefix_, name);
  if (fields_.size() == kViolationsMax || !fields_.insert(field).second) return;
  if (status_.ok()) {
    status_ = base::WithReason(absl::InvalidArgumentError(absl::StrCat(field, " ", problem)),
                               "INVALID_FIELD", {{"field", field}});
  }
  status_ = base::WithFieldViolation(std::move(status_), field, problem);
}

bool FieldChecks::CheckLimit(absl::string_view field, uint64_t size, uint64_t limit,
                             absl::string_view unit) {
  if (size <= limit) return true;
  AddViolation(field, absl::StrCat("has ", size, " ", unit, ", at most ", limit, " are allowed"));
  return false;
}

// ---- Parsing ------------------------------------------------------------------------------------

namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;

// Maximum depth of a field in a request. No message is nested deeper.
constexpr int kDepthMax = 4;

// The full name of the last string field that was not UTF-8, on this thread.
thread_local std::string invalid_field;

void OnProtobufLog(google::protobuf::LogLevel level, const char* /*filename*/, int /*line*/,
                   const std::string& message) {
  if (level == google::protobuf::LOGLEVEL_FATAL) {
    base::LogError("protobuf", "message", {{"text", message}});
    return;
  }
  // "String field 'callboard.v1.Task.prompt' contains invalid UTF-8 data when parsing a …".
  const std::vector<std::string> parts = absl::StrSplit(message, '\'');
  const bool is_text = parts.size() > 2 && absl::StrContains(parts[2], "invalid UTF-8");
  if (is_text && absl::StrContains(parts[2], "when parsing")) {
    invalid_field = parts[1];
    // Debug level, because any client can send such a request.
    base::LogDebug("protobuf", "not_utf8", {{"field", parts[1]}});
  } else {
    base::LogWarning("protobuf", "message", {{"text", message}});
  }
}

// Returns the path of `field` in a `request`, such as "project.name". The path of the key or value
// of a map is the name of the map, such as "labels".
std::optional<std::string> FindPath(const FieldDescriptor& field, const Descriptor& request,
                                    int depth = 0) {
  for (int i = 0; i < request.field_count(); ++i) {
    const FieldDescriptor& candidate = *request.field(i);
    if (&candidate == &field) return candidate.name();
    const Descriptor* const inner = candidate.message_type();
    if (inner == nullptr || depth == kDepthMax) continue;
    const std::optional<std::string> rest = FindPath(field, *inner, depth + 1);
    if (!rest.has_value()) continue;
    return candidate.is_map() ? candidate.name() : absl::StrCat(candidate.name(), ".", *rest);
  }
  return std::nullopt;
}

}  // namespace

void InstallProtobufLogHandler() { google::protobuf::SetLogHandler(&OnProtobufLog); }

absl::Status ParseError(const Descriptor& request) {
  const FieldDescriptor* const field =
      DescriptorPool::generated_pool()->FindFieldByName(std::exchange(invalid_field, ""));
  const std::optional<std::string> path =
      field == nullptr ? std::nullopt : FindPath(*field, request);
  if (!path.has_value()) {
    return base::WithReason(
        absl::InvalidArgumentError(absl::StrCat("the request is not a ", request.full_name())),
        "MALFORMED_REQUEST");
  }
  constexpr char kProblem[] = "is not UTF-8";
  return base::WithFieldViolation(
      base::WithReason(absl::InvalidArgumentError(absl::StrCat(*path, " ", kProblem)),
                       "INVALID_FIELD", {{"field", *path}}),
      *path, kProblem);
}

absl::Status Parse(absl::string_view bytes, google::protobuf::Message& message) {
  if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::OkStatus();
  }
  return ParseError(*message.GetDescriptor());
}

}  // namespace callboard::wire
