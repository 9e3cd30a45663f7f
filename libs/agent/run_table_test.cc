#include "libs/agent/run_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "libs/testing/status_matchers.h"

namespace callboard::agent {
namespace {

using core::RunResult;
using test::HasReason;
using test::IsOk;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

const RunResult kCompleted = {.exit_code = 0, .result = "42"};

core::FenceToken Direct(uint64_t task) {
  return {.queue_id = core::QueueId(core::Ulid(0, task)), .dispatch = core::DispatchNumber(1)};
}
core::FenceToken Dispatched(uint64_t task) {
  return {core::QueueId(core::Ulid(1, task)), core::DispatchNumber(1), 3};
}
std::string TaskIdOf(const core::FenceToken& token) {
  return core::TaskIdText(token.queue_id, token.dispatch);
}

// Records what a reader received.
struct Received {
  std::vector<std::string> data = {};
  size_t piece_count = 0;
  std::optional<absl::Status> end = {};
};

class RunTableTest : public testing::Test {
 protected:
  void Accept(const core::FenceToken& token) { run_table_.OnAccepted(token, start_); }
  void Write(const core::FenceToken& token, const std::string& data) {
    run_table_.OnOutput(token, {.number = ++last_number_, .data = data});
  }
  void End(const core::FenceToken& token, const RunResult& result = kCompleted) {
    run_table_.OnEnded(token, result, start_ + absl::Seconds(5));
  }
  bool IsKnown(const core::FenceToken& token) { return run_table_.Find(TaskIdOf(token)).ok(); }
  ReaderId Read(Received& received, OutputQuery query) {
    const ReaderId id(++last_reader_);
    run_table_.StartReading(
        id, std::move(query),
        {.on_output =
             [&received](const core::RunOutput& piece) {
               ++received.piece_count;
               for (const core::OutputChunk& chunk : piece.chunks) {
                 received.data.push_back(chunk.data);
               }
             },
         .on_end = [&received](const absl::Status& status) { received.end = status; }});
    return id;
  }

