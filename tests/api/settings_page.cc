#include "tests/api/settings_page.h"

#include "absl/strings/str_cat.h"
#include "callboard/config/v1/agent.pb.h"
#include "callboard/config/v1/cli.pb.h"
#include "callboard/config/v1/director.pb.h"
#include "callboard/config/v1/scheduler.pb.h"
#include "libs/config/setting_value.h"

namespace callboard {

std::string SettingsPage() {
  using config::ReferenceTable;
  return absl::StrCat(
      "# Settings\n\n"
      "Written by `bazel run //tests/api:write_settings_page > docs/SETTINGS.md`; a test keeps it "
      "current.\n\n"
      "A setting is a flag (`--queue.max_size=50`), a key of the YAML file that `--config` names\n"
      "(`queue:` with `max_size: 50` under it) and an environment variable\n"
      "(`CALLBOARD_QUEUE_MAX_SIZE=50`). A flag wins over the file, the file over the environment, "
      "the\n"
      "environment over the default; `--print_config` shows every value and where it comes from. "
      "In\n"
      "flags and in the environment a list is separated by commas. Durations are written `30s`, "
      "`5m`,\n"
      "`1h30m`.\n\n"
      "`<name>` in a setting is a name that you choose: lower-case letters, digits, `_` and `-`, "
      "the "
      "first\n"
      "a letter or digit, at most 64 of them. In the environment it is in upper case, as in\n"
      "`CALLBOARD_FLOW_LANES_BUILD_MAX_PENDING=20` for the lane `build`, and shells allow no `-` "
      "there.\n\n"
      "An unknown name, in any of them, ends a program with exit code 2 and the nearest name. A\n"
      "variable that is a setting of another of Callboard's programs is left alone.\n\n"
      "Every setting is read once, when a program starts: a change needs a restart. Two things "
      "change\n"
      "without one: the content of the file that `jobs_file` names, which a scheduler reads again "
      "when it\n"
      "changes and on SIGHUP, and the level of the log, by SIGUSR1 (more) and SIGUSR2 (less). "
      "Pauses,\n"
      "drains and cordons are no settings: they are commands, and the director keeps them over "
      "a\n"
      "restart.\n\n"
      "Not every setting has an effect yet; README.md says what is there.\n\n"
      "## callboard-director\n\n",
      ReferenceTable(*config::v1::DirectorConfig::descriptor()), "\n## callboard-agent\n\n",
      ReferenceTable(*config::v1::AgentConfig::descriptor()), "\n## callboard-scheduler\n\n",
      ReferenceTable(*config::v1::SchedulerConfig::descriptor()),
      "\n## callboard\n\nSettings of all commands.\n\n",
      ReferenceTable(*config::v1::CliConfig::descriptor()),
      "\n## callboard dev\n\nDirector, scheduler and two agents in one process.\n\n",
      ReferenceTable(*config::v1::DevConfig::descriptor()));
}

}  // namespace callboard
