#include "services/agent/agent_runner.h"

#include <memory>

#include "libs/adapters/noop_runner/noop_runner.h"

namespace callboard {

absl::StatusOr<agent::AgentDriver::MakeRunner> RunnerFrom(const config::v1::AgentConfig&,
                                                          server::ServerContext&) {
  return [](ports::RunWatcher& watcher) { return std::make_unique<adapters::NoopRunner>(watcher); };
}

}  // namespace callboard