  const absl::Time start_ = absl::FromUnixSeconds(1'700'000'000);
  RunTable run_table_;
  uint64_t last_number_ = 0;
  uint64_t last_reader_ = 0;
};

// ---- Runs ---------------------------------------------------------------------------------------

TEST_F(RunTableTest, RunHasNoResultUntilItEnds) {
  EXPECT_THAT(run_table_.Find(TaskIdOf(Direct(1))), HasReason("TASK_NOT_FOUND"));
  Accept(Direct(1));
  RunView run = *run_table_.Find(TaskIdOf(Direct(1)));
  EXPECT_EQ(run.token, Direct(1));
  EXPECT_EQ(run.started_at, start_);
  EXPECT_EQ(run.result, std::nullopt);
  EXPECT_EQ(run.finished_at, std::nullopt);
  End(Direct(1));
  run = *run_table_.Find(TaskIdOf(Direct(1)));
  EXPECT_THAT(run.result, Optional(kCompleted));
  EXPECT_THAT(run.finished_at, Optional(start_ + absl::Seconds(5)));
}

TEST_F(RunTableTest, OldestEndedRunIsRemovedFirstAndRunningOnesNever) {
  Accept(Direct(0));
  for (uint64_t task = 1; task <= RunTable::kDirectMax + 1; ++task) {
    Accept(Direct(task));
    End(Direct(task));
  }
  EXPECT_TRUE(IsKnown(Direct(0)));
  EXPECT_FALSE(IsKnown(Direct(1)));
  EXPECT_TRUE(IsKnown(Direct(2)));
}

TEST_F(RunTableTest, DispatchedRunsDoNotEvictDirectRuns) {
  Accept(Direct(1));
  End(Direct(1));
  for (uint64_t task = 1; task <= 2 * RunTable::kDirectMax; ++task) {
    Accept(Dispatched(task));
    End(Dispatched(task));
  }
  EXPECT_TRUE(IsKnown(Direct(1)));
  EXPECT_FALSE(IsKnown(Dispatched(2 * RunTable::kDirectMax - RunTable::kDispatchedMax)));
  EXPECT_TRUE(IsKnown(Dispatched(2 * RunTable::kDirectMax - RunTable::kDispatchedMax + 1)));
}

TEST_F(RunTableTest, LargeRunsAreRemovedSooner) {
  // Each run takes a little less than KeptOutput::kBytesMax, its result included.
  constexpr size_t kFit = RunTable::kDirectBytesMax / KeptOutput::kBytesMax;
  const std::string large(32 * 1024, 'x');
  size_t known = 0;
  for (uint64_t task = 1; task <= 2 * kFit; ++task) {
    Accept(Direct(task));
    for (int i = 0; i < 40; ++i) Write(Direct(task), large);
    End(Direct(task), {.result = large});
  }
  for (uint64_t task = 1; task <= 2 * kFit; ++task) known += IsKnown(Direct(task)) ? 1 : 0;
  EXPECT_LE(known * 31 * large.size(), RunTable::kDirectBytesMax);
  EXPECT_GE(known, kFit);
  EXPECT_TRUE(IsKnown(Direct(kFit + 1))) << "the latest are kept";
}

TEST_F(RunTableTest, ReusedTaskIdFindsTheLatestRun) {
  Accept(Dispatched(1));
  Write(Dispatched(1), "before");
  core::FenceToken later = Dispatched(1);
  later.director_epoch = 4;
  Accept(later);
  End(Dispatched(1));
  EXPECT_EQ(run_table_.Find(TaskIdOf(later))->token, later) << "both were running at the same time";
  End(later);
  Accept(later);
  EXPECT_EQ(run_table_.Find(TaskIdOf(later))->result, std::nullopt);
  End(later);
  for (uint64_t task = 2; task <= RunTable::kDispatchedMax; ++task) {
    Accept(Dispatched(task));
    End(Dispatched(task));
  }
  EXPECT_EQ(run_table_.Find(TaskIdOf(later))->token, later);
}

// ---- Readers ------------------------------------------------------------------------------------

TEST_F(RunTableTest, ReaderWithoutFollowGetsTheStoredOutput) {
  Accept(Direct(1));
  Write(Direct(1), "one");
  Write(Direct(1), "two");
  Received received;
  const ReaderId id = Read(received, {.task_id = TaskIdOf(Direct(1))});
  EXPECT_THAT(received.data, ElementsAre("one", "two"));
  EXPECT_EQ(received.end, std::nullopt);
  run_table_.ReadNext(id);
  EXPECT_THAT(received.end, Optional(IsOk()));
}

TEST_F(RunTableTest, FollowingReaderGetsNewOutputUntilTheRunEnds) {
  Accept(Dispatched(1));
  Write(Dispatched(1), "one");
  Received received;
  const ReaderId id = Read(received, {.task_id = TaskIdOf(Dispatched(1)), .follow = true});
  run_table_.ReadNext(id);
  EXPECT_THAT(received.data, ElementsAre("one"));
  Write(Dispatched(1), "two");
  EXPECT_THAT(received.data, ElementsAre("one", "two"));
  run_table_.ReadNext(id);
  EXPECT_EQ(received.end, std::nullopt);
  End(Dispatched(1));
  EXPECT_THAT(received.end, Optional(IsOk()));
}

TEST_F(RunTableTest, ReaderGetsNoOutputOfOtherRuns) {
  Accept(Direct(1));
  Accept(Direct(2));
  Received received;
  Read(received, {.task_id = TaskIdOf(Direct(1)), .follow = true});
  Write(Direct(2), "other");
  End(Direct(2));
  EXPECT_THAT(received.data, IsEmpty());
  EXPECT_EQ(received.end, std::nullopt);
}

TEST_F(RunTableTest, ReaderContinuesAfterAGivenChunk) {
  Accept(Direct(1));
  Write(Direct(1), "one");
  Write(Direct(1), "two");
  End(Direct(1));
  Received received;
  const ReaderId id =
      Read(received, {.task_id = TaskIdOf(Direct(1)), .after_number = 1, .follow = true});
  EXPECT_THAT(received.data, ElementsAre("two"));
  run_table_.ReadNext(id);
  EXPECT_THAT(received.end, Optional(IsOk()));
}

TEST_F(RunTableTest, ReaderGetsOnePiecePerRequest) {
  Accept(Direct(1));
  Received received;
  const ReaderId id = Read(received, {.task_id = TaskIdOf(Direct(1)), .follow = true});
  Write(Direct(1), "one");
  Write(Direct(1), "two");
  Write(Direct(1), "three");
  End(Direct(1));
  EXPECT_THAT(received.data, ElementsAre("one"));
  EXPECT_EQ(received.end, std::nullopt);
  run_table_.ReadNext(id);
  EXPECT_THAT(received.data, ElementsAre("one", "two", "three"));
  EXPECT_EQ(received.piece_count, 2u);
}

TEST_F(RunTableTest, PieceSizeIsLimited) {
  Accept(Direct(1));
  for (int i = 0; i < 20; ++i) Write(Direct(1), std::string(32 * 1024, 'x'));
  Received received;
  Read(received, {.task_id = TaskIdOf(Direct(1))});
  EXPECT_EQ(received.data.size(), RunTable::kPieceBytesMax / (32 * 1024) - 1);
}

TEST_F(RunTableTest, ReaderOfAnUnknownRunGetsNotFound) {
  Received received;
  Read(received, {.task_id = TaskIdOf(Direct(1)), .follow = true});
  EXPECT_THAT(received.end, Optional(HasReason("TASK_NOT_FOUND")));
}

TEST_F(RunTableTest, NumberOfReadersIsLimited) {
  Accept(Direct(1));
  std::vector<Received> received(RunTable::kReadersMax);
  ReaderId last;
  for (Received& one : received) last = Read(one, {.task_id = TaskIdOf(Direct(1)), .follow = true});
  Received rejected;
  Read(rejected, {.task_id = TaskIdOf(Direct(1)), .follow = true});
  EXPECT_THAT(rejected.end, Optional(HasReason("TOO_MANY_READERS")));
  run_table_.StopReading(last);
  Received next;
  Read(next, {.task_id = TaskIdOf(Direct(1)), .follow = true});
  EXPECT_EQ(next.end, std::nullopt);
  End(Direct(1));
  EXPECT_THAT(next.end, Optional(IsOk()));
  EXPECT_EQ(received.back().end, std::nullopt) << "it was stopped";
}

}  // namespace
}  // namespace callboard::agent
