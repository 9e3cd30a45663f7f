#ifndef CALLBOARD_LIBS_CONFIG_SETTING_LIST_H_
#define CALLBOARD_LIBS_CONFIG_SETTING_LIST_H_

#include <google/protobuf/message.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "callboard/config/v1/options.pb.h"

namespace callboard::config {

// Stands for the name of any entry of a map of settings.
inline constexpr char kAnyEntry[] = "<name>";

// One setting: a field that carries the option `setting`, and the way to it.
struct SettingField {
  // As users write it: `queue.max_size`, `flow.lanes.build.max_pending`.
  std::string name;
  // From the settings message down; the last one is the setting itself.
  std::vector<const google::protobuf::FieldDescriptor*> path;
  // The entry of the map that is on the way, or kAnyEntry; empty when there is none.
  std::string entry;
  // Written as in a flag; empty leaves the field at its zero.
  std::string default_text;

  const google::protobuf::FieldDescriptor& field() const { return *path.back(); }
  const v1::Setting& declaration() const { return field().options().GetExtension(v1::setting); }
  bool is_bool() const {
    return field().cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_BOOL;
  }
  // CALLBOARD_QUEUE_MAX_SIZE.
  std::string environment_name() const;
  // The same setting of the entry `which`, in place of kAnyEntry; of no map, the setting itself.
  SettingField OfEntry(absl::string_view which) const;
};

// All settings of a message, in order of declaration; those in a map for kAnyEntry.
std::vector<SettingField> SettingsOf(const google::protobuf::Descriptor& type);
// The same for a message that is filled in; those in a map for each entry that it has.
std::vector<SettingField> SettingsOf(const google::protobuf::Message& config);

// The one of `settings`, as SettingsOf() lists them for a type, that is called `name`: as a flag,
// and as a variable of the environment, where an entry's name is in upper case.
std::optional<SettingField> FindSetting(const std::vector<SettingField>& settings,
                                        absl::string_view name);
std::optional<SettingField> FindVariable(const std::vector<SettingField>& settings,
                                         absl::string_view name);

// The names of all settings; in a map, those of the entry that `name` is about, if it is about one.
std::vector<std::string> NamesLike(const std::vector<SettingField>& settings,
                                   absl::string_view name);

// That `name` is no setting, and which of the `known` ones it most likely means.
std::string UnknownSettingText(absl::string_view name, const std::vector<std::string>& known);

}  // namespace callboard::config

#endif  // CALLBOARD_LIBS_CONFIG_SETTING_LIST_H_
