#ifndef CALLBOARD_TESTS_SIMULATION_GAUGES_H_
#define CALLBOARD_TESTS_SIMULATION_GAUGES_H_

#include <functional>
#include <string>
#include <utility>

#include "libs/director/engine.h"
#include "libs/director/observer.h"

namespace callboard::simulation {

// Records the latest values that a director reports to its observer.
class Gauges final : public director::Observer {
 public:
  // `on_agents` is called with every new agent count.
  explicit Gauges(std::function<void(const director::AgentCounts&)> on_agents)
      : on_agents_(std::move(on_agents)) {}

  void OnService(director::Service now, const absl::Status&) override { service_ = now; }
  void OnCommit(size_t, absl::Duration) override {}
  void OnTurn(absl::Span<const core::Record>, absl::Span<const director::TaskStep>) override {}
  void OnOrphans(absl::Span<const director::OrphanResult>) override {}
  void OnStateChange(const director::QueueLevels& now) override { levels_ = now; }
  void OnAgents(const director::AgentCounts& now) override { on_agents_(now); }

  director::Service service() const { return service_; }
  const director::QueueLevels& levels() const { return levels_; }

 private:
  const std::function<void(const director::AgentCounts&)> on_agents_;
  director::Service service_ = director::Service::kNone;
  director::QueueLevels levels_;
};

std::string ToText(const director::QueueLevels& levels);

// Compares the shown agent counts with a recount of the engine's agents. Returns the difference, or
// an empty string if they agree.
std::string FindMismatch(const director::AgentCounts& shown,
                         const director::DirectorEngine& engine);

}  // namespace callboard::simulation

#endif  // CALLBOARD_TESTS_SIMULATION_GAUGES_H_
