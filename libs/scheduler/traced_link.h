#ifndef CALLBOARD_LIBS_SCHEDULER_TRACED_LINK_H_
#define CALLBOARD_LIBS_SCHEDULER_TRACED_LINK_H_

#include <string>
#include <utility>
#include <vector>

#include "libs/ports/tracing.h"
#include "libs/scheduler/director_link.h"

namespace callboard::scheduler {

// A link on which every fire is the first span of a trace, which lasts until its task was accepted
// or refused, and which the task is part of.
class TracedLink final : public DirectorLink {
 public:
  // `link` outlives it, and it every call that is under way.
  TracedLink(DirectorLink& link, const ports::Tracing& tracing) : link_(link), tracing_(tracing) {}

  void Submit(const core::Submission& submission, Reply<Accepted> reply) override;
  void AskEnds(std::vector<std::string> queue_ids, Reply<std::vector<TaskEnd>> reply) override {
    link_.AskEnds(std::move(queue_ids), std::move(reply));
  }
  void StartDirect(const std::string& agent_url, const core::Submission& submission,
                   Reply<Accepted> reply) override;

 private:
  // The same with a trace, and the reply that ends the fire.
  std::pair<core::Submission, Reply<Accepted>> Fire(const core::Submission& submission,
                                                    Reply<Accepted> reply);

  DirectorLink& link_;
  const ports::Tracing tracing_;
};

}  // namespace callboard::scheduler

#endif  // CALLBOARD_LIBS_SCHEDULER_TRACED_LINK_H_
