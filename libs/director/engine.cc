#include "libs/director/engine.h"

namespace callboard::director {

std::vector<Event> DirectorEngine::Decide(const Command& command) const {
  struct Decider {
    std::vector<Event> operator()(const BeginDrain&) const {
      if (engine.draining_) return {};
      return {DrainBegan{}};
    }
    const DirectorEngine& engine;
  };
  return std::visit(Decider{*this}, command);
}

void DirectorEngine::Apply(const Event& event) {
  struct Applier {
    void operator()(const DrainBegan&) const { engine.draining_ = true; }
    DirectorEngine& engine;
  };
  std::visit(Applier{*this}, event);
}

core::QueueStatus DirectorEngine::Status() const {
  core::QueueStatus status;
  status.options = options_;
  status.draining = draining_;
  return status;
}

}  // namespace callboard::director
