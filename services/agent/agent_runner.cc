#include "services/agent/agent_runner.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "libs/adapters/noop_runner/noop_runner.h"
#include "libs/adapters/subprocess_runner/subprocess_runner.h"
#include "libs/config/settings.h"

namespace callboard {
namespace {

using adapters::SubprocessRunner;
using adapters::SubprocessRunnerOptions;
using config::v1::RunnerConfig;
using RunnerPtr = std::unique_ptr<ports::TaskRunner>;

SubprocessRunnerOptions OptionsFrom(const config::v1::AgentConfig& config) {
  const RunnerConfig& runner = config.runner();
  const bool is_shell = runner.kind() == RunnerConfig::KIND_SHELL;
  return {.kind = is_shell ? SubprocessRunnerOptions::Kind::kShell
                           : SubprocessRunnerOptions::Kind::kExec,
          .argv = {runner.argv().begin(), runner.argv().end()},
          .allow_shell = runner.allow_shell(),
          .environment = config::ProcessEnvironment(),
          .env_allow = {runner.env_allow().begin(), runner.env_allow().end()},
          .data_dir = std::filesystem::absolute(config.data_dir())};
}

}  // namespace

bool HasCommand(const config::v1::AgentConfig& config) {
  return config.runner().kind() != RunnerConfig::KIND_EXEC || !config.runner().argv().empty();
}

ports::MakeRunner RunnerFrom(const config::v1::AgentConfig& config, const ports::Clock& clock) {
  if (config.runner().kind() == RunnerConfig::KIND_NOOP || !HasCommand(config)) {
    return [](ports::RunWatcher& watcher) -> absl::StatusOr<RunnerPtr> {
      return std::make_unique<adapters::NoopRunner>(watcher);
    };
  }
  return [options = OptionsFrom(config), &clock](ports::RunWatcher& watcher) {
    return absl::StatusOr<RunnerPtr>(SubprocessRunner::Create(options, clock, watcher));
  };
}

}  // namespace callboard
