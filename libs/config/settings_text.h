// Settings as people read them.
#ifndef CALLBOARD_LIBS_CONFIG_SETTINGS_TEXT_H_
#define CALLBOARD_LIBS_CONFIG_SETTINGS_TEXT_H_

#include <google/protobuf/message.h>

#include <map>
#include <string>
#include <vector>

namespace callboard::config {

// What the help text says about a program beside its settings.
struct Program {
  std::string name;
  // One sentence.
  std::string summary;
  // Command lines worth copying.
  std::vector<std::string> examples;
};

// A setting as a flag.
struct FlagText {
  // --queue.max_size
  std::string flag;
  // What may be given: `0..10000000`, `reject|block`.
  std::string wanted;
  // Empty when there is none.
  std::string default_text;
  std::string help;
};

// The settings of a message as flags, in order of declaration.
std::vector<FlagText> FlagsOf(const google::protobuf::Descriptor& type);

// The text of --help: examples first, then every setting with its default.
std::string HelpText(const Program& program, const google::protobuf::Descriptor& type);

// The text of --print_config: every setting with its value and where it came from. Secrets are not
// shown.
std::string PrintedConfig(const google::protobuf::Message& config,
                          const std::map<std::string, std::string>& origins);

// A table of all settings of a binary, for the reference page.
std::string ReferenceTable(const google::protobuf::Descriptor& type);

}  // namespace callboard::config

#endif  // CALLBOARD_LIBS_CONFIG_SETTINGS_TEXT_H_
