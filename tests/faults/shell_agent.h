#ifndef CALLBOARD_TESTS_FAULTS_SHELL_AGENT_H_
#define CALLBOARD_TESTS_FAULTS_SHELL_AGENT_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/testing/files.h"

namespace callboard::faults {

inline constexpr char kAgent[] = "services/agent/callboard-agent";

// An address at which nothing listens.
inline constexpr char kNowhere[] = "127.0.0.1:1";

// Flags of an agent that runs scripts and registers at `director`.
inline std::vector<std::string> ShellAgentFlags(const std::string& director) {
  return {"--runner.kind=shell", "--runner.allow_shell", "--agent.name=agent-1",
          absl::StrCat("--director.address=", director),
          absl::StrCat("--data_dir=", test::NewFolder().string())};
}

// A short lease: an agent without heartbeat acknowledgements ends its tasks after three seconds,
// and a director without heartbeats considers them lost after nine.
inline const std::vector<std::string>& ShortLease() {
  static const auto& flags =
      *new std::vector<std::string>{"--lease.heartbeat=1s", "--lease.self_fence=3s",
                                    "--lease.kill_grace=1s", "--lease.redispatch_after=9s"};
  return flags;
}

// A script that runs until `gate` exists.
inline std::string WaitForGate(const std::filesystem::path& gate) {
  return absl::StrCat("while [ ! -e ", gate.string(), " ]; do sleep 0.02; done");
}

}  // namespace callboard::faults

#endif  // CALLBOARD_TESTS_FAULTS_SHELL_AGENT_H_
