#ifndef CALLBOARD_LIBS_TESTING_RECORDED_RUNS_H_
#define CALLBOARD_LIBS_TESTING_RECORDED_RUNS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "libs/base/check.h"
#include "libs/base/mutex.h"
#include "libs/ports/task_runner.h"

namespace callboard::test {

// Keeps what a runner says of its runs, and holds the runner to saying it in order. Thread-safe; a
// wait that is in vain is ended by the size of the test.
class RecordedRuns final : public ports::RunWatcher {
 public:
  void OnStarted(const core::FenceToken& token, int64_t pid) override {
    base::MutexLock lock(mutex_);
    Run& run = runs_[token];
    CHECK_EQ(run.ends.size(), 0u) << "start of a run that is over";
    CHECK_EQ(run.pid, 0) << "started twice";
    run.pid = pid;
    changed_.NotifyAll();
  }
  void OnOutput(const core::FenceToken& token, ports::OutputChunk chunk) override {
    base::MutexLock lock(mutex_);
    StandStill();
    Run& run = runs_[token];
    CHECK_EQ(run.ends.size(), 0u) << "output of a run that is over";
    CHECK(run.chunks.empty() || run.chunks.back().number < chunk.number) << chunk.number;
    run.chunks.push_back(std::move(chunk));
    changed_.NotifyAll();
  }
  void OnEnded(const core::FenceToken& token, core::RunResult result) override {
    base::MutexLock lock(mutex_);
    StandStill();
    runs_[token].ends.push_back(std::move(result));
    changed_.NotifyAll();
  }

  // From now on whoever says something is held up in it, until GoOn().
  void HoldUp() {
    base::MutexLock lock(mutex_);
    holds_up_ = true;
  }
  // Until somebody is.
  void WaitUntilHeldUp() {
    base::MutexLock lock(mutex_);
    while (!is_held_up_) changed_.Wait(mutex_);
  }
  void GoOn() {
    base::MutexLock lock(mutex_);
    holds_up_ = false;
    changed_.NotifyAll();
  }

  core::RunResult WaitForEnd(const core::FenceToken& token) {
    base::MutexLock lock(mutex_);
    while (runs_[token].ends.empty()) changed_.Wait(mutex_);
    return runs_[token].ends.front();
  }
  // Returns once the run wrote `text`, or is over; whether it wrote it.
  bool WaitForOutput(const core::FenceToken& token, const std::string& text) {
    base::MutexLock lock(mutex_);
    Run& run = runs_[token];
    while (TextOf(run, ports::OutputStream::kStdout).find(text) == std::string::npos) {
      if (!run.ends.empty()) return false;
      changed_.Wait(mutex_);
    }
    return true;
  }

  // The number of its process; 0 when it was over before one began.
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

  void StandStill() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (holds_up_) {
      is_held_up_ = true;
      changed_.NotifyAll();
      changed_.Wait(mutex_);
    }
    is_held_up_ = false;
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  bool holds_up_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_held_up_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<core::FenceToken, Run> runs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_RECORDED_RUNS_H_
