#ifndef CALLBOARD_LIBS_CONFIG_SETTING_LIST_H_
#define CALLBOARD_LIBS_CONFIG_SETTING_LIST_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "callboard/config/v1/options.pb.h"

namespace callboard::config {

// One setting: a field that carries the option `setting`, and the way to it.
struct SettingField {
  // As users write it: `queue.max_size`.
  std::string name;
  // From the settings message down; the last one is the setting itself.
  std::vector<const google::protobuf::FieldDescriptor*> path;

  const google::protobuf::FieldDescriptor& field() const { return *path.back(); }
  const v1::Setting& declaration() const { return field().options().GetExtension(v1::setting); }
  bool is_bool() const {
    return field().cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_BOOL;
  }
};

// All settings of a message, in order of declaration.
std::vector<SettingField> SettingsOf(const google::protobuf::Descriptor& type);

// Parses `text` and stores it in `config`. INVALID_ARGUMENT, changing nothing, says what was wanted
// when `text` is of the wrong type or out of range.
absl::Status Assign(const SettingField& setting, absl::string_view text,
                    google::protobuf::Message& config);

// What may be given for the setting: `text`, `true|false`, `0..10000000`, `reject|block`.
std::string WantedText(const SettingField& setting);

// The name of the setting that `name` most likely means; empty when none is near.
std::string NearestName(absl::string_view name, const std::vector<SettingField>& settings);

}  // namespace callboard::config

#endif  // CALLBOARD_LIBS_CONFIG_SETTING_LIST_H_
