#include "libs/adapters/jobs_file/task_fields.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "callboard/v1/queue.pb.h"
#include "libs/base/json_quoted.h"
#include "libs/base/status_macros.h"
#include "libs/core/limits.h"
#include "libs/wire/json_reader.h"
#include "libs/wire/task.h"

namespace callboard::adapters {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// A few times what a task may have: so much can aliases make of a small file.
constexpr size_t kJsonBytesMax = 4 * core::kBodyBytesMax;
constexpr int kDepthMax = 16;

// Times of one task would be wrong for the next.
const std::set<std::string>& FieldsOfTheScheduler() {
  static const auto& names = *new std::set<std::string>{
      "request_id", "source",        "source_job",        "policy",     "ticket",
      "overlap",    "validate_only", "earliest_start_at", "deadline_at"};
  return names;
}

// YAML as the JSON that a message is read from. YAML does not say what is a text and what a number;
// the field does.
class JsonWriter {
 public:
  // `field` is null where there is none: the reader of the JSON refuses it.
  absl::Status Write(const YAML::Node& value, const FieldDescriptor* field, int depth = 0) {
    if (json_.size() > kJsonBytesMax || depth > kDepthMax) {
      return absl::InvalidArgumentError("its task is larger, or nested deeper, than any may be");
    }
    switch (value.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        json_ += "null";
        break;
      case YAML::NodeType::Scalar:
        json_ += Literal(value.Scalar(), field);
        break;
      case YAML::NodeType::Sequence: {
        char separator = '[';
        for (const YAML::Node& element : value) {
          json_ += std::exchange(separator, ',');
          RETURN_IF_ERROR(Write(element, field, depth + 1));
        }
        json_ += separator == '[' ? "[]" : "]";
        break;
      }
      case YAML::NodeType::Map: {
        char separator = '{';
        for (const auto& entry : value) {
          absl::StrAppend(&json_, std::string(1, std::exchange(separator, ',')),
                          base::JsonQuoted(entry.first.Scalar()), ":");
          RETURN_IF_ERROR(Write(entry.second, FieldIn(field, entry.first.Scalar()), depth + 1));
        }
        json_ += separator == '{' ? "{}" : "}";
        break;
      }
    }
    return absl::OkStatus();
  }

  std::string& json() { return json_; }

 private:
  static const FieldDescriptor* FieldIn(const FieldDescriptor* field, const std::string& name) {
    if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return nullptr;
    return field->is_map() ? field->message_type()->map_value()
                           : field->message_type()->FindFieldByName(name);
  }

  static std::string Literal(const std::string& text, const FieldDescriptor* field) {
    if (field == nullptr) return base::JsonQuoted(text);
    if (field->type() == FieldDescriptor::TYPE_BYTES) {
      return base::JsonQuoted(absl::Base64Escape(text));
    }
    const bool is_bool = field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL;
    if (is_bool && (text == "true" || text == "false")) return text;
    int64_t number = 0;
    const bool is_number = field->cpp_type() == FieldDescriptor::CPPTYPE_UINT32;
    if (is_number && absl::SimpleAtoi(text, &number)) return absl::StrCat(number);
    return base::JsonQuoted(text);
  }

  std::string json_;
};

}  // namespace

std::vector<std::string> TaskFieldNames() {
  std::vector<std::string> names;
  const Descriptor& type = *v1::SubmitTaskRequest::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const std::string& name = type.field(i)->name();
    if (!FieldsOfTheScheduler().contains(name)) names.push_back(name);
  }
  return names;
}

absl::StatusOr<core::TaskSpec> ReadTaskFields(const std::map<std::string, YAML::Node>& fields) {
  JsonWriter writer;
  for (const auto& [name, value] : fields) {
    absl::StrAppend(&writer.json(), writer.json().empty() ? "{" : ",", base::JsonQuoted(name), ":");
    RETURN_IF_ERROR(
        writer.Write(value, v1::SubmitTaskRequest::descriptor()->FindFieldByName(name)));
  }
  v1::SubmitTaskRequest request;
  if (!fields.empty()) RETURN_IF_ERROR(wire::FromJson(writer.json() + "}", request));
  ASSIGN_OR_RETURN(core::Submission submission, wire::FromProto(request));
  return std::move(submission.spec);
}

}  // namespace callboard::adapters
