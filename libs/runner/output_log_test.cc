#include "libs/runner/run_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "libs/core/limits.h"

namespace callboard::runner {
namespace {

using ports::OutputChunk;
using ports::OutputStream;

constexpr absl::Time kNoon = absl::FromUnixSeconds(1'700'000'000);

class OutputLogTest : public testing::Test {
 protected:
  void Append(const std::string& text, OutputStream stream = OutputStream::kStdout) {
    log_.Append(stream, text, kNoon + now_, now_);
    TakeAll();
  }
  void TakeAll() {
    while (std::optional<OutputChunk> chunk = log_.TakeChunk()) taken_.push_back(*std::move(chunk));
  }
  void Advance(absl::Duration time) {
    now_ += time;
    log_.CutChunks(now_);
    TakeAll();
  }
  void Finish() {
    log_.Finish();
    TakeAll();
  }
  uint64_t TakenBytes() const {
    uint64_t bytes = 0;
    for (const OutputChunk& chunk : taken_) bytes += chunk.data.size();
    return bytes;
  }
  uint64_t DroppedBytes() const {
    uint64_t bytes = 0;
    for (const OutputChunk& chunk : taken_) bytes += chunk.dropped_bytes;
    return bytes;
  }

  absl::Duration now_;
  OutputLog log_;
  std::vector<OutputChunk> taken_;
};

TEST_F(OutputLogTest, SmallWritesAreJoinedForAWhile) {
  Append("one ");
  Advance(OutputLog::kJoinFor / 2);
  Append("two ");
  EXPECT_EQ(log_.due_at(), OutputLog::kJoinFor);
  EXPECT_TRUE(taken_.empty());
  Advance(OutputLog::kJoinFor / 2);
  EXPECT_EQ(log_.due_at(), absl::InfiniteDuration());
  Append("three");
  Finish();
  EXPECT_EQ(taken_, (std::vector<OutputChunk>{
                        {.number = 1, .data = "one two ", .at = kNoon},
                        {.number = 2, .data = "three", .at = kNoon + OutputLog::kJoinFor}}));
}

TEST_F(OutputLogTest, FullChunkIsAvailableImmediately) {
  Append(std::string(OutputLog::kChunkBytesMax + 1, 'x'));
  ASSERT_EQ(taken_.size(), 1u);
  EXPECT_EQ(taken_.front().data.size(), OutputLog::kChunkBytesMax);
}

TEST_F(OutputLogTest, StreamsAreSeparateButShareNumbers) {
  Append("error", OutputStream::kStderr);
  Advance(absl::Milliseconds(1));
  Append("text");
  Finish();
  ASSERT_EQ(taken_.size(), 2u);
  EXPECT_EQ(taken_[0].stream, OutputStream::kStderr);
  EXPECT_EQ(taken_[1],
            (OutputChunk{.number = 2, .data = "text", .at = kNoon + absl::Milliseconds(1)}));
}

TEST_F(OutputLogTest, FloodKeepsItsBeginningAndEnd) {
  const uint64_t written = 64 * 1024 * 1024;
  for (uint64_t bytes = 0; bytes < written; bytes += 64 * 1024) {
    Append(std::string(64 * 1024, bytes == 0 ? 'a' : 'x'));
  }
  Append("end");
  EXPECT_LE(TakenBytes(), OutputLog::kHandedOutBytesMax);
  Finish();
  EXPECT_LE(TakenBytes(), OutputLog::kUndeliveredBytesMax);
  EXPECT_EQ(taken_.front().data.front(), 'a');
  EXPECT_TRUE(taken_.back().data.ends_with("end"));
  EXPECT_EQ(TakenBytes() + DroppedBytes(), written + 3);
}

TEST_F(OutputLogTest, NumbersOfDroppedChunksAreMissing) {
  for (int i = 0; i < 100; ++i) Append(std::string(OutputLog::kChunkBytesMax, 'x'));
  Finish();
  const size_t handed_out = OutputLog::kHandedOutBytesMax / OutputLog::kChunkBytesMax;
  ASSERT_EQ(taken_.size(), handed_out + 2);
  EXPECT_EQ(taken_[handed_out - 1].number, handed_out);
  EXPECT_EQ(taken_[handed_out].number, 99u);
  EXPECT_EQ(taken_[handed_out].dropped_bytes, (98 - handed_out) * OutputLog::kChunkBytesMax);
  EXPECT_EQ(taken_[handed_out + 1].dropped_bytes, 0u);
}

TEST_F(OutputLogTest, DeliveryMakesRoom) {
  while (TakenBytes() < OutputLog::kHandedOutBytesMax) {
    Append(std::string(OutputLog::kChunkBytesMax, 'x'));
  }
  Append(std::string(OutputLog::kChunkBytesMax, 'y'));
  EXPECT_EQ(TakenBytes(), OutputLog::kHandedOutBytesMax);
  log_.Acknowledge(OutputLog::kChunkBytesMax);
  TakeAll();
  EXPECT_EQ(taken_.back().data.front(), 'y');
  EXPECT_EQ(DroppedBytes(), 0u);
  // Acknowledging more than was handed out does not raise the limit.
  log_.Acknowledge(1'000'000'000);
  for (int i = 0; i < 100; ++i) Append(std::string(OutputLog::kChunkBytesMax, 'x'));
  EXPECT_LE(TakenBytes(), 2 * OutputLog::kHandedOutBytesMax + OutputLog::kChunkBytesMax);
}

TEST_F(OutputLogTest, TailIsTheEndOfStandardOutput) {
  Append("beginning");
  Append("noise", OutputStream::kStderr);
  EXPECT_EQ(log_.stdout_tail(), "beginning");
  for (int i = 0; i < 100; ++i) Append(std::string(5000, 'x'));
  Append("end");
  EXPECT_EQ(log_.stdout_tail().size(), core::kResultBytesMax);
  EXPECT_TRUE(absl::string_view(log_.stdout_tail()).substr(core::kResultBytesMax - 3) == "end");
  EXPECT_EQ(log_.stdout_bytes(), 9u + 500'000u + 3u);
  Append(std::string(1'000'000, 'y') + "z");
  EXPECT_EQ(log_.stdout_tail().size(), core::kResultBytesMax);
  EXPECT_EQ(log_.stdout_tail().back(), 'z');
}

TEST_F(OutputLogTest, CutTailBeginsWithAWholeCharacter) {
  const std::string rest(core::kResultBytesMax - 1, 'x');
  Append("€" + rest);
  EXPECT_EQ(log_.stdout_tail(), rest);
  for (int i = 0; i < 5; ++i) Append(rest);
  Append("€");
  Append(rest);
  EXPECT_EQ(log_.stdout_tail(), rest);
  Append("x€" + rest.substr(2));
  EXPECT_EQ(log_.stdout_tail(), "€" + rest.substr(2));
}

}  // namespace
}  // namespace callboard::runner
