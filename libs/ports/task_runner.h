#ifndef CALLBOARD_LIBS_PORTS_TASK_RUNNER_H_
#define CALLBOARD_LIBS_PORTS_TASK_RUNNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/core/ids.h"
#include "libs/core/record.h"
#include "libs/core/session.h"
#include "libs/core/task.h"

namespace callboard::ports {

// What is to be run, and for how long at most.
struct RunOrder {
  core::FenceToken token;
  // task-<ulid>-<dispatch>
  std::string task_id;
  core::SpecPtr spec;
  // The span that the process is part of; none when it is not traced.
  core::SpanContext trace = {};
  // From SIGTERM to SIGKILL.
  absl::Duration kill_grace = absl::Seconds(10);
  // The agent's monotonic time at which the processes are killed without being asked to, unless it
  // is moved before: also while the agent itself is stopped.
  absl::Duration fence_at = absl::InfiniteDuration();
};

using core::OutputChunk;
using core::OutputStream;

// Hears of runs, on threads of the runner's, or while one is being started. Nothing here may wait.
class RunWatcher {
 public:
  virtual ~RunWatcher() = default;

  // The task's first process runs. At most once, before OnEnded(); output may come before it.
  virtual void OnStarted(const core::FenceToken& token, int64_t pid) = 0;
  // In order, and before OnEnded().
  virtual void OnOutput(const core::FenceToken& token, OutputChunk chunk) = 0;
  // Once for every run, when nothing of it is left: no process, and what it made is in its place or
  // gone. kCancelled when it was stopped, or killed at its fence.
  virtual void OnEnded(const core::FenceToken& token, core::RunResult result) = 0;
};

// Runs tasks as processes. Thread-safe; nothing here waits.
class TaskRunner {
 public:
  // Kills what still runs, and waits until it is gone; the watcher hears of it.
  virtual ~TaskRunner() = default;

  // Whether it can run such a task now. INVALID_ARGUMENT or FAILED_PRECONDITION: the task is wrong.
  // UNIMPLEMENTED: the agent's own command cannot be run. RESOURCE_EXHAUSTED: there is no space for
  // the run. core::MeaningOf() says what follows.
  virtual absl::Status Check(const core::TaskSpec& spec) const = 0;

  // Begins a run. One that cannot even begin ends as failed. REQUIRES: the token is new.
  virtual void Start(RunOrder order) = 0;
  // SIGTERM, and after the grace SIGKILL to all that is left. Nothing happens to a run that is
  // over.
  virtual void Stop(const core::FenceToken& token) = 0;
  // SIGKILL to all of it at once.
  virtual void Kill(const core::FenceToken& token) = 0;
  // Moves the fence, later or earlier.
  virtual void SetFence(const core::FenceToken& token, absl::Duration fence_at) = 0;
  // So many bytes of output were delivered: the runner holds a bounded number of bytes that were
  // not, and drops what comes beyond.
  virtual void Delivered(const core::FenceToken& token, uint64_t bytes) = 0;
};

// Makes a runner that tells the watcher, which outlives it; its error when there is none to be had.
using MakeRunner = std::function<absl::StatusOr<std::unique_ptr<TaskRunner>>(RunWatcher&)>;

}  // namespace callboard::ports

#endif  // CALLBOARD_LIBS_PORTS_TASK_RUNNER_H_
