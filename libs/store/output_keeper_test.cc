#include "libs/store/output_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/mutex.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/files.h"
#include "libs/testing/status_matchers.h"

namespace callboard::store {
namespace {

using Tasks = OutputKeeper::Tasks;
using ReadRequest = OutputKeeper::ReadRequest;
using core::DispatchNumber;
using core::OutputChunk;
using core::RunOutput;
using test::IsOk;
using testing::ElementsAre;
using testing::IsEmpty;

core::QueueId Task(uint64_t number) { return core::QueueId(core::Ulid(1, number)); }

RunOutput OutputOf(uint64_t dispatch, uint64_t number, std::string data) {
  return {{Task(1), DispatchNumber(dispatch), 7}, {{.number = number, .data = std::move(data)}}};
}
RunOutput EndOfOutput(uint64_t dispatch) {
  return {{Task(1), DispatchNumber(dispatch), 7}, {}, /*is_last=*/true};
}

// Records what a reader receives, with one line for each chunk.
class RecordedReads {
 public:
  void Record(const absl::StatusOr<OutputKeeper::ReadResult>& result) {
    base::MutexLock lock(mutex_);
    EXPECT_THAT(result, IsOk());
    EXPECT_FALSE(ended_) << "received something after the end";
    for (const OutputPiece::Item& item : result->items) {
      lines_.push_back(
          absl::StrCat(item.dispatch.value(), "/", item.chunk.number, " ", item.chunk.data));
      dropped_bytes_ += item.chunk.dropped_bytes;
    }
    ended_ = result->is_last;
    ++count_;
    changed_.NotifyAll();
  }

