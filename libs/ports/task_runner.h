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

// A request to run a task.
struct RunRequest {
  core::FenceToken token;
  // task-<ulid>-<dispatch>
  std::string task_id;
  core::RunSpecPtr spec;
  // The parent span of the process; SpanContext() if the run is not traced.
  core::SpanContext trace = {};
  // Time between SIGTERM and SIGKILL.
  absl::Duration kill_grace = absl::Seconds(10);
  // The fence: the agent's monotonic time at which the runner stops the run like Stop(), even if
  // the agent's own process is suspended. MoveFence() changes it.
  absl::Duration fence_at = absl::InfiniteDuration();
};

using core::OutputChunk;
using core::OutputStream;

// Receives the events of runs, on threads of the TaskRunner or within TaskRunner::Start().
// Implementations must not block.
class RunObserver {
 public:
  virtual ~RunObserver() = default;

  // The first process of the task runs. Called at most once, before OnEnded(). OnOutput() may be
  // called earlier.
  virtual void OnStarted(const core::FenceToken& token, int64_t pid) = 0;
  // Receives output, in order. Called only before OnEnded().
  virtual void OnOutput(const core::FenceToken& token, OutputChunk chunk) = 0;
  // The run has ended. Called once for every run, after its last process has exited and its files
  // have been moved to their place or deleted. The end is kCancelled if the run was stopped or
  // reached its fence.
  virtual void OnEnded(const core::FenceToken& token, core::RunResult result) = 0;
};

// Runs tasks as processes. Thread-safe. The methods do not block, except for the destructor.
class TaskRunner {
 public:
  // Kills all runs and waits until they have ended. The observer receives their ends.
  virtual ~TaskRunner() = default;

  // Returns OK if the runner can run such a task now. Returns INVALID_ARGUMENT or
  // FAILED_PRECONDITION if the task is invalid, UNIMPLEMENTED if the agent's configured command
  // cannot be run, and RESOURCE_EXHAUSTED if there is no space for the run.
  // core::ClassifyStartAnswer() defines the consequences.
  virtual absl::Status Check(const core::RunSpec& spec) const = 0;

  // Starts a run. A run that cannot be started is reported with OnEnded(). REQUIRES: the token has
  // not been used before.
  virtual void Start(RunRequest request) = 0;
  // Sends SIGTERM to the run, and SIGKILL to all its processes after `kill_grace`. Does nothing if
  // the run has ended.
  virtual void Stop(const core::FenceToken& token) = 0;
  // Sends SIGKILL to all processes of the run.
  virtual void Kill(const core::FenceToken& token) = 0;
  // Moves the fence to a later or earlier time.
  virtual void MoveFence(const core::FenceToken& token, absl::Duration fence_at) = 0;
  // Acknowledges `bytes` of output. The runner buffers a bounded number of unacknowledged bytes and
  // drops output beyond that.
  virtual void AcknowledgeOutput(const core::FenceToken& token, uint64_t bytes) = 0;
};

// Creates a runner that reports to the observer, or returns an error. The observer must outlive the
// runner.
using TaskRunnerFactory = std::function<absl::StatusOr<std::unique_ptr<TaskRunner>>(RunObserver&)>;

}  // namespace callboard::ports

#endif  // CALLBOARD_LIBS_PORTS_TASK_RUNNER_H_
