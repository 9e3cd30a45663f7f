#include "libs/testing/random_message.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/timestamp.pb.h>
#include <rapidcheck.h>

#include <limits>
#include <string>

#include "absl/strings/match.h"

namespace callboard::test {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

int64_t Draw(int64_t min, int64_t end) { return *rc::gen::inRange<int64_t>(min, end); }

std::string DrawText(absl::string_view alphabet, size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text += alphabet[Draw(0, alphabet.size())];
  return text;
}

class Filler {
 public:
  explicit Filler(bool wild) : wild_(wild) {}

  void Fill(Message& message) {
    const google::protobuf::Descriptor& type = *message.GetDescriptor();
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      if (field.is_repeated()) {
        const int64_t count = Extreme() ? 70 : Draw(0, 3);
        for (int64_t n = 0; n < count; ++n) Store(message, field);
      } else if (!field.has_presence() || field.name() == "at" || Draw(0, 2) == 1) {
        Store(message, field);
      }
    }
  }

 private:
  // Returns whether to draw a value that no correct sender would write.
  bool Extreme() const { return wild_ && Draw(0, 30) == 0; }

  std::string Text(const FieldDescriptor& field) const {
    if (Extreme()) return std::string(*rc::gen::element<size_t>(0, 1, 300, 40'000, 1'100'000), 'x');
    const std::string& name = field.name();
    if (name == "source")
      return *rc::gen::element<std::string>("", "web", "scheduler", "cli", "api");
    if (name == "retry_on") {
      return *rc::gen::element<std::string>("exit:3", "exit:*", "signal:SIGSEGV", "timeout");
    }
    if (name == "trace_id") return DrawText("0123456789abcdef", 32);
    if (name == "queue_id" || absl::StartsWith(name, "redrive")) {
      if (field.type() == FieldDescriptor::TYPE_BYTES) return DrawText("\x01z\xff", 16);
      return "queue-0" + DrawText("0123456789abcdefghjkmnpqrstvwxyz", 25);
    }
    if (name == "task_id") return "";
    const bool required = name == "prompt" || name == "key";
    // Names have no control characters.
    const bool has_lines = name == "prompt" || name == "why" || name == "result";
    return DrawText(has_lines ? "abcXYZ019 .-_\"\\/\n" : "abcXYZ019 .-_\"\\/",
                    Draw(required ? 1 : 0, 12));
  }

  uint64_t Number(const FieldDescriptor& field) const {
    if (Extreme()) return std::numeric_limits<uint64_t>::max();
    // A message with a dispatch also needs the matching task_id, which random text never is.
    if (field.full_name() == "callboard.v1.Task.dispatch") return 0;
    const bool required = field.name() == "dispatch" || field.name() == "director_epoch";
    return static_cast<uint64_t>(Draw(required ? 1 : 0, 50));
  }

  int EnumNumber(const FieldDescriptor& field) const {
    if (Extreme()) return 99;
    const bool required = field.is_repeated() || field.name() == "state" ||
                          field.name() == "kind" || field.name() == "end" ||
                          field.name() == "failure";
    return static_cast<int>(Draw(required ? 1 : 0, field.enum_type()->value_count()));
  }

  void FillTime(google::protobuf::Timestamp& time) const {
    time.set_seconds(Extreme() ? std::numeric_limits<int64_t>::min() : Draw(0, 4'000'000'000));
    time.set_nanos(Extreme() ? -1 : static_cast<int32_t>(Draw(0, 1'000'000'000)));
  }

  void FillNested(Message& nested) {
    if (auto* time =
            google::protobuf::DynamicCastToGenerated<google::protobuf::Timestamp>(&nested)) {
      FillTime(*time);
    } else {
      Fill(nested);
    }
  }

  // Sets a singular field, or adds to a repeated one.
  void Store(Message& message, const FieldDescriptor& field) {
    const Reflection& reflection = *message.GetReflection();
    const auto store = [&](auto set, auto add, auto value) {
      (reflection.*(field.is_repeated() ? add : set))(&message, &field, value);
    };
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        return store(&Reflection::SetString, &Reflection::AddString, Text(field));
      case FieldDescriptor::CPPTYPE_BOOL:
        return store(&Reflection::SetBool, &Reflection::AddBool,
                     field.name() != "prompt_truncated" ? Draw(0, 2) == 1 : Extreme());
      case FieldDescriptor::CPPTYPE_INT32:
        return store(&Reflection::SetInt32, &Reflection::AddInt32, Number(field));
      case FieldDescriptor::CPPTYPE_INT64:
        return store(&Reflection::SetInt64, &Reflection::AddInt64, Number(field));
      case FieldDescriptor::CPPTYPE_UINT32:
        return store(&Reflection::SetUInt32, &Reflection::AddUInt32, Number(field));
      case FieldDescriptor::CPPTYPE_UINT64:
        return store(&Reflection::SetUInt64, &Reflection::AddUInt64, Number(field));
      case FieldDescriptor::CPPTYPE_ENUM:
        return store(&Reflection::SetEnumValue, &Reflection::AddEnumValue, EnumNumber(field));
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return FillNested(field.is_repeated() ? *reflection.AddMessage(&message, &field)
                                              : *reflection.MutableMessage(&message, &field));
      default:
        RC_FAIL("unexpected field type: " + field.full_name());
    }
  }

  const bool wild_;
};

}  // namespace

void FillRandomly(Message& message) {
  Filler(Draw(0, 2) == 1).Fill(message);
  // Reflection may have added two entries of a map under one key.
  message.ParseFromString(message.SerializeAsString());
}

}  // namespace callboard::test
