// Values of settings, between text and the message that holds them.
#ifndef CALLBOARD_LIBS_CONFIG_SETTING_VALUE_H_
#define CALLBOARD_LIBS_CONFIG_SETTING_VALUE_H_

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libs/config/setting_list.h"

namespace callboard::config {

// Each stores a value in `config`, in place of the one before. INVALID_ARGUMENT says what was
// wanted when it is of the wrong type or out of range.
//
// From text, in which a list is separated by commas: `50`, `30s`, `drop-oldest`, `default=1,big=2`.
absl::Status AssignText(const SettingField& setting, absl::string_view text,
                        google::protobuf::Message& config);
// From the elements of a list or map (`key=value` each); any other setting takes exactly one.
absl::Status AssignElements(const SettingField& setting, const std::vector<std::string>& elements,
                            google::protobuf::Message& config);

// The value as AssignText() takes it; `(set)` or `(not set)` for a secret.
std::string ValueText(const SettingField& setting, const google::protobuf::Message& config);

// What may be given: `text`, `true|false`, `0..10000000`, `reject|block`, `1s..10m`.
std::string WantedText(const SettingField& setting);

}  // namespace callboard::config

#endif  // CALLBOARD_LIBS_CONFIG_SETTING_VALUE_H_
