// The scheduler's connection to the director: the interface, the meaning of its answers, and a
// wrapper that traces its calls.

#ifndef CALLBOARD_LIBS_SCHEDULER_DIRECTOR_LINK_H_
#define CALLBOARD_LIBS_SCHEDULER_DIRECTOR_LINK_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/core/job.h"
#include "libs/core/task.h"
#include "libs/ports/telemetry.h"

namespace callboard::scheduler {

// The meaning of an answer to a submit.
enum class SubmitAnswer {
  kAccepted,
  // The request id belongs to a task with other content.
  kIdReused,
  // The director does not know the request id, and creates no task because another task of the job
  // is live, the queue is full, or the queue is draining.
  kOverlap,
  kFull,
  kDraining,
  // This submit created no task. An earlier submit with the same request id may have.
  kTryLater,
  kNotSent,
  // The task will never be accepted.
  kRejected,
  // The task may have been accepted.
  kUnknown,
};

SubmitAnswer ClassifyAnswer(const absl::Status& status);
// Returns the task that an error names; empty if it names none.
std::string QueueIdFrom(const absl::Status& status);

// Returns whether the request id had no task when the answer was given.
constexpr bool ProvesIdUnused(SubmitAnswer answer) {
  return answer == SubmitAnswer::kOverlap || answer == SubmitAnswer::kFull ||
         answer == SubmitAnswer::kDraining;
}

// The meaning of an answer to a lookup (DirectorLink::FindTask()).
enum class LookupAnswer {
  // The request id has a task.
  kFound,
  // It had no task when the answer was given.
  kUnused,
  // No answer, an error, or a submit with the request id waits for a place: look it up again.
  kUnknown,
};

LookupAnswer ClassifyLookup(const absl::Status& status);

// A request id; any answer will do. Its lookup shows whether the director answers.
inline constexpr absl::string_view kProbeRequestId = "probe";

// Deadline of a call. After it the call has an answer, at least DEADLINE_EXCEEDED, and the director
// does not act on the call any more.
inline constexpr absl::Duration kCallTimeout = absl::Seconds(10);

// The delay before an unreachable director is probed again: kProbeFirst, doubled each time, up to
// kProbeLast; and the time that a probe waits for its answer before the next one is sent. Both are
// short, so that the return of a director is noticed within two seconds, one of which the link
// needs to connect again.
inline constexpr absl::Duration kProbeFirst = absl::Milliseconds(250);
inline constexpr absl::Duration kProbeLast = absl::Seconds(1);
inline constexpr absl::Duration kProbeTimeout = absl::Seconds(1);

// The reason (base::WithReason) of an UNAVAILABLE error if nothing was sent.
inline constexpr absl::string_view kDirectorUnreachable = "DIRECTOR_UNREACHABLE";

// A task that the director, or an agent, has accepted.
struct AcceptedTask {
  std::string queue_id = {};
  // It was accepted by an earlier call with the same request id.
  bool deduplicated = false;

  friend bool operator==(const AcceptedTask&, const AcceptedTask&) = default;
};

// The current state of a task.
struct TaskStatus {
  std::string queue_id = {};
  core::LifecycleState state = core::LifecycleState::kCompleted;
  std::optional<core::FailureReason> reason = {};
};

// The scheduler's connection to the director, and to the agents on which it starts tasks directly.
//
// Thread-safe. No method blocks. Each call is answered once, on any thread (possibly before the
// method returns), and within kCallTimeout. Calls that are outstanding at destruction are not
// answered. Errors keep their details (base/error.h).
class DirectorLink {
 public:
  template <class T>
  using Reply = std::function<void(absl::StatusOr<T>)>;

  virtual ~DirectorLink() = default;

  // Calls SubmitTask, as part of the submission's trace.
  virtual void Submit(const core::JobSubmission& submission, Reply<AcceptedTask> reply) = 0;
  // Calls GetTask with a request id: returns the task that a submit with that id has created.
  virtual void FindTask(const std::string& request_id, Reply<AcceptedTask> reply) = 0;
  // Calls GetTask for each task. The answer leaves out tasks that the director does not know.
  virtual void GetTaskStatuses(std::vector<std::string> queue_ids,
                               Reply<std::vector<TaskStatus>> reply) = 0;
  // Calls StartTask on that agent, as part of the submission's trace. The answer's `queue_id` is
  // the agent's task id.
  virtual void StartDirect(const std::string& agent_url, const core::JobSubmission& submission,
                           Reply<AcceptedTask> reply) = 0;
};

// A link that records a span for every submit and direct start, from the call to its answer. The
// spans have no parent. All spans of one request id are in the same trace, which the task is part
// of, even if an answer was lost or the scheduler was restarted in between.
class TracedLink final : public DirectorLink {
 public:
  // `link` leads to the director at that address and outlives this object, which outlives all its
  // outstanding calls.
  TracedLink(DirectorLink& link, std::string director, const ports::Tracing& tracing)
      : link_(link), director_(std::move(director)), tracing_(tracing) {}

  void Submit(const core::JobSubmission& submission, Reply<AcceptedTask> reply) override;
  void FindTask(const std::string& request_id, Reply<AcceptedTask> reply) override {
    link_.FindTask(request_id, std::move(reply));
  }
  void GetTaskStatuses(std::vector<std::string> queue_ids,
                       Reply<std::vector<TaskStatus>> reply) override {
    link_.GetTaskStatuses(std::move(queue_ids), std::move(reply));
  }
  void StartDirect(const std::string& agent_url, const core::JobSubmission& submission,
                   Reply<AcceptedTask> reply) override;

 private:
  // Returns the submission with a trace, and a reply that ends the span.
  std::pair<core::JobSubmission, Reply<AcceptedTask>> StartSpan(
      const core::JobSubmission& submission, Reply<AcceptedTask> reply);

  // Returns the context of a new span in the trace of that request id.
  core::SpanContext NewSpanContext(const std::string& request_id) const;

  DirectorLink& link_;
  const std::string director_;
  const ports::Tracing tracing_;
};

}  // namespace callboard::scheduler

#endif  // CALLBOARD_LIBS_SCHEDULER_DIRECTOR_LINK_H_
