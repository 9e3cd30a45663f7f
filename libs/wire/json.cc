#include "libs/wire/json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>
#include <google/protobuf/util/time_util.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/wire/enums.h"
#include "libs/wire/time.h"

namespace callboard::wire {

// ---- Writing ------------------------------------------------------------------------------------

namespace {

using google::protobuf::Descriptor;
using google::protobuf::Duration;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;
using google::protobuf::Timestamp;
using nlohmann::json;

// Returns the shortest text that parses as `number`, or null for an infinity, which JSON lacks.
std::string NumberText(double number) {
  if (!std::isfinite(number)) return "null";
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), number);
  return std::string(text, end);
}

std::string EnumJson(const FieldDescriptor& field, int number) {
  if (number == 0) return "null";
  const auto* value = field.enum_type()->FindValueByNumber(number);
  // An unknown value, sent by a newer peer, is written as a number.
  return value == nullptr ? absl::StrCat(number) : base::JsonQuoted(EnumText(*value));
}

// Timestamps and durations are strings; all other messages are objects.
std::string ValueJson(const Message& message) {
  if (const auto* time = google::protobuf::DynamicCastToGenerated<Timestamp>(&message)) {
    return base::JsonQuoted(google::protobuf::util::TimeUtil::ToString(*time));
  }
  if (const auto* duration = google::protobuf::DynamicCastToGenerated<Duration>(&message)) {
    return base::JsonQuoted(google::protobuf::util::TimeUtil::ToString(*duration));
  }
  return ToJson(message);
}

// Formats a singular field, or one element of a repeated field.
class FieldReader {
 public:
  FieldReader(const Message& message, const FieldDescriptor& field, std::optional<int> index)
      : message_(message), field_(field), index_(index) {}

  std::string Json() const {
    switch (field_.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return absl::StrCat(Get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32));
      case FieldDescriptor::CPPTYPE_INT64:
        return absl::StrCat(Get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64));
      case FieldDescriptor::CPPTYPE_UINT32:
        return absl::StrCat(Get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32));
      case FieldDescriptor::CPPTYPE_UINT64:
        return absl::StrCat(Get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return NumberText(Get(&Reflection::GetDouble, &Reflection::GetRepeatedDouble));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return NumberText(Get(&Reflection::GetFloat, &Reflection::GetRepeatedFloat));
      case FieldDescriptor::CPPTYPE_BOOL:
        return Get(&Reflection::GetBool, &Reflection::GetRepeatedBool) ? "true" : "false";
      case FieldDescriptor::CPPTYPE_ENUM:
        return EnumJson(field_, Get(&Reflection::GetEnumValue, &Reflection::GetRepeatedEnumValue));
      case FieldDescriptor::CPPTYPE_STRING:
        return StringJson(Get(&Reflection::GetString, &Reflection::GetRepeatedString));
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return MessageJson();
    }
    return "null";  // A type of a newer protobuf.
  }

 private:
  template <class T>
  T Get(T (Reflection::*singular)(const Message&, const FieldDescriptor*) const,
        T (Reflection::*repeated)(const Message&, const FieldDescriptor*, int) const) const {
    const Reflection& reflection = *message_.GetReflection();
    return index_.has_value() ? (reflection.*repeated)(message_, &field_, *index_)
                              : (reflection.*singular)(message_, &field_);
  }

  std::string StringJson(const std::string& text) const {
    return base::JsonQuoted(field_.type() == FieldDescriptor::TYPE_BYTES ? absl::Base64Escape(text)
                                                                         : text);
  }

  std::string MessageJson() const {
    const Reflection& reflection = *message_.GetReflection();
    return ValueJson(index_.has_value() ? reflection.GetRepeatedMessage(message_, &field_, *index_)
                                        : reflection.GetMessage(message_, &field_));
  }

  const Message& message_;
  const FieldDescriptor& field_;
  const std::optional<int> index_;
};

