#include "libs/adapters/output_files/output_keeper.h"

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
#include "libs/testing/fake_clock.h"
#include "libs/testing/new_folder.h"
#include "libs/testing/status_matchers.h"

namespace callboard::adapters {
namespace {

using Tasks = OutputKeeper::Tasks;
using Wanted = OutputKeeper::Wanted;
using core::DispatchNumber;
using core::OutputChunk;
using core::OutputWritten;
using test::IsOk;
using testing::ElementsAre;
using testing::IsEmpty;

core::QueueId Task(uint64_t number) { return core::QueueId(core::Ulid(1, number)); }

OutputWritten Written(uint64_t dispatch, uint64_t number, std::string data) {
  return {{Task(1), DispatchNumber(dispatch), 7}, {{.number = number, .data = std::move(data)}}};
}
OutputWritten Complete(uint64_t dispatch) {
  return {{Task(1), DispatchNumber(dispatch), 7}, {}, /*is_last=*/true};
}

// Writes down what it is shown, a line for each chunk, `end` at the end.
class Notes {
 public:
  void Take(const absl::StatusOr<OutputKeeper::Shown>& shown) {
    base::MutexLock lock(mutex_);
    EXPECT_THAT(shown, IsOk());
    EXPECT_FALSE(is_over_) << "shown something after the end";
    for (const OutputPiece::Item& item : shown->items) {
      lines_.push_back(
          absl::StrCat(item.dispatch.value(), "/", item.chunk.number, " ", item.chunk.data));
      dropped_bytes_ += item.chunk.dropped_bytes;
    }
    is_over_ = shown->is_last;
    ++shown_;
    changed_.NotifyAll();
  }

  // Waits until it was shown something so many times.
  void WaitFor(int shown) {
    base::MutexLock lock(mutex_);
    while (shown_ < shown) changed_.Wait(mutex_);
  }
  std::vector<std::string> lines() {
    base::MutexLock lock(mutex_);
    return lines_;
  }
  int shown() {
    base::MutexLock lock(mutex_);
    return shown_;
  }
  bool is_over() {
    base::MutexLock lock(mutex_);
    return is_over_;
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
  int shown_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
};

class OutputKeeperTest : public testing::Test {
 protected:
  void Start(KeeperOptions options = {}) {
    options.folder = folder_;
    auto keeper = OutputKeeper::Start(
        options, clock_, [this](const Tasks& tasks, const std::function<void(Tasks)>& reply) {
          asked_ += tasks.size();
          reply(forgotten_);
        });
    ASSERT_THAT(keeper, IsOk());
    keeper_ = *std::move(keeper);
  }

  std::shared_ptr<OutputReader> Read(const Wanted& wanted) {
    const auto reader = keeper_->Read(
        wanted,
        [notes = notes_](const absl::StatusOr<OutputKeeper::Shown>& shown) { notes->Take(shown); });
    EXPECT_THAT(reader, IsOk());
    return *reader;
  }

  // Returns once all that was asked of the keeper before is done, and its readers were served.
  void Settle() {
    for (int rounds = 0; rounds < 2; ++rounds) {
      std::promise<void> done;
      keeper_->Keep({{Task(99), DispatchNumber(1), 7}, {{.number = ++settled_, .data = "."}}},
                    [&done] { done.set_value(); });
      done.get_future().wait();
    }
  }

  void Keep(OutputWritten output) {
    keeper_->Keep(std::move(output), [] {});
  }

