// Runs for tests of task runners: their requests, and an observer that records their events.

#ifndef CALLBOARD_LIBS_TESTING_RECORDED_RUNS_H_
#define CALLBOARD_LIBS_TESTING_RECORDED_RUNS_H_

#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libs/base/check.h"
#include "libs/base/mutex.h"
#include "libs/ports/task_runner.h"

namespace callboard::test {

// Returns a fence token that no other process returns: tests that start some of these runs execute
// side by side.
inline core::FenceToken RunToken(uint64_t number) {
  return {core::QueueId(core::Ulid(static_cast<uint64_t>(getpid()), number)),
          core::DispatchNumber(1), 7};
}

inline core::RunSpec SpecOf(std::string prompt) {
  core::RunSpec spec;
  spec.prompt = std::move(prompt);
  return spec;
}

inline ports::RunRequest MakeRunRequest(const core::FenceToken& token, core::RunSpec spec) {
  return {.token = token,
          .task_id = core::TaskIdText(token.queue_id, token.dispatch),
          .spec = std::make_shared<const core::RunSpec>(std::move(spec))};
}

// Records the events of a runner and checks their order. Thread-safe; the timeout of the test
// limits all waits.
class RecordedRuns final : public ports::RunObserver {
 public:
  void OnStarted(const core::FenceToken& token, int64_t pid) override {
    base::MutexLock lock(mutex_);
    Run& run = runs_[token];
    CHECK_EQ(run.ends.size(), 0u) << "start of a run that has ended";
    CHECK_EQ(run.pid, 0) << "started twice";
    run.pid = pid;
    changed_.NotifyAll();
  }
  void OnOutput(const core::FenceToken& token, ports::OutputChunk chunk) override {
    base::MutexLock lock(mutex_);
    WaitWhileBlocked();
    Run& run = runs_[token];
    CHECK_EQ(run.ends.size(), 0u) << "output of a run that has ended";
    CHECK(run.chunks.empty() || run.chunks.back().number < chunk.number) << chunk.number;
    run.chunks.push_back(std::move(chunk));
    changed_.NotifyAll();
  }
  void OnEnded(const core::FenceToken& token, core::RunResult result) override {
    base::MutexLock lock(mutex_);
    WaitWhileBlocked();
    runs_[token].ends.push_back(std::move(result));
    changed_.NotifyAll();
  }

  // Blocks callers that report an event, until Unblock().
  void Block() {
    base::MutexLock lock(mutex_);
    blocked_ = true;
  }
  // Waits until a caller is blocked.
  void WaitUntilBlocked() {
    base::MutexLock lock(mutex_);
    while (!caller_waits_) changed_.Wait(mutex_);
  }
  void Unblock() {
    base::MutexLock lock(mutex_);
    blocked_ = false;
    changed_.NotifyAll();
  }

  core::RunResult WaitForEnd(const core::FenceToken& token) {
    base::MutexLock lock(mutex_);
    while (runs_[token].ends.empty()) changed_.Wait(mutex_);
    return runs_[token].ends.front();
  }
  // Waits until the run has written `text` or has ended. Returns whether it wrote the text.
  bool WaitForOutput(const core::FenceToken& token, const std::string& text) {
    base::MutexLock lock(mutex_);
    Run& run = runs_[token];
    while (TextOf(run, ports::OutputStream::kStdout).find(text) == std::string::npos) {
      if (!run.ends.empty()) return false;
      changed_.Wait(mutex_);
    }
    return true;
  }

  // Returns the pid of the run; 0 if it ended before a process was started.
  int64_t WaitForPid(const core::FenceToken& token) {
    base::MutexLock lock(mutex_);
    Run& run = runs_[token];
    while (run.pid == 0 && run.ends.empty()) changed_.Wait(mutex_);
    return run.pid;
  }

  int ends(const core::FenceToken& token) {
    base::MutexLock lock(mutex_);
    return static_cast<int>(runs_[token].ends.size());
  }
  std::vector<ports::OutputChunk> chunks(const core::FenceToken& token) {
    base::MutexLock lock(mutex_);
    return runs_[token].chunks;
  }
  std::string text(const core::FenceToken& token,
                   ports::OutputStream stream = ports::OutputStream::kStdout) {
    base::MutexLock lock(mutex_);
    return TextOf(runs_[token], stream);
  }

 private:
  struct Run {
    int64_t pid = 0;
    std::vector<ports::OutputChunk> chunks;
    std::vector<core::RunResult> ends;
  };

  static std::string TextOf(const Run& run, ports::OutputStream stream) {
    std::string text;
    for (const ports::OutputChunk& chunk : run.chunks) {
      if (chunk.stream == stream) text += chunk.data;
    }
    return text;
  }

  void WaitWhileBlocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (blocked_) {
      caller_waits_ = true;
      changed_.NotifyAll();
      changed_.Wait(mutex_);
    }
    caller_waits_ = false;
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  bool blocked_ ABSL_GUARDED_BY(mutex_) = false;
  bool caller_waits_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<core::FenceToken, Run> runs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_RECORDED_RUNS_H_
