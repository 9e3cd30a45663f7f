#include "libs/agent/run_book.h"

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

const RunResult kDone = {.exit_code = 0, .result = "42"};

core::FenceToken Direct(uint64_t task) {
  return {.queue_id = core::QueueId(core::Ulid(0, task)), .dispatch = core::DispatchNumber(1)};
}
core::FenceToken Dispatched(uint64_t task) {
  return {core::QueueId(core::Ulid(1, task)), core::DispatchNumber(1), 3};
}
std::string IdOf(const core::FenceToken& token) {
  return core::TaskIdText(token.queue_id, token.dispatch);
}

// What a reader was shown, and how it ended.
struct Seen {
  std::vector<std::string> data = {};
  size_t pieces = 0;
  std::optional<absl::Status> end = {};
};

class RunBookTest : public testing::Test {
 protected:
  void Begin(const core::FenceToken& token) { book_.OnBegun(token, start_); }
  void Write(const core::FenceToken& token, const std::string& data) {
    book_.OnOutput(token, {.number = ++last_number_, .data = data});
  }
  void End(const core::FenceToken& token, const RunResult& result = kDone) {
    book_.OnEnded(token, result, start_ + absl::Seconds(5));
  }
  bool Knows(const core::FenceToken& token) { return book_.Find(IdOf(token)).ok(); }
  ReaderId Read(Seen& seen, OutputQuery query) {
    const ReaderId id(++last_reader_);
    book_.Read(id, std::move(query),
               {.show =
                    [&seen](const core::OutputWritten& piece) {
                      ++seen.pieces;
                      for (const core::OutputChunk& chunk : piece.chunks) {
                        seen.data.push_back(chunk.data);
                      }
                    },
                .end = [&seen](const absl::Status& status) { seen.end = status; }});
    return id;
  }