// Formats the entries of a map as an object, sorted by key.
std::string MapJson(const Message& message, const FieldDescriptor& field) {
  std::map<std::string, std::string> members;
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    const FieldDescriptor& key = *field.message_type()->map_key();
    members[entry.GetReflection()->GetString(entry, &key)] =
        FieldReader(entry, *field.message_type()->map_value(), std::nullopt).Json();
  }
  const auto member = [](std::string* out, const auto& entry) {
    absl::StrAppend(out, base::JsonQuoted(entry.first), ":", entry.second);
  };
  return absl::StrCat("{", absl::StrJoin(members, ",", member), "}");
}

std::string FieldJson(const Message& message, const FieldDescriptor& field) {
  if (field.is_map()) return MapJson(message, field);
  if (!field.is_repeated()) {
    if (field.has_presence() && !message.GetReflection()->HasField(message, &field)) return "null";
    return FieldReader(message, field, std::nullopt).Json();
  }
  std::string elements;
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
    absl::StrAppend(&elements, i == 0 ? "" : ",", FieldReader(message, field, i).Json());
  }
  return absl::StrCat("[", elements, "]");
}

}  // namespace

std::string ToJson(const Message& message) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  std::vector<std::string> members;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const bool unset_choice = field.real_containing_oneof() != nullptr &&
                              !message.GetReflection()->HasField(message, &field);
    if (unset_choice) continue;
    members.push_back(absl::StrCat(base::JsonQuoted(field.name()), ":", FieldJson(message, field)));
  }
  return absl::StrCat("{", absl::StrJoin(members, ","), "}");
}

// ---- Reading ------------------------------------------------------------------------------------

namespace {

// Deeper than any message. Bounds the recursion over the tree.
constexpr size_t kDepthMax = 64;

std::string MemberPath(const std::string& path, absl::string_view name) {
  return absl::StrCat(path, path.empty() ? "" : ".", base::EscapeForError(name));
}

std::string ElementPath(const std::string& path, size_t index) {
  return absl::StrCat(path, "[", index, "]");
}

// Returns an error at `path`, which is empty for the whole document.
absl::Status ErrorAt(const std::string& path, const std::string& description) {
  if (path.empty()) return absl::InvalidArgumentError(description);
  return base::WithFieldViolation(absl::InvalidArgumentError(absl::StrCat(path, ": ", description)),
                                  path, description);
}

std::string TypeText(const json& value) {
  if (value.is_null()) return "null";
  return absl::StrCat(value.is_array() || value.is_object() ? "an " : "a ", value.type_name());
}

absl::Status TypeError(const std::string& path, const json& value, absl::string_view expected) {
  return ErrorAt(path, absl::StrCat("expected ", expected, ", found ", TypeText(value)));
}

// Parses a text into a tree. Unlike nlohmann's own parser, it rejects duplicate members and bounds
// the nesting.
class TreeBuilder : public nlohmann::json_sax<json> {
 public:
  explicit TreeBuilder(absl::string_view text) : text_(text) {}

