#ifndef CALLBOARD_LIBS_SCHEDULER_DIRECTOR_LINK_H_
#define CALLBOARD_LIBS_SCHEDULER_DIRECTOR_LINK_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/core/task.h"

namespace callboard::scheduler {

// How long a call may take: then it is answered, if only with DEADLINE_EXCEEDED, and the director
// does nothing about it any more.
inline constexpr absl::Duration kCallTimeout = absl::Seconds(10);

// How long a director that does not answer is left alone, doubled each time; and how long a probe
// waits for its answer before the next one is sent. Both are short, so that a director that is back
// is noticed within two seconds: the other second is the link's, to connect again.
inline constexpr absl::Duration kProbeFirst = absl::Milliseconds(250);
inline constexpr absl::Duration kProbeLast = absl::Seconds(1);
inline constexpr absl::Duration kProbeTimeout = absl::Seconds(1);

// The reason (base::WithReason) of an UNAVAILABLE that says: nothing was sent.
inline constexpr absl::string_view kDirectorUnreachable = "DIRECTOR_UNREACHABLE";

// A task that the director, or an agent, has.
struct Accepted {
  std::string queue_id = {};
  // It had it before.
  bool deduplicated = false;

  friend bool operator==(const Accepted&, const Accepted&) = default;
};

// How a task stands.
struct TaskEnd {
  std::string queue_id = {};
  core::TaskState state = core::TaskState::kCompleted;
  std::optional<core::FailureReason> reason = {};
};

// The scheduler's way to the director, and to agents past it. Thread-safe; nothing here waits. Each
// call is answered once, on any thread, also inside the call, in kCallTimeout at the latest; those
// under way when it is destroyed are not answered any more. Errors keep their details
// (base/error.h).
class DirectorLink {
 public:
  template <class T>
  using Reply = std::function<void(absl::StatusOr<T>)>;

  virtual ~DirectorLink() = default;

  // SubmitTask. Either is part of the submission's trace.
  virtual void Submit(const core::Submission& submission, Reply<Accepted> reply) = 0;
  // GetTask of each; those that the director does not know are left out.
  virtual void AskEnds(std::vector<std::string> queue_ids, Reply<std::vector<TaskEnd>> reply) = 0;
  // StartTask on that agent; `queue_id` is what it calls the run.
  virtual void StartDirect(const std::string& agent_url, const core::Submission& submission,
                           Reply<Accepted> reply) = 0;
};

}  // namespace callboard::scheduler

#endif  // CALLBOARD_LIBS_SCHEDULER_DIRECTOR_LINK_H_
