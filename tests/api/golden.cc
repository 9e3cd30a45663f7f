#include "tests/api/golden.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <cstdint>
#include <set>

#include "absl/strings/str_cat.h"
#include "callboard/v1/agent.pb.h"
#include "callboard/v1/fleet.pb.h"
#include "callboard/v1/queue.pb.h"
#include "callboard/v1/scheduler.pb.h"
#include "libs/base/text.h"
#include "libs/wire/json.h"

namespace callboard {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::Duration;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::Timestamp;

// Messages below this depth stay absent.
constexpr int kDepthMax = 4;
// Number of elements of lists and maps.
constexpr int kElements = 2;
// 2026-01-01T00:00:00Z.
constexpr int64_t kNewYear = 1'767'225'600;

// Adds the files of the services and their imports from callboard.v1.
void AddFile(const FileDescriptor& file, std::set<const FileDescriptor*>& files) {
  if (file.package() != "callboard.v1" || !files.insert(&file).second) return;
  for (int i = 0; i < file.dependency_count(); ++i) AddFile(*file.dependency(i), files);
}

void AddTypes(const Descriptor& type, std::vector<const Descriptor*>& types) {
  if (type.options().map_entry()) return;
  types.push_back(&type);
  for (int i = 0; i < type.nested_type_count(); ++i) AddTypes(*type.nested_type(i), types);
}

void Fill(Message& message, int index, int depth);

// Sets a field, or adds to a repeated one, with a value that depends on field number and `index`.
void FillField(const FieldDescriptor& field, int index, int depth, Message& message) {
  const Reflection& reflection = *message.GetReflection();
  const int number = field.number() + 1000 * index;
  const auto store = [&](auto set, auto add, auto value) {
    (reflection.*(field.is_repeated() ? add : set))(&message, &field, value);
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return store(&Reflection::SetInt32, &Reflection::AddInt32, -number);
    case FieldDescriptor::CPPTYPE_INT64:
      return store(&Reflection::SetInt64, &Reflection::AddInt64, -number);
    case FieldDescriptor::CPPTYPE_UINT32:
      return store(&Reflection::SetUInt32, &Reflection::AddUInt32, number);
    case FieldDescriptor::CPPTYPE_UINT64:
      return store(&Reflection::SetUInt64, &Reflection::AddUInt64, number);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return store(&Reflection::SetDouble, &Reflection::AddDouble, number + 0.1);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return store(&Reflection::SetFloat, &Reflection::AddFloat, number + 0.1f);
    case FieldDescriptor::CPPTYPE_BOOL:
      return store(&Reflection::SetBool, &Reflection::AddBool, true);
    case FieldDescriptor::CPPTYPE_ENUM: {
      // Any value except the first, which is unspecified.
      const int value = 1 + number % (field.enum_type()->value_count() - 1);
      return store(&Reflection::SetEnum, &Reflection::AddEnum, field.enum_type()->value(value));
    }
    case FieldDescriptor::CPPTYPE_STRING:
      return store(&Reflection::SetString, &Reflection::AddString,
                   absl::StrCat(field.name(), " ", index + 1));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  if (depth == kDepthMax) return;
  Message& child = field.is_repeated() ? *reflection.AddMessage(&message, &field)
                                       : *reflection.MutableMessage(&message, &field);
  if (auto* time = google::protobuf::DynamicCastToGenerated<Timestamp>(&child)) {
    time->set_seconds(kNewYear + number);
    time->set_nanos(1);
  } else if (auto* duration = google::protobuf::DynamicCastToGenerated<Duration>(&child)) {
    duration->set_seconds(number);
    duration->set_nanos(500'000'000);
  } else {
    Fill(child, index, depth + 1);
  }
}

// Sets every field; of each oneof only the member number `index`.
void Fill(Message& message, int index, int depth) {
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const auto* oneof = field.real_containing_oneof();
    if (oneof != nullptr && field.index_in_oneof() != index % oneof->field_count()) continue;
    for (int j = 0; j < (field.is_repeated() ? kElements : 1); ++j) {
      FillField(field, index + j, depth, message);
    }
  }
}

std::vector<Example> ExamplesOf(const Descriptor& type) {
  const auto& prototype =
      *google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type);
  std::vector<Example> examples;
  const auto add = [&](const std::string& name, int index) {
    examples.push_back({name, std::unique_ptr<Message>(prototype.New())});
    Fill(*examples.back().message, index, 0);
  };
  for (int i = 0; i < type.real_oneof_decl_count(); ++i) {
    for (int j = 0; j < type.oneof_decl(i)->field_count(); ++j) {
      add(absl::StrCat(type.full_name(), " (", type.oneof_decl(i)->field(j)->name(), ")"), j);
    }
  }
  if (examples.empty()) add(type.full_name(), 0);
  return examples;
}

// Returns the JSON object `text`, whose strings contain no quotes, with each of its members on a
// separate line.
std::string MemberLines(const std::string& text) {
  if (text == "{}") return text;
  std::string lines;
  int depth = 0;
  bool in_string = false;
  for (const char c : text) {
    if (c == '"') in_string = !in_string;
    if (!in_string && (c == '{' || c == '[')) ++depth;
    if (!in_string && (c == '}' || c == ']')) --depth;
    if (depth == 0) lines += "\n  ";
    lines += c;
    if (in_string || depth != 1) continue;
    if (c == '{' || c == ',') lines += "\n    ";
    if (c == ':') lines += ' ';
  }
  return lines;
}

}  // namespace

std::map<std::string, std::vector<Example>> ApiExamples() {
  std::set<const FileDescriptor*> files;
  for (const Descriptor* type : {v1::AgentRun::descriptor(), v1::Agent::descriptor(),
                                 v1::QueueStatus::descriptor(), v1::Job::descriptor()}) {
    AddFile(*type->file(), files);
  }
  std::map<std::string, std::vector<Example>> examples;
  for (const FileDescriptor* file : files) {
    std::vector<const Descriptor*> types;
    for (int i = 0; i < file->message_type_count(); ++i) AddTypes(*file->message_type(i), types);
    const size_t name = file->name().rfind('/') + 1;
    const std::string stem = file->name().substr(name, file->name().rfind('.') - name);
    for (const Descriptor* type : types) {
      for (Example& example : ExamplesOf(*type)) {
        examples[stem + ".json"].push_back(std::move(example));
      }
    }
  }
  return examples;
}

std::string GoldenText(const std::vector<Example>& examples) {
  std::string text;
  for (const Example& example : examples) {
    absl::StrAppend(&text, text.empty() ? "{\n" : ",\n", "  ", base::JsonQuoted(example.name), ": ",
                    MemberLines(wire::ToJson(*example.message)));
  }
  return text + "\n}\n";
}

}  // namespace callboard