  const absl::Time start_ = absl::FromUnixSeconds(1'700'000'000);
  RunBook book_;
  uint64_t last_number_ = 0;
  uint64_t last_reader_ = 0;
};

// ---- Runs ---------------------------------------------------------------------------------------

TEST_F(RunBookTest, RunIsWorkingUntilItHasItsResult) {
  EXPECT_THAT(book_.Find(IdOf(Direct(1))), HasReason("TASK_NOT_FOUND"));
  Begin(Direct(1));
  RunView run = *book_.Find(IdOf(Direct(1)));
  EXPECT_EQ(run.token, Direct(1));
  EXPECT_EQ(run.started_at, start_);
  EXPECT_EQ(run.result, std::nullopt);
  EXPECT_EQ(run.finished_at, std::nullopt);
  End(Direct(1));
  run = *book_.Find(IdOf(Direct(1)));
  EXPECT_THAT(run.result, Optional(kDone));
  EXPECT_THAT(run.finished_at, Optional(start_ + absl::Seconds(5)));
}

TEST_F(RunBookTest, LongestEndedIsForgottenFirstAndWhatRunsNever) {
  Begin(Direct(0));
  for (uint64_t task = 1; task <= RunBook::kDirectMax + 1; ++task) {
    Begin(Direct(task));
    End(Direct(task));
  }
  EXPECT_TRUE(Knows(Direct(0)));
  EXPECT_FALSE(Knows(Direct(1)));
  EXPECT_TRUE(Knows(Direct(2)));
}

TEST_F(RunBookTest, RunsOfADirectorDoNotPushOutThoseThatAreNowhereElse) {
  Begin(Direct(1));
  End(Direct(1));
  for (uint64_t task = 1; task <= 2 * RunBook::kDirectMax; ++task) {
    Begin(Dispatched(task));
    End(Dispatched(task));
  }
  EXPECT_TRUE(Knows(Direct(1)));
  EXPECT_FALSE(Knows(Dispatched(2 * RunBook::kDirectMax - RunBook::kDispatchedMax)));
  EXPECT_TRUE(Knows(Dispatched(2 * RunBook::kDirectMax - RunBook::kDispatchedMax + 1)));
}

TEST_F(RunBookTest, RunsThatTakeMuchAreForgottenSooner) {
  // With its result, each takes a little less than this.
  constexpr size_t kFit = RunBook::kDirectBytesMax / KeptOutput::kBytesMax;
  const std::string much(32 * 1024, 'x');
  size_t known = 0;
  for (uint64_t task = 1; task <= 2 * kFit; ++task) {
    Begin(Direct(task));
    for (int i = 0; i < 40; ++i) Write(Direct(task), much);
    End(Direct(task), {.result = much});
  }
  for (uint64_t task = 1; task <= 2 * kFit; ++task) known += Knows(Direct(task)) ? 1 : 0;
  EXPECT_LE(known * 31 * much.size(), RunBook::kDirectBytesMax);
  EXPECT_GE(known, kFit);
  EXPECT_TRUE(Knows(Direct(kFit + 1))) << "the last ones";
}

TEST_F(RunBookTest, NameThatIsGivenAgainIsThatOfTheLastRun) {
  Begin(Dispatched(1));
  Write(Dispatched(1), "before");
  core::FenceToken later = Dispatched(1);
  later.director_epoch = 4;
  Begin(later);
  End(Dispatched(1));
  EXPECT_EQ(book_.Find(IdOf(later))->token, later) << "both run at once";
  End(later);
  Begin(later);
  EXPECT_EQ(book_.Find(IdOf(later))->result, std::nullopt);
  End(later);
  for (uint64_t task = 2; task <= RunBook::kDispatchedMax; ++task) {
    Begin(Dispatched(task));
    End(Dispatched(task));
  }
  EXPECT_EQ(book_.Find(IdOf(later))->token, later);
}

// ---- Readers ------------------------------------------------------------------------------------

TEST_F(RunBookTest, ReaderWhoDoesNotFollowGetsWhatThereIs) {
  Begin(Direct(1));
  Write(Direct(1), "one");
  Write(Direct(1), "two");
  Seen seen;
  const ReaderId id = Read(seen, {.task_id = IdOf(Direct(1))});
  EXPECT_THAT(seen.data, ElementsAre("one", "two"));
  EXPECT_EQ(seen.end, std::nullopt);
  book_.GoOn(id);
  EXPECT_THAT(seen.end, Optional(IsOk()));
}

TEST_F(RunBookTest, FollowerGetsWhatComesUntilTheRunHasEnded) {
  Begin(Dispatched(1));
  Write(Dispatched(1), "one");
  Seen seen;
  const ReaderId id = Read(seen, {.task_id = IdOf(Dispatched(1)), .follow = true});
  book_.GoOn(id);
  EXPECT_THAT(seen.data, ElementsAre("one"));
  Write(Dispatched(1), "two");
  EXPECT_THAT(seen.data, ElementsAre("one", "two"));
  book_.GoOn(id);
  EXPECT_EQ(seen.end, std::nullopt);
  End(Dispatched(1));
  EXPECT_THAT(seen.end, Optional(IsOk()));
}

TEST_F(RunBookTest, OutputOfOneRunIsNotThatOfAnother) {
  Begin(Direct(1));
  Begin(Direct(2));
  Seen seen;
  Read(seen, {.task_id = IdOf(Direct(1)), .follow = true});
  Write(Direct(2), "other");
  End(Direct(2));
  EXPECT_THAT(seen.data, IsEmpty());
  EXPECT_EQ(seen.end, std::nullopt);
}

TEST_F(RunBookTest, ReaderGoesOnFromTheChunkHeHas) {
  Begin(Direct(1));
  Write(Direct(1), "one");
  Write(Direct(1), "two");
  End(Direct(1));
  Seen seen;
  const ReaderId id = Read(seen, {.task_id = IdOf(Direct(1)), .after_number = 1, .follow = true});
  EXPECT_THAT(seen.data, ElementsAre("two"));
  book_.GoOn(id);
  EXPECT_THAT(seen.end, Optional(IsOk()));
}

TEST_F(RunBookTest, SlowReaderIsShownOnePieceUntilHeAsksForMore) {
  Begin(Direct(1));
  Seen seen;
  const ReaderId id = Read(seen, {.task_id = IdOf(Direct(1)), .follow = true});
  Write(Direct(1), "one");
  Write(Direct(1), "two");
  Write(Direct(1), "three");
  End(Direct(1));
  EXPECT_THAT(seen.data, ElementsAre("one"));
  EXPECT_EQ(seen.end, std::nullopt);
  book_.GoOn(id);
  EXPECT_THAT(seen.data, ElementsAre("one", "two", "three"));
  EXPECT_EQ(seen.pieces, 2u);
}

TEST_F(RunBookTest, PieceIsBounded) {
  Begin(Direct(1));
  for (int i = 0; i < 20; ++i) Write(Direct(1), std::string(32 * 1024, 'x'));
  Seen seen;
  Read(seen, {.task_id = IdOf(Direct(1))});
  EXPECT_EQ(seen.data.size(), RunBook::kPieceBytesMax / (32 * 1024) - 1);
}

TEST_F(RunBookTest, ReaderOfARunThatIsNotKnownHearsSo) {
  Seen seen;
  Read(seen, {.task_id = IdOf(Direct(1)), .follow = true});
  EXPECT_THAT(seen.end, Optional(HasReason("TASK_NOT_FOUND")));
}

TEST_F(RunBookTest, ReadersAreBoundedAndWhoLeavesMakesRoom) {
  Begin(Direct(1));
  std::vector<Seen> seen(RunBook::kReadersMax);
  ReaderId last;
  for (Seen& one : seen) last = Read(one, {.task_id = IdOf(Direct(1)), .follow = true});
  Seen refused;
  Read(refused, {.task_id = IdOf(Direct(1)), .follow = true});
  EXPECT_THAT(refused.end, Optional(HasReason("TOO_MANY_READERS")));
  book_.StopReading(last);
  Seen next;
  Read(next, {.task_id = IdOf(Direct(1)), .follow = true});
  EXPECT_EQ(next.end, std::nullopt);
  End(Direct(1));
  EXPECT_THAT(next.end, Optional(IsOk()));
  EXPECT_EQ(seen.back().end, std::nullopt) << "he has left";
}

}  // namespace
}  // namespace callboard::agent