  const std::filesystem::path folder_ = test::NewFolder() / "logs";
  test::FakeClock clock_;
  std::shared_ptr<Notes> notes_ = std::make_shared<Notes>();
  Tasks forgotten_;
  std::atomic<size_t> asked_ = 0;
  uint64_t settled_ = 0;
  std::unique_ptr<OutputKeeper> keeper_;
};

TEST_F(OutputKeeperTest, OutputIsOnDiskWhenItIsAcknowledged) {
  Start();
  std::promise<bool> kept;
  keeper_->Keep(Written(1, 1, "hello"),
                [&] { kept.set_value(!std::filesystem::is_empty(folder_)); });
  EXPECT_TRUE(kept.get_future().get());
}

TEST_F(OutputKeeperTest, WhoDoesNotFollowIsShownWhatThereIs) {
  Start();
  Keep(Written(1, 1, "hello"));
  const auto reader = Read({.task = Task(1)});
  reader->Next();
  notes_->WaitFor(1);
  EXPECT_THAT(notes_->lines(), ElementsAre("1/1 hello"));
  reader->Next();
  notes_->WaitFor(2);
  EXPECT_TRUE(notes_->is_over());
}

TEST_F(OutputKeeperTest, WhoFollowsIsShownWhatComesWheneverItWantsMore) {
  Start();
  const auto reader = Read({.task = Task(1), .follow = true});
  reader->Next();
  Settle();
  EXPECT_EQ(notes_->shown(), 0);
  Keep(Written(1, 1, "a"));
  notes_->WaitFor(1);
  Keep(Written(1, 2, "b"));
  Keep(Written(2, 1, "c"));
  Settle();
  EXPECT_THAT(notes_->lines(), ElementsAre("1/1 a")) << "it did not ask for more";
  reader->Next();
  notes_->WaitFor(2);
  EXPECT_THAT(notes_->lines(), ElementsAre("1/1 a", "1/2 b", "2/1 c"));
  EXPECT_FALSE(notes_->is_over());
}

TEST_F(OutputKeeperTest, AfterTheEndOfATaskItsOutputIsWaitedForUntilItIsComplete) {
  Start();
  for (const bool follow : {true, false}) {
    SCOPED_TRACE(follow);
    notes_ = std::make_shared<Notes>();
    const DispatchNumber dispatch(follow ? 1 : 2);
    const auto reader = Read({.task = Task(1), .behind = {.dispatch = dispatch}, .follow = follow});
    reader->OnTaskEnded(dispatch, absl::ZeroDuration());
    reader->Next();
    Settle();
    EXPECT_EQ(notes_->shown(), 0);
    Keep(Written(dispatch.value(), 1, "the end"));
    notes_->WaitFor(1);
    reader->Next();
    Settle();
    EXPECT_EQ(notes_->shown(), 1);
    Keep(Complete(dispatch.value()));
    notes_->WaitFor(2);
    EXPECT_TRUE(notes_->is_over());
  }
}

TEST_F(OutputKeeperTest, OutputThatIsCompleteBeforeAnybodyReadsIsNotWaitedFor) {
  Start();
  Keep(Written(1, 1, "all"));
  Keep(Complete(1));
  const auto reader = Read({.task = Task(1), .follow = true});
  reader->OnTaskEnded(DispatchNumber(1), absl::ZeroDuration());
  reader->Next();
  notes_->WaitFor(1);
  reader->Next();
  notes_->WaitFor(2);
  EXPECT_TRUE(notes_->is_over());
}

TEST_F(OutputKeeperTest, OutputThatNeverComesIsGivenUp) {
  Start();
  const auto reader = Read({.task = Task(1), .follow = true});
  reader->OnTaskEnded(DispatchNumber(1), absl::Milliseconds(400));
  reader->Next();
  Settle();
  clock_.Advance(absl::Milliseconds(599));
  Settle();
  EXPECT_FALSE(notes_->is_over());
  clock_.Advance(absl::Milliseconds(1));
  Settle();
  EXPECT_TRUE(notes_->is_over());
}

TEST_F(OutputKeeperTest, TaskThatNeverRanHasNoOutputToWaitFor) {
  Start();
  const auto reader = Read({.task = Task(1), .follow = true});
  reader->OnTaskEnded(DispatchNumber(), absl::ZeroDuration());
  reader->Next();
  notes_->WaitFor(1);
  EXPECT_TRUE(notes_->is_over());
}

TEST_F(OutputKeeperTest, LaterDispatchesAreNotShownToWhoWantsOne) {
  Start();
  Keep(Written(1, 1, "first"));
  Keep(Written(2, 1, "second"));
  Keep(Written(3, 1, "third"));
  const auto reader = Read({.task = Task(1),
                            .behind = {.dispatch = DispatchNumber(2)},
                            .last_dispatch = DispatchNumber(2)});
  reader->Next();
  notes_->WaitFor(1);
  EXPECT_THAT(notes_->lines(), ElementsAre("2/1 second"));
  EXPECT_TRUE(notes_->is_over());
}

TEST_F(OutputKeeperTest, WhoDoesNotFollowIsNotShownForEverWhatIsWrittenMeanwhile) {
  Start({.limits = {.head_bytes = 1000, .tail_file_bytes = 1000}});
  const auto reader = Read({.task = Task(1)});
  uint64_t number = 0;
  for (int shown = 1; !notes_->is_over(); ++shown) {
    ASSERT_LT(shown, 100);
    Keep(Written(1, ++number, std::string(500, 'x')));
    reader->Next();
    notes_->WaitFor(shown);
  }
  EXPECT_GE(notes_->lines().size(), 6u);
}

TEST_F(OutputKeeperTest, WhoHasLeftIsShownNothing) {
  Start();
  const auto reader = Read({.task = Task(1), .follow = true});
  reader->Next();
  reader->Leave();
  reader->Leave();
  Keep(Written(1, 1, "a"));
  Settle();
  EXPECT_EQ(notes_->shown(), 0);
}

TEST_F(OutputKeeperTest, OutputThatCannotBeReadIsToldOnce) {
  Start();
  Keep(Written(1, 1, "a"));
  Settle();
  // In the place of each file there is a folder.
  for (const auto& entry : std::vector<std::filesystem::directory_entry>(
           std::filesystem::directory_iterator(folder_), {})) {
    std::filesystem::remove(entry.path());
    std::filesystem::create_directory(entry.path());
  }
  std::promise<absl::Status> told;
  const auto reader = keeper_->Read({.task = Task(1), .follow = true},
                                    [&told](const absl::StatusOr<OutputKeeper::Shown>& shown) {
                                      told.set_value(shown.status());
                                    });
  ASSERT_THAT(reader, IsOk());
  (*reader)->Next();
  EXPECT_THAT(told.get_future().get(), test::StatusIs(absl::StatusCode::kUnavailable));
  (*reader)->Next();
  Settle();
}

TEST_F(OutputKeeperTest, ReadersAreBounded) {
  Start();
  std::vector<std::shared_ptr<OutputReader>> readers;
  for (int i = 0; i < OutputKeeper::kReadersMax; ++i) {
    readers.push_back(Read({.task = Task(1), .follow = true}));
  }
  EXPECT_THAT(keeper_->Read({.task = Task(1)}, [](const auto&) {}),
              test::HasReason("TOO_MANY_READERS"));
  readers[0]->Leave();
  Settle();
  EXPECT_THAT(keeper_->Read({.task = Task(1)}, [](const auto&) {}), IsOk());
}

TEST_F(OutputKeeperTest, OfWhatWaitsTooLongToBeWrittenOnlyTheNumberOfBytesIsKept) {
  Start({.waiting_bytes_max = 100});
  std::promise<void> go_on;
  keeper_->Keep(Written(1, 1, "first"), [&go_on] { go_on.get_future().wait(); });
  Keep(Written(1, 2, std::string(90, 'x')));
  Keep(Written(1, 3, std::string(90, 'y')));
  go_on.set_value();
  Settle();
  Keep(Written(1, 4, "then"));
  const auto reader = Read({.task = Task(1)});
  reader->Next();
  notes_->WaitFor(1);
  EXPECT_THAT(notes_->lines(),
              ElementsAre("1/1 first", "1/2 " + std::string(90, 'x'), "1/3 ", "1/4 then"));
  EXPECT_EQ(notes_->dropped_bytes(), 90u);
}

TEST_F(OutputKeeperTest, OutputThatCannotBeWrittenIsAcknowledgedAllTheSame) {
  Start();
  std::filesystem::remove(folder_);
  std::promise<bool> kept;
  keeper_->Keep(Written(1, 1, "lost"), [&] { kept.set_value(std::filesystem::exists(folder_)); });
  EXPECT_FALSE(kept.get_future().get());
}

TEST_F(OutputKeeperTest, OutputOfForgottenTasksIsRemoved) {
  forgotten_ = {Task(1)};
  Start({.sweep_tasks = 1000, .sweep_every = absl::Hours(1)});
  Settle();
  Keep(Written(1, 1, "old"));
  Settle();
  const auto files = [this] {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_)) ++count;
    return count;
  };
  EXPECT_EQ(files(), 2u) << "it was swept before";
  clock_.Advance(absl::Hours(1));
  Settle();
  Settle();
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputKeeperTest, ManyNewOutputsAreReasonEnoughToLookForForgottenOnes) {
  Start({.sweep_tasks = 10});
  Settle();
  const size_t asked = asked_;
  for (uint64_t task = 1; task <= 9; ++task) {
    keeper_->Keep({{Task(task), DispatchNumber(1), 7}, {{.number = 1, .data = "x"}}}, [] {});
  }
  Settle();
  EXPECT_EQ(asked_, asked);
  keeper_->Keep({{Task(10), DispatchNumber(1), 7}, {{.number = 1, .data = "x"}}}, [] {});
  Settle();
  EXPECT_EQ(asked_, asked + 11);
}

TEST_F(OutputKeeperTest, ReaderThatOutlivesTheKeeperDoesNothing) {
  Start();
  const auto reader = Read({.task = Task(1), .follow = true});
  keeper_ = nullptr;
  reader->Next();
  reader->OnTaskEnded(DispatchNumber(1), absl::ZeroDuration());
  reader->Leave();
  EXPECT_EQ(notes_->shown(), 0);
}

}  // namespace
}  // namespace callboard::adapters