  absl::StatusOr<json> Build() {
    // nlohmann treats a NUL byte as the end of the text.
    const size_t nul = text_.find('\0');
    if (nul != absl::string_view::npos) return NotJson(nul + 1);
    json::sax_parse(text_.begin(), text_.end(), this);
    if (!error_.ok()) return error_;
    return std::move(root_);
  }

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(int64_t value) override { return Add(value); }
  bool number_unsigned(uint64_t value) override { return Add(value); }
  bool number_float(double value, const std::string& /*text*/) override { return Add(value); }
  bool string(std::string& value) override { return Add(std::move(value)); }
  bool binary(binary_t& value) override { return Add(std::move(value)); }
  bool start_object(size_t /*size*/) override { return Open(json::object()); }
  bool start_array(size_t /*size*/) override { return Open(json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(std::string& name) override {
    const bool repeated = open_.back().value.contains(name);
    open_.back().member = std::move(name);
    return !repeated || Fail(ErrorAt(Path(), "duplicate key"));
  }

  bool parse_error(size_t position, const std::string& /*token*/,
                   const json::exception& error) override {
    constexpr int kNumberOverflow = 406;
    return Fail(error.id == kNumberOverflow ? ErrorAt(Path(), "found a number beyond any range")
                                            : NotJson(position));
  }

 private:
  // An object or array whose end has not been parsed yet.
  struct OpenValue {
    json value;
    std::string member;  // The current member, if `value` is an object.
  };

  bool Add(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (json& holder = open_.back().value; holder.is_array()) {
      holder.push_back(std::move(value));
    } else {
      holder[open_.back().member] = std::move(value);
    }
    return true;
  }

  bool Open(json value) {
    if (open_.size() == kDepthMax) {
      return Fail(ErrorAt("", absl::StrCat("JSON is nested deeper than ", kDepthMax, " levels")));
    }
    open_.push_back({std::move(value), ""});
    return true;
  }

  bool Close() {
    json value = std::move(open_.back().value);
    open_.pop_back();
    return Add(std::move(value));
  }

  // Stops the parser with an error. Returns false.
  bool Fail(absl::Status error) {
    error_ = std::move(error);
    return false;
  }

  // Returns the path of the current value.
  std::string Path() const {
    std::string path;
    for (const auto& [value, member] : open_) {
      path = value.is_array() ? ElementPath(path, value.size()) : MemberPath(path, member);
    }
    return path;
  }

  // `position` counts bytes from 1. Does not use nlohmann's message, because that quotes the text.
  absl::Status NotJson(size_t position) const {
    const absl::string_view before = text_.substr(0, position - 1);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t column = position - (before.rfind('\n') + 1);
    return ErrorAt("", absl::StrCat("not JSON in UTF-8 at line ", line, ", column ", column,
                                    position > text_.size() ? ": unexpected end of input" : ""));
  }

  const absl::string_view text_;
  json root_;
  std::vector<OpenValue> open_;
  absl::Status error_;
};

bool ParseTimestamp(const std::string& text, Timestamp& timestamp) {
  const std::optional<absl::Time> time = ParseTime(text);
  if (time.has_value()) timestamp = ToProto(*time);
  return time.has_value();
}

// Accepts only seconds, unlike Abseil, so that each duration has one spelling.
bool ParseDuration(const std::string& text, Duration& proto) {
  absl::Duration duration;
  if (!absl::EndsWith(text, "s") || text.find_first_not_of("-.0123456789") != text.size() - 1 ||
      !absl::ParseDuration(text, &duration)) {
    return false;
  }
  proto = ToProto(duration);
  return FromProto(proto).has_value();
}

// Stricter than Abseil, which also accepts white space and missing padding.
bool ParseBase64(const std::string& text, std::string& bytes) {
  return absl::Base64Unescape(text, &bytes) && absl::Base64Escape(bytes) == text;
}

absl::Status ReadObject(const json& object, const std::string& path, Message& message);

// Stores a value in a singular field, or adds it to a repeated one.
class FieldWriter {
 public:
  // `path` is the path of the value.
  FieldWriter(Message& message, const FieldDescriptor& field, const std::string& path)
      : message_(message), field_(field), path_(path) {}

  absl::Status Write(const json& value) const {
    switch (field_.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return WriteInteger(value, &Reflection::SetInt32, &Reflection::AddInt32);
      case FieldDescriptor::CPPTYPE_INT64:
        return WriteInteger(value, &Reflection::SetInt64, &Reflection::AddInt64);
      case FieldDescriptor::CPPTYPE_UINT32:
        return WriteInteger(value, &Reflection::SetUInt32, &Reflection::AddUInt32);
      case FieldDescriptor::CPPTYPE_UINT64:
        return WriteInteger(value, &Reflection::SetUInt64, &Reflection::AddUInt64);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return WriteReal(value, &Reflection::SetDouble, &Reflection::AddDouble);
      case FieldDescriptor::CPPTYPE_FLOAT:
        return WriteReal(value, &Reflection::SetFloat, &Reflection::AddFloat);
      case FieldDescriptor::CPPTYPE_BOOL:
        if (!value.is_boolean()) return TypeError(path_, value, "true or false");
        return Store(value.get<bool>(), &Reflection::SetBool, &Reflection::AddBool);
      case FieldDescriptor::CPPTYPE_ENUM:
        return WriteEnum(value);
      case FieldDescriptor::CPPTYPE_STRING:
        return WriteString(value);
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return WriteMessage(value);
    }
    return absl::InternalError("a type of a newer protobuf");
  }

 private:
  template <class T>
  using Setter = void (Reflection::*)(Message*, const FieldDescriptor*, T) const;

  template <class T>
  absl::Status Store(T value, Setter<T> set, Setter<T> add) const {
    (message_.GetReflection()->*(field_.is_repeated() ? add : set))(&message_, &field_,
                                                                    std::move(value));
    return absl::OkStatus();
  }

  absl::Status NumberError(const json& value, absl::string_view expected) const {
    if (!value.is_number()) return TypeError(path_, value, expected);
    return ErrorAt(path_, absl::StrCat("expected ", expected, ", found ", value.dump()));
  }

  template <class T>
  absl::Status WriteInteger(const json& value, Setter<T> set, Setter<T> add) const {
    const bool fits = value.is_number_unsigned()
                          ? std::in_range<T>(value.get<uint64_t>())
                          : value.is_number_integer() && std::in_range<T>(value.get<int64_t>());
    if (fits) return Store(value.get<T>(), set, add);
    return NumberError(value, absl::StrCat("an integer in ", std::numeric_limits<T>::min(), "..",
                                           std::numeric_limits<T>::max()));
  }

  template <class T>
  absl::Status WriteReal(const json& value, Setter<T> set, Setter<T> add) const {
    const bool fits =
        value.is_number() && std::abs(value.get<double>()) <= double{std::numeric_limits<T>::max()};
    return fits ? Store(value.get<T>(), set, add) : NumberError(value, "a number");
  }

  absl::Status WriteEnum(const json& value) const {
    // The writer had no name for this value. This program may be newer and have one.
    if (value.is_number()) {
      return WriteInteger(value, &Reflection::SetEnumValue, &Reflection::AddEnumValue);
    }
    const std::string expected = absl::StrJoin(EnumTexts(*field_.enum_type()), "|");
    if (!value.is_string()) return TypeError(path_, value, expected);
    const auto& text = value.get_ref<const std::string&>();
    const auto* named = FindEnumValue(*field_.enum_type(), text);
    if (named == nullptr) {
      return ErrorAt(
          path_, absl::StrCat("expected ", expected, ", found '", base::EscapeForError(text), "'"));
    }
    return Store(named->number(), &Reflection::SetEnumValue, &Reflection::AddEnumValue);
  }

  absl::Status WriteString(const json& value) const {
    const bool is_bytes = field_.type() == FieldDescriptor::TYPE_BYTES;
    if (!value.is_string()) return TypeError(path_, value, is_bytes ? "base64" : "a string");
    std::string text = value.get<std::string>();
    if (is_bytes && !ParseBase64(value.get_ref<const std::string&>(), text)) {
      return ErrorAt(path_, "expected base64 with padding, found another string");
    }
    return Store(std::move(text), &Reflection::SetString, &Reflection::AddString);
  }

  absl::Status WriteMessage(const json& value) const {
    const Reflection& reflection = *message_.GetReflection();
    Message* target = field_.is_repeated() ? reflection.AddMessage(&message_, &field_)
                                           : reflection.MutableMessage(&message_, &field_);
    if (auto* time = google::protobuf::DynamicCastToGenerated<Timestamp>(target)) {
      return WriteParsed(value, "a time such as \"2026-01-02T03:04:05Z\"", ParseTimestamp, *time);
    }
    if (auto* duration = google::protobuf::DynamicCastToGenerated<Duration>(target)) {
      return WriteParsed(value, "a duration in seconds such as \"1.5s\"", ParseDuration, *duration);
    }
    return ReadObject(value, path_, *target);
  }

  template <class T>
  absl::Status WriteParsed(const json& value, absl::string_view expected,
                           bool (*parse)(const std::string&, T&), T& target) const {
    if (!value.is_string()) return TypeError(path_, value, expected);
    if (parse(value.get_ref<const std::string&>(), target)) return absl::OkStatus();
    return ErrorAt(path_, absl::StrCat("expected ", expected, ", found another string"));
  }

  Message& message_;
  const FieldDescriptor& field_;
  const std::string& path_;
};

absl::Status ReadMap(const json& object, const FieldDescriptor& field, const std::string& path,
                     Message& message) {
  if (!object.is_object()) return TypeError(path, object, "an object");
  for (const auto& [key, value] : object.items()) {
    Message& entry = *message.GetReflection()->AddMessage(&message, &field);
    entry.GetReflection()->SetString(&entry, field.message_type()->map_key(), key);
    const std::string value_path = MemberPath(path, key);
    RETURN_IF_ERROR(
        FieldWriter(entry, *field.message_type()->map_value(), value_path).Write(value));
  }
  return absl::OkStatus();
}

absl::Status ReadList(const json& array, const FieldDescriptor& field, const std::string& path,
                      Message& message) {
  if (!array.is_array()) return TypeError(path, array, "an array");
  for (size_t i = 0; i < array.size(); ++i) {
    const std::string element_path = ElementPath(path, i);
    RETURN_IF_ERROR(FieldWriter(message, field, element_path).Write(array[i]));
  }
  return absl::OkStatus();
}

absl::Status ReadField(const json& value, const FieldDescriptor& field, const std::string& path,
                       Message& message) {
  if (value.is_null()) return absl::OkStatus();  // The same as a missing member.
  if (field.is_map()) return ReadMap(value, field, path, message);
  if (field.is_repeated()) return ReadList(value, field, path, message);
  if (const OneofDescriptor* oneof = field.real_containing_oneof()) {
    const auto* other = message.GetReflection()->GetOneofFieldDescriptor(message, oneof);
    if (other != nullptr) {
      return ErrorAt(
          path, absl::StrCat("'", other->name(), "' is also given; expected only one of them"));
    }
  }
  return FieldWriter(message, field, path).Write(value);
}

absl::Status UnknownMember(absl::string_view name, const std::string& path,
                           const Descriptor& type) {
  std::vector<std::string> known;
  for (int i = 0; i < type.field_count(); ++i) known.push_back(type.field(i)->name());
  const std::string nearest = base::Nearest(name, known);
  return ErrorAt(MemberPath(path, name),
                 nearest.empty()
                     ? absl::StrCat("unknown; ", type.full_name(), " has no such field")
                     : absl::StrCat("unknown; did you mean '", MemberPath(path, nearest), "'?"));
}

absl::Status ReadObject(const json& object, const std::string& path, Message& message) {
  if (!object.is_object()) return TypeError(path, object, "an object");
  for (const auto& [name, value] : object.items()) {
    const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr) return UnknownMember(name, path, *message.GetDescriptor());
    RETURN_IF_ERROR(ReadField(value, *field, MemberPath(path, name), message));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FromJson(absl::string_view text, Message& message) {
  ASSIGN_OR_RETURN(const json tree, TreeBuilder(text).Build());
  const std::unique_ptr<Message> read(message.New());
  RETURN_IF_ERROR(ReadObject(tree, "", *read));
  message.GetReflection()->Swap(&message, read.get());
  return absl::OkStatus();
}

}  // namespace callboard::wire
