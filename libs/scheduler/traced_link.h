#ifndef CALLBOARD_LIBS_SCHEDULER_TRACED_LINK_H_
#define CALLBOARD_LIBS_SCHEDULER_TRACED_LINK_H_

#include <string>
#include <utility>
#include <vector>

#include "libs/ports/tracing.h"
#include "libs/scheduler/director_link.h"

namespace callboard::scheduler {

// A link on which every try to fire is a span without a parent, which lasts until its task was
// accepted or refused. All tries of one request are in one trace, which the task is part of: also
// when the answer to the one that was accepted was lost, and the scheduler with it.
class TracedLink final : public DirectorLink {
 public:
  // `link`, which leads to the director at that address, outlives it, and it every call that is
  // under way.
  TracedLink(DirectorLink& link, std::string director, const ports::Tracing& tracing)
      : link_(link), director_(std::move(director)), tracing_(tracing) {}

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

  // The first span of a trace, or one more of that of earlier tries.
  core::SpanContext BeginFire(const std::string& request_id) const;

  DirectorLink& link_;
  const std::string director_;
  const ports::Tracing tracing_;
};

}  // namespace callboard::scheduler

#endif  // CALLBOARD_LIBS_SCHEDULER_TRACED_LINK_H_
