// Settings declared once, as fields of a proto message (proto/callboard/config/v1), and given as
// flags, in a YAML file or in the environment.
#ifndef CALLBOARD_LIBS_CONFIG_SETTINGS_H_
#define CALLBOARD_LIBS_CONFIG_SETTINGS_H_

#include <google/protobuf/message.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace callboard::config {

// Where settings come from.
struct Sources {
  // Without the program's name.
  std::span<const char* const> arguments;
  // All of it; only what begins with CALLBOARD_ is looked at.
  std::map<std::string, std::string> environment;
};

// What a command line asks for.
enum class Ask { kRun, kHelp, kVersion, kPrintConfig };

struct LoadedSettings {
  Ask ask = Ask::kRun;
  // By setting: `default`, `environment CALLBOARD_QUEUE_MAX_SIZE`, `file callboard.yaml:3`, `flag`.
  // Of a map's entries only what was given.
  std::map<std::string, std::string> origins;
};

// Fills `config`, a settings message. A flag wins over the file, the file over the environment, the
// environment over the default.
//
// Flags are --queue.max_size=50 or --queue.max_size 50; for a boolean also --insecure_listen and
// --no-insecure_listen; a list is separated by commas. --config names the file. --help, --version
// and --print_config ask for something else than to run.
//
// An entry of a map of settings is there, with the defaults of its settings, once one of them is
// given: --flow.lanes.build.max_pending=20. Its name is of lower-case letters, digits, _ and -; the
// environment has it in upper case, CALLBOARD_FLOW_LANES_BUILD_MAX_PENDING, and shells allow no -
// there.
//
// INVALID_ARGUMENT, with `config` in no defined state, for what is no flag, an unknown setting
// (naming the nearest), a value of the wrong type or out of range; it names the place.
absl::StatusOr<LoadedSettings> LoadSettings(const Sources& sources,
                                            google::protobuf::Message& config);

// The environment of this process.
std::map<std::string, std::string> ProcessEnvironment();

}  // namespace callboard::config

#endif  // CALLBOARD_LIBS_CONFIG_SETTINGS_H_
