#ifndef CALLBOARD_LIBS_CONFIG_SETTING_LIST_H_
#define CALLBOARD_LIBS_CONFIG_SETTING_LIST_H_

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "callboard/config/v1/options.pb.h"

namespace callboard::config {

// One setting: a field that carries the option `setting`, and the way to it.
struct SettingField {
  // As users write it: `queue.max_size`.
  std::string name;
  // From the settings message down; the last one is the setting itself.
  std::vector<const google::protobuf::FieldDescriptor*> path;
  // Written as in a flag; empty leaves the field at its zero.
  std::string default_text;

  const google::protobuf::FieldDescriptor& field() const { return *path.back(); }
  const v1::Setting& declaration() const { return field().options().GetExtension(v1::setting); }
  bool is_bool() const {
    return field().cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_BOOL;
  }
  // CALLBOARD_QUEUE_MAX_SIZE.
  std::string environment_name() const;
};

// All settings of a message, in order of declaration.
std::vector<SettingField> SettingsOf(const google::protobuf::Descriptor& type);

// The setting called `name`; null when there is none.
const SettingField* FindSetting(const std::vector<SettingField>& settings, absl::string_view name);

std::vector<std::string> NamesOf(const std::vector<SettingField>& settings);

// That `name` is no setting, and which of the `known` ones it most likely means.
std::string UnknownSettingText(absl::string_view name, const std::vector<std::string>& known);

}  // namespace callboard::config

#endif  // CALLBOARD_LIBS_CONFIG_SETTING_LIST_H_