  // Waits until it has received `count` results.
  void WaitFor(int count) {
    base::MutexLock lock(mutex_);
    while (count_ < count) changed_.Wait(mutex_);
  }
  std::vector<std::string> lines() {
    base::MutexLock lock(mutex_);
    return lines_;
  }
  int count() {
    base::MutexLock lock(mutex_);
    return count_;
  }
  bool ended() {
    base::MutexLock lock(mutex_);
    return ended_;
  }
  uint64_t dropped_bytes() {
    base::MutexLock lock(mutex_);
    return dropped_bytes_;
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  uint64_t dropped_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

class OutputKeeperTest : public testing::Test {
 protected:
  void Start(OutputKeeperOptions options = {}) {
    options.folder = folder_;
    auto keeper = OutputKeeper::Start(
        options, clock_, [this](const Tasks& tasks, const std::function<void(Tasks)>& reply) {
          swept_ += tasks.size();
          reply(forgotten_);
        });
    ASSERT_THAT(keeper, IsOk());
    keeper_ = *std::move(keeper);
  }

  std::shared_ptr<OutputReader> Read(const ReadRequest& request) {
    const auto reader = keeper_->Read(
        request, [reads = reads_](const absl::StatusOr<OutputKeeper::ReadResult>& result) {
          reads->Record(result);
        });
    EXPECT_THAT(reader, IsOk());
    return *reader;
  }

  // Returns when the keeper has executed all earlier commands and has served the readers.
  void Settle() {
    for (int rounds = 0; rounds < 2; ++rounds) {
      std::promise<void> done;
      keeper_->Store({{Task(99), DispatchNumber(1), 7}, {{.number = ++settled_, .data = "."}}},
                     [&done] { done.set_value(); });
      done.get_future().wait();
    }
  }

  void Store(RunOutput output) {
    keeper_->Store(std::move(output), [] {});
  }

  const std::filesystem::path folder_ = test::NewFolder() / "logs";
  test::FakeClock clock_;
  std::shared_ptr<RecordedReads> reads_ = std::make_shared<RecordedReads>();
  Tasks forgotten_;
  std::atomic<size_t> swept_ = 0;
  uint64_t settled_ = 0;
  std::unique_ptr<OutputKeeper> keeper_;
};

TEST_F(OutputKeeperTest, AcknowledgedOutputIsOnDisk) {
  Start();
  std::promise<bool> stored;
  keeper_->Store(OutputOf(1, 1, "hello"),
                 [&] { stored.set_value(!std::filesystem::is_empty(folder_)); });
  EXPECT_TRUE(stored.get_future().get());
}

TEST_F(OutputKeeperTest, ReaderWithoutFollowReceivesStoredOutputAndTheEnd) {
  Start();
  Store(OutputOf(1, 1, "hello"));
  const auto reader = Read({.task = Task(1)});
  reader->RequestNext();
  reads_->WaitFor(1);
  EXPECT_THAT(reads_->lines(), ElementsAre("1/1 hello"));
  reader->RequestNext();
  reads_->WaitFor(2);
  EXPECT_TRUE(reads_->ended());
}

TEST_F(OutputKeeperTest, FollowerReceivesNewOutputOnRequest) {
  Start();
  const auto reader = Read({.task = Task(1), .follow = true});
  reader->RequestNext();
  Settle();
  EXPECT_EQ(reads_->count(), 0);
  Store(OutputOf(1, 1, "a"));
  reads_->WaitFor(1);
  Store(OutputOf(1, 2, "b"));
  Store(OutputOf(2, 1, "c"));
  Settle();
  EXPECT_THAT(reads_->lines(), ElementsAre("1/1 a")) << "it did not request more";
  reader->RequestNext();
  reads_->WaitFor(2);
  EXPECT_THAT(reads_->lines(), ElementsAre("1/1 a", "1/2 b", "2/1 c"));
  EXPECT_FALSE(reads_->ended());
}

TEST_F(OutputKeeperTest, ReaderOfAnEndedTaskWaitsForMissingOutput) {
  Start();
  for (const bool follow : {true, false}) {
    SCOPED_TRACE(follow);
    reads_ = std::make_shared<RecordedReads>();
    const DispatchNumber dispatch(follow ? 1 : 2);
    const auto reader = Read({.task = Task(1), .after = {.dispatch = dispatch}, .follow = follow});
    reader->OnTaskEnded(dispatch, absl::ZeroDuration());
    reader->RequestNext();
    Settle();
    EXPECT_EQ(reads_->count(), 0);
    Store(OutputOf(dispatch.value(), 1, "the end"));
    reads_->WaitFor(1);
    reader->RequestNext();
    Settle();
    EXPECT_EQ(reads_->count(), 1);
    Store(EndOfOutput(dispatch.value()));
    reads_->WaitFor(2);
    EXPECT_TRUE(reads_->ended());
  }
}

TEST_F(OutputKeeperTest, ReaderOfCompleteOutputDoesNotWait) {
  Start();
  Store(OutputOf(1, 1, "all"));
  Store(EndOfOutput(1));
  const auto reader = Read({.task = Task(1), .follow = true});
  reader->OnTaskEnded(DispatchNumber(1), absl::ZeroDuration());
  reader->RequestNext();
  reads_->WaitFor(1);
  reader->RequestNext();
  reads_->WaitFor(2);
  EXPECT_TRUE(reads_->ended());
}

TEST_F(OutputKeeperTest, ReaderGivesUpOnMissingOutput) {
  Start();
  const auto reader = Read({.task = Task(1), .follow = true});
  reader->OnTaskEnded(DispatchNumber(1), absl::Milliseconds(400));
  reader->RequestNext();
  Settle();
  clock_.Advance(absl::Milliseconds(599));
  Settle();
  EXPECT_FALSE(reads_->ended());
  clock_.Advance(absl::Milliseconds(1));
  Settle();
  EXPECT_TRUE(reads_->ended());
}

TEST_F(OutputKeeperTest, TaskThatNeverRanHasNoOutput) {
  Start();
  const auto reader = Read({.task = Task(1), .follow = true});
  reader->OnTaskEnded(DispatchNumber(), absl::ZeroDuration());
  reader->RequestNext();
  reads_->WaitFor(1);
  EXPECT_TRUE(reads_->ended());
}

TEST_F(OutputKeeperTest, ReaderOfOneDispatchDoesNotGetLaterOnes) {
  Start();
  Store(OutputOf(1, 1, "first"));
  Store(OutputOf(2, 1, "second"));
  Store(OutputOf(3, 1, "third"));
  const auto reader = Read({.task = Task(1),
                            .after = {.dispatch = DispatchNumber(2)},
                            .last_dispatch = DispatchNumber(2)});
  reader->RequestNext();
  reads_->WaitFor(1);
  EXPECT_THAT(reads_->lines(), ElementsAre("2/1 second"));
  EXPECT_TRUE(reads_->ended());
}

TEST_F(OutputKeeperTest, ReaderWithoutFollowEndsAlthoughOutputKeepsComing) {
  Start({.limits = {.head_bytes = 1000, .tail_file_bytes = 1000}});
  const auto reader = Read({.task = Task(1)});
  uint64_t number = 0;
  for (int count = 1; !reads_->ended(); ++count) {
    ASSERT_LT(count, 100);
    Store(OutputOf(1, ++number, std::string(500, 'x')));
    reader->RequestNext();
    reads_->WaitFor(count);
  }
  EXPECT_GE(reads_->lines().size(), 6u);
}

TEST_F(OutputKeeperTest, StoppedReaderReceivesNothing) {
  Start();
  const auto reader = Read({.task = Task(1), .follow = true});
  reader->RequestNext();
  reader->Stop();
  reader->Stop();
  Store(OutputOf(1, 1, "a"));
  Settle();
  EXPECT_EQ(reads_->count(), 0);
}

TEST_F(OutputKeeperTest, ReadErrorIsReportedOnce) {
  Start();
  Store(OutputOf(1, 1, "a"));
  Settle();
  // Replaces each file by a folder.
  for (const auto& entry : std::vector<std::filesystem::directory_entry>(
           std::filesystem::directory_iterator(folder_), {})) {
    std::filesystem::remove(entry.path());
    std::filesystem::create_directory(entry.path());
  }
  std::promise<absl::Status> status;
  const auto reader =
      keeper_->Read({.task = Task(1), .follow = true},
                    [&status](const absl::StatusOr<OutputKeeper::ReadResult>& result) {
                      status.set_value(result.status());
                    });
  ASSERT_THAT(reader, IsOk());
  (*reader)->RequestNext();
  EXPECT_THAT(status.get_future().get(), test::StatusIs(absl::StatusCode::kUnavailable));
  (*reader)->RequestNext();
  Settle();
}

TEST_F(OutputKeeperTest, ReaderCountIsLimited) {
  Start();
  std::vector<std::shared_ptr<OutputReader>> readers;
  for (int i = 0; i < OutputKeeper::kReadersMax; ++i) {
    readers.push_back(Read({.task = Task(1), .follow = true}));
  }
  EXPECT_THAT(keeper_->Read({.task = Task(1)}, [](const auto&) {}),
              test::HasReason("TOO_MANY_READERS"));
  readers[0]->Stop();
  Settle();
  EXPECT_THAT(keeper_->Read({.task = Task(1)}, [](const auto&) {}), IsOk());
}

TEST_F(OutputKeeperTest, OutputBeyondTheBufferIsCountedAsDropped) {
  Start({.waiting_bytes_max = 100});
  std::promise<void> resume;
  keeper_->Store(OutputOf(1, 1, "first"), [&resume] { resume.get_future().wait(); });
  Store(OutputOf(1, 2, std::string(90, 'x')));
  Store(OutputOf(1, 3, std::string(90, 'y')));
  resume.set_value();
  Settle();
  Store(OutputOf(1, 4, "then"));
  const auto reader = Read({.task = Task(1)});
  reader->RequestNext();
  reads_->WaitFor(1);
  EXPECT_THAT(reads_->lines(),
              ElementsAre("1/1 first", "1/2 " + std::string(90, 'x'), "1/3 ", "1/4 then"));
  EXPECT_EQ(reads_->dropped_bytes(), 90u);
}

TEST_F(OutputKeeperTest, UnwritableOutputIsAcknowledged) {
  Start();
  std::filesystem::remove(folder_);
  std::promise<bool> stored;
  keeper_->Store(OutputOf(1, 1, "lost"),
                 [&] { stored.set_value(std::filesystem::exists(folder_)); });
  EXPECT_FALSE(stored.get_future().get());
}

TEST_F(OutputKeeperTest, OutputOfForgottenTasksIsRemoved) {
  forgotten_ = {Task(1)};
  Start({.sweep_tasks = 1000, .sweep_every = absl::Hours(1)});
  Settle();
  Store(OutputOf(1, 1, "old"));
  Settle();
  const auto files = [this] {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_)) ++count;
    return count;
  };
  EXPECT_EQ(files(), 2u) << "the last sweep was before";
  clock_.Advance(absl::Hours(1));
  Settle();
  Settle();
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputKeeperTest, ManyNewTasksTriggerASweep) {
  Start({.sweep_tasks = 10});
  Settle();
  const size_t swept = swept_;
  for (uint64_t task = 1; task <= 9; ++task) {
    keeper_->Store({{Task(task), DispatchNumber(1), 7}, {{.number = 1, .data = "x"}}}, [] {});
  }
  Settle();
  EXPECT_EQ(swept_, swept);
  keeper_->Store({{Task(10), DispatchNumber(1), 7}, {{.number = 1, .data = "x"}}}, [] {});
  Settle();
  EXPECT_EQ(swept_, swept + 11);
}

TEST_F(OutputKeeperTest, ReaderMayOutliveTheKeeper) {
  Start();
  const auto reader = Read({.task = Task(1), .follow = true});
  keeper_ = nullptr;
  reader->RequestNext();
  reader->OnTaskEnded(DispatchNumber(1), absl::ZeroDuration());
  reader->Stop();
  EXPECT_EQ(reads_->count(), 0);
}

}  // namespace
}  // namespace callboard::store
