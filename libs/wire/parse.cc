#include "libs/wire/parse.h"

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
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;

// How deep fields of a request are looked for; messages of ours are not nested deeper.
constexpr int kDepthMax = 4;

// The full name of the last string field on this thread that was not UTF-8.
thread_local std::string bad_field;

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
    bad_field = parts[1];
    // Anybody can send such a request.
    base::LogDebug("protobuf", "not_utf8", {{"field", parts[1]}});
  } else {
    base::LogWarning("protobuf", "message", {{"text", message}});
  }
}

// `field` as it is reached from a `request`: "project.name", and "labels" for both parts of a map.
std::optional<std::string> PathTo(const FieldDescriptor& field, const Descriptor& request,
                                  int depth = 0) {
  for (int i = 0; i < request.field_count(); ++i) {
    const FieldDescriptor& candidate = *request.field(i);
    if (&candidate == &field) return candidate.name();
    const Descriptor* const inner = candidate.message_type();
    if (inner == nullptr || depth == kDepthMax) continue;
    const std::optional<std::string> rest = PathTo(field, *inner, depth + 1);
    if (!rest.has_value()) continue;
    return candidate.is_map() ? candidate.name() : absl::StrCat(candidate.name(), ".", *rest);
  }
  return std::nullopt;
}

}  // namespace

void WatchParsing() { google::protobuf::SetLogHandler(&OnProtobufLog); }

absl::Status ParseError(const Descriptor& request) {
  const FieldDescriptor* const field =
      DescriptorPool::generated_pool()->FindFieldByName(std::exchange(bad_field, ""));
  const std::optional<std::string> path = field == nullptr ? std::nullopt : PathTo(*field, request);
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
