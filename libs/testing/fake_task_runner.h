#ifndef CALLBOARD_LIBS_TESTING_FAKE_TASK_RUNNER_H_
#define CALLBOARD_LIBS_TESTING_FAKE_TASK_RUNNER_H_

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "libs/base/check.h"
#include "libs/base/mutex.h"
#include "libs/ports/task_runner.h"

namespace callboard::test {

// A runner without processes: the test ends the runs, on its own thread. Thread-safe.
class FakeTaskRunner final : public ports::TaskRunner {
 public:
  struct Run {
    ports::RunRequest request;
    bool stopped = false;
    bool killed = false;
    // The last fence that was set.
    absl::Duration fence_at = {};
    uint64_t delivered_bytes = 0;
  };

  // `observer` outlives the runner.
  explicit FakeTaskRunner(ports::RunObserver& observer) : observer_(observer) {}
  ~FakeTaskRunner() override {
    for (const core::FenceToken& token : running()) {
      End(token, {.end = core::RunResult::End::kCancelled});
    }
  }

  absl::Status Check(const core::RunSpec&) const override {
    base::MutexLock lock(mutex_);
    return check_;
  }
  void Start(ports::RunRequest request) override {
    base::MutexLock lock(mutex_);
    const core::FenceToken token = request.token;
    CHECK(seen_.insert(token).second) << request.task_id;
    const absl::Duration fence_at = request.fence_at;
    runs_[token] = {.request = std::move(request), .fence_at = fence_at};
  }
  void Stop(const core::FenceToken& token) override {
    base::MutexLock lock(mutex_);
    if (const auto run = runs_.find(token); run != runs_.end()) run->second.stopped = true;
  }
  void Kill(const core::FenceToken& token) override {
    base::MutexLock lock(mutex_);
    if (const auto run = runs_.find(token); run != runs_.end()) run->second.killed = true;
  }
  void MoveFence(const core::FenceToken& token, absl::Duration fence_at) override {
    base::MutexLock lock(mutex_);
    if (const auto run = runs_.find(token); run != runs_.end()) run->second.fence_at = fence_at;
  }
  void AcknowledgeOutput(const core::FenceToken& token, uint64_t bytes) override {
    base::MutexLock lock(mutex_);
    if (const auto run = runs_.find(token); run != runs_.end()) {
      run->second.delivered_bytes += bytes;
    }
  }

  // Sets the result of Check() from now on.
  void SetCheck(absl::Status check) {
    base::MutexLock lock(mutex_);
    check_ = std::move(check);
  }
  // REQUIRES: the run was started and has not ended. The same holds for Write() and End().
  void Begin(const core::FenceToken& token, int64_t pid) {
    CHECK(run(token).has_value());
    observer_.OnStarted(token, pid);
  }
  void Write(const core::FenceToken& token, ports::OutputChunk chunk) {
    CHECK(run(token).has_value());
    observer_.OnOutput(token, std::move(chunk));
  }
  void End(const core::FenceToken& token, core::RunResult result = {}) {
    {
      base::MutexLock lock(mutex_);
      CHECK_EQ(runs_.erase(token), 1u);
    }
    observer_.OnEnded(token, std::move(result));
  }

  // Returns the runs that have not ended.
  std::vector<core::FenceToken> running() const {
    base::MutexLock lock(mutex_);
    std::vector<core::FenceToken> tokens;
    for (const auto& [token, run] : runs_) tokens.push_back(token);
    return tokens;
  }
  // Returns nothing if the run was not started or has ended.
  std::optional<Run> run(const core::FenceToken& token) const {
    base::MutexLock lock(mutex_);
    const auto run = runs_.find(token);
    return run == runs_.end() ? std::nullopt : std::optional<Run>(run->second);
  }

 private:
  ports::RunObserver& observer_;

  mutable base::Mutex mutex_;
  absl::Status check_ ABSL_GUARDED_BY(mutex_);
  std::map<core::FenceToken, Run> runs_ ABSL_GUARDED_BY(mutex_);
  std::set<core::FenceToken> seen_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_FAKE_TASK_RUNNER_H_
