#include "tests/crash/full_disk.h"

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/mutex.h"
#include "libs/system/system.h"
#include "tests/crash/director_process.h"
#include "tests/crash/load.h"
#include "tests/crash/queue_client.h"
#include "tests/crash/small_disk.h"

namespace callboard::crash {
namespace {

// RocksDB reserves 18 MiB for a log, and two logs exist for a moment.
constexpr uint64_t kDiskBytes = 64 << 20;
// Size of a disk that runs out of files before bytes.
constexpr uint64_t kLargeDiskBytes = 512 << 20;
constexpr uint64_t kDiskFiles = 64;
constexpr size_t kContentBytes = 300'000;
constexpr int kClients = 3;
constexpr absl::Duration kBetweenCalls = absl::Milliseconds(20);

// Clients that submit until Stop(), regardless of the answers.
class Submitters {
 public:
  explicit Submitters(DirectorProcess& director) : director_(director) {
    for (int i = 0; i < kClients; ++i) threads_.emplace_back([this, i] { Run(i); });
  }
  ~Submitters() { Stop(); }

  void WaitForRejection() {
    base::MutexLock lock(mutex_);
    while (rejected_ == 0) WaitForCall();
  }
  // Waits for the next accepted submit.
  void WaitForAcceptance() {
    base::MutexLock lock(mutex_);
    const uint64_t before = accepted_;
    while (accepted_ == before) WaitForCall();
  }
  void Stop() {
    {
      base::MutexLock lock(mutex_);
      stopping_ = true;
      changed_.NotifyAll();
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  // Returns all calls so far. No call is in progress when this returns, and none starts before
  // Resume().
  History Pause() {
    base::MutexLock lock(mutex_);
    paused_ = true;
    while (in_flight_ != 0) changed_.Wait(mutex_);
    return history_;
  }
  void Resume() {
    base::MutexLock lock(mutex_);
    paused_ = false;
    changed_.NotifyAll();
  }
  uint64_t Tick() { return ++tick_; }

 private:
  void Run(int number) {
    QueueClient client(director_.address());
    for (int i = 0; Wait(); ++i) {
      Call call = {.request_id = absl::StrCat(number, "/", i)};
      call.content = absl::StrCat(call.request_id, " ", std::string(kContentBytes, 'c'));
      Record(Resubmit(call, client, [this] { return Tick(); }));
    }
  }

  // Waits until a call has ended, and checks that the director is still running.
  void WaitForCall() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    changed_.Wait(mutex_);
    CHECK(!director_.process().WaitForExit(absl::ZeroDuration()).has_value())
        << director_.process().Output();
  }

  // Waits for the next call; returns false if there is none.
  bool Wait() {
    base::MutexLock lock(mutex_);
    changed_.WaitFor(mutex_, kBetweenCalls,
                     [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; });
    while (paused_ && !stopping_) changed_.Wait(mutex_);
    in_flight_ += stopping_ ? 0 : 1;
    return !stopping_;
  }

  void Record(Call call) {
    base::MutexLock lock(mutex_);
    --in_flight_;
    rejected_ += call.answer == Call::Answer::kRejected ? 1 : 0;
    accepted_ += call.answer == Call::Answer::kDone ? 1 : 0;
    history_.push_back(std::move(call));
    changed_.NotifyAll();
  }

  DirectorProcess& director_;
  std::atomic<uint64_t> tick_ = 0;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t rejected_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t accepted_ ABSL_GUARDED_BY(mutex_) = 0;
  History history_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

class FullDisk {
 public:
  FullDisk(const std::filesystem::path& folder, Shortage shortage)
      : shortage_(shortage),
        folder_(folder / "data"),
        disk_(folder, shortage == Shortage::kBytes ? kDiskBytes : kLargeDiskBytes,
              shortage == Shortage::kBytes ? 0 : kDiskFiles) {}

  FullDiskReport Run(absl::Duration full_for) {
    DirectorProcess director(folder_, flags_);
    CHECK(director.is_listening()) << director.process().Output();
    {
      Submitters submitters(director);
      submitters.WaitForAcceptance();
      Fill();
      submitters.WaitForRejection();
      ReadWhileFull(director, full_for);
      report_.while_full = Check(director, submitters.Pause());
      submitters.Resume();
      Free();
      const absl::Duration freed = clock_.MonotonicNow();
      submitters.WaitForAcceptance();
      report_.until_writable = clock_.MonotonicNow() - freed;
      submitters.Stop();
      history_ = submitters.Pause();
    }
    report_.afterwards = Check(director, history_);
    report_.exit_code = director.Stop();
    DirectorProcess next(folder_, flags_);
    CHECK(next.is_listening()) << next.process().Output();
    report_.after_restart = Check(next, history_);
    for (const Call& call : history_) {
      report_.rejected += call.answer == Call::Answer::kRejected ? 1 : 0;
      report_.open += call.answer == Call::Answer::kUnknown ? 1 : 0;
    }
    return std::move(report_);
  }

 private:
  void Fill() { shortage_ == Shortage::kBytes ? disk_.Fill() : disk_.FillWithFiles(); }
  void Free() { shortage_ == Shortage::kBytes ? disk_.Free() : disk_.FreeFiles(); }

  // The director may free space, for example by writing its log into a table: that space is filled
  // too. Also checks that it stays up.
  void ReadWhileFull(DirectorProcess& director, absl::Duration full_for) {
    QueueClient client(director.address());
    const absl::Duration until = clock_.MonotonicNow() + full_for;
    while (clock_.MonotonicNow() < until) {
      Fill();
      ++(client.Depth().ok() && client.ListQueue().ok() ? report_.reads : report_.failed_reads);
      CHECK(!director.process().WaitForExit(kBetweenCalls).has_value())
          << director.process().Output();
    }
  }

  // Repeats the request while the store is being reopened.
  CheckResult Check(DirectorProcess& director, const History& history) {
    QueueClient client(director.address());
    absl::StatusOr<std::vector<FoundTask>> found = client.FindAll();
    while (!found.ok()) {
      CHECK(AnswerFrom(found.status()) == Call::Answer::kRejected);
      found = client.FindAll();
    }
    return CheckHistory(history, *found);
  }

  const Shortage shortage_;
  const std::filesystem::path folder_;
  const std::vector<std::string> flags_ = {"--queue.max_size=0"};
  const system::SystemClock clock_;
  SmallDisk disk_;
  History history_;
  FullDiskReport report_;
};

}  // namespace

std::string FullDiskReport::ToString() const {
  return absl::StrCat(rejected, " submits rejected, ", open, " without a clear answer, ", reads,
                      " reads and ", failed_reads, " that failed, writable ",
                      absl::FormatDuration(until_writable),
                      " after there was space\nwhile full: ", while_full.ToString(),
                      "\nafterwards: ", afterwards.ToString(),
                      "\nafter a restart: ", after_restart.ToString(), "\nexit code ", exit_code);
}

FullDiskReport FillDisk(const std::filesystem::path& folder, absl::Duration full_for,
                        Shortage shortage) {
  return FullDisk(folder, shortage).Run(full_for);
}

}  // namespace callboard::crash
