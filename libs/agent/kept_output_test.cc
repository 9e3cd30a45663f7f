#include "libs/agent/run_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace callboard::agent {
namespace {

using core::OutputChunk;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr size_t kChunkBytes = 32 * 1024;
constexpr size_t kNoLimit = KeptOutput::kBytesMax;

class KeptOutputTest : public testing::Test {
 protected:
  // Appends chunks of that size with consecutive numbers.
  void Append(size_t count, size_t bytes = kChunkBytes) {
    for (size_t i = 0; i < count; ++i) {
      output_.Append({.number = ++last_, .data = std::string(bytes, 'x')});
    }
  }
  std::vector<OutputChunk> After(uint64_t number, size_t bytes_max) const {
    OutputPosition position = output_.PositionOf(number);
    return output_.ReadAfter(position, bytes_max);
  }
  std::vector<uint64_t> NumbersAfter(uint64_t number, size_t bytes_max = kNoLimit) const {
    std::vector<uint64_t> numbers;
    for (const OutputChunk& chunk : After(number, bytes_max)) {
      numbers.push_back(chunk.number);
    }
    return numbers;
  }

  KeptOutput output_;
  uint64_t last_ = 0;
};

TEST_F(KeptOutputTest, CanBeReadFromAnyChunk) {
  Append(3);
  EXPECT_THAT(NumbersAfter(0), ElementsAre(1, 2, 3));
  EXPECT_THAT(NumbersAfter(2), ElementsAre(3));
  EXPECT_THAT(NumbersAfter(3), IsEmpty());
  EXPECT_THAT(NumbersAfter(99), IsEmpty());
}

TEST_F(KeptOutputTest, ReadReturnsUpToTheLimitButAtLeastOneChunk) {
  Append(9);
  EXPECT_THAT(NumbersAfter(0, 2 * kChunkBytes), ElementsAre(1));
  EXPECT_THAT(NumbersAfter(1, 3 * kChunkBytes), ElementsAre(2, 3));
  EXPECT_THAT(NumbersAfter(6, 3 * kChunkBytes), ElementsAre(7, 8)) << "from head to tail";
  EXPECT_THAT(NumbersAfter(4, 1), ElementsAre(5));
}

TEST_F(KeptOutputTest, KeepsTheBeginningAndTheEnd) {
  Append(100);
  const std::vector<OutputChunk> kept = After(0, kNoLimit);
  size_t head_bytes = 0;
  size_t gaps = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (gaps == 0 && kept[i].number == i + 1) head_bytes += kChunkBytes;
    if (kept[i].number == i + 1) continue;
    if (gaps == 0) {
      EXPECT_EQ(kept[i].dropped_bytes, (kept[i].number - i - 1) * kChunkBytes);
      ++gaps;
    }
    EXPECT_EQ(kept[i].number, 100 - (kept.size() - 1 - i));
  }
  EXPECT_EQ(gaps, 1u);
  EXPECT_EQ(head_bytes, KeptOutput::kHeadBytesMax - kChunkBytes);
  EXPECT_LE(output_.bytes(), KeptOutput::kBytesMax);
  EXPECT_GT(output_.bytes(), KeptOutput::kBytesMax - 3 * kChunkBytes);
}

TEST_F(KeptOutputTest, BytesDroppedByTheRunnerAreCounted) {
  Append(7);
  output_.Append({.number = 10, .data = std::string(kChunkBytes, 'x'), .dropped_bytes = 5});
  last_ = 10;
  EXPECT_EQ(After(7, kNoLimit).at(0).dropped_bytes, 5u);
  Append(100);
  EXPECT_EQ(After(7, kNoLimit).at(0).dropped_bytes % kChunkBytes, 5u);
}

TEST_F(KeptOutputTest, EveryByteIsReadOrReportedAsDroppedOnce) {
  OutputPosition position;
  uint64_t counted_bytes = 0;
  const auto read = [&](size_t bytes_max) {
    for (const OutputChunk& chunk : output_.ReadAfter(position, bytes_max)) {
      counted_bytes += chunk.data.size() + chunk.dropped_bytes;
    }
  };
  for (int i = 0; i < 10; ++i) {
    Append(50);
    read(2 * kChunkBytes);
  }
  read(kNoLimit);
  EXPECT_EQ(counted_bytes, 500 * kChunkBytes);
}

TEST_F(KeptOutputTest, ReaderAtADroppedChunkGetsTheWholeGapReported) {
  Append(100);
  const uint64_t first_after_gap = NumbersAfter(10).at(0);
  EXPECT_EQ(After(10, kNoLimit).at(0).dropped_bytes, (first_after_gap - 8) * kChunkBytes);
  EXPECT_EQ(After(first_after_gap - 1, kNoLimit).at(0).dropped_bytes,
            (first_after_gap - 8) * kChunkBytes);
  EXPECT_EQ(After(first_after_gap, kNoLimit).at(0).dropped_bytes, 0u);
}

TEST_F(KeptOutputTest, ManyTinyChunksStayWithinTheLimit) {
  Append(100'000, 1);
  EXPECT_LE(output_.bytes(), KeptOutput::kBytesMax);
  EXPECT_LE(After(0, kNoLimit).size() * sizeof(OutputChunk), KeptOutput::kBytesMax);
}

TEST_F(KeptOutputTest, ChunkLargerThanTheTailIsDropped) {
  Append(1);
  Append(1, KeptOutput::kBytesMax);
  EXPECT_THAT(NumbersAfter(0), ElementsAre(1));
  Append(1, 1);
  EXPECT_THAT(NumbersAfter(0), ElementsAre(1, 3));
  EXPECT_EQ(After(1, kNoLimit).at(0).dropped_bytes, KeptOutput::kBytesMax);
}

}  // namespace
}  // namespace callboard::agent
