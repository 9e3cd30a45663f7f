// Settings declared once, as fields of a proto message (proto/callboard/config/v1), and given on
// the command line.
#ifndef CALLBOARD_LIBS_CONFIG_SETTINGS_H_
#define CALLBOARD_LIBS_CONFIG_SETTINGS_H_

#include <google/protobuf/message.h>

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace callboard::config {

// What the help text says about a program beside its settings.
struct Program {
  std::string name;
  // One sentence.
  std::string summary;
  // Command lines worth copying.
  std::vector<std::string> examples;
};

// What a command line asks for.
enum class Ask { kRun, kHelp, kVersion };

// Fills `config`, a settings message, with defaults and then with `arguments` (without the
// program's name): --queue.max_size=50, --queue.max_size 50, --insecure_listen,
// --no-insecure_listen; --help and --version. INVALID_ARGUMENT, with `config` in no defined state,
// for an argument that is no flag, an unknown setting (naming the nearest), a value of the wrong
// type or out of range.
absl::StatusOr<Ask> ParseFlags(std::span<const char* const> arguments,
                               google::protobuf::Message& config);

// The text of --help: examples first, then every setting with its default.
std::string HelpText(const Program& program, const google::protobuf::Descriptor& type);

}  // namespace callboard::config

#endif  // CALLBOARD_LIBS_CONFIG_SETTINGS_H_
