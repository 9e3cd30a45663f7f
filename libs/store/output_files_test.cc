#include "libs/store/output_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "libs/testing/files.h"
#include "libs/testing/status_matchers.h"

namespace callboard::store {
namespace {

using core::OutputChunk;
using core::OutputStream;
using core::RunOutput;
using test::IsOk;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr size_t kNoLimit = 1 << 30;
// Room for ten chunks of a hundred bytes at the beginning, and for twenty to thirty at the end.
constexpr OutputLimits kSmall = {.head_bytes = 1500, .tail_file_bytes = 1500};

core::QueueId Task(uint64_t number) { return core::QueueId(core::Ulid(1, number)); }

RunOutput OutputOf(uint64_t task, uint64_t dispatch, std::vector<OutputChunk> chunks) {
  return {{Task(task), core::DispatchNumber(dispatch), 7}, std::move(chunks)};
}

class OutputFilesTest : public testing::Test {
 protected:
  OutputFiles Open(const OutputLimits& limits = {}) {
    absl::StatusOr<OutputFiles> files = OutputFiles::Open(folder_, limits);
    EXPECT_THAT(files, IsOk());
    return *std::move(files);
  }

  // Returns `dispatch/number data` and the dropped bytes of each chunk after `position`.
  static std::vector<std::string> Lines(const OutputFiles& files, uint64_t task,
                                        const OutputPosition& position = {}) {
    const absl::StatusOr<OutputPiece> piece = files.Read(Task(task), position, kNoLimit);
    EXPECT_THAT(piece, IsOk());
    std::vector<std::string> lines;
    for (const OutputPiece::Item& item : piece->items) {
      lines.push_back(
          absl::StrCat(item.dispatch.value(), "/", item.chunk.number, " ", item.chunk.data));
      if (item.chunk.dropped_bytes > 0) {
        absl::StrAppend(&lines.back(), " -", item.chunk.dropped_bytes);
      }
    }
    return lines;
  }

  // Appends chunks of a hundred bytes.
  static void AppendChunks(OutputFiles& files, uint64_t task, uint64_t first, uint64_t last) {
    for (uint64_t number = first; number <= last; ++number) {
      EXPECT_THAT(
          files.Append(OutputOf(task, 1, {{.number = number, .data = std::string(100, 'x')}})),
          IsOk());
    }
  }

  const std::filesystem::path folder_ = test::NewFolder() / "logs";
};

TEST_F(OutputFilesTest, AppendedChunkIsReadUnchanged) {
  OutputFiles files = Open();
  const OutputChunk chunk = {.number = 3,
                             .stream = OutputStream::kStderr,
                             .data = std::string("\0\xff oops\n", 8),
                             .at = absl::FromUnixNanos(1'700'000'000'000'000'001),
                             .dropped_bytes = 12};
  ASSERT_THAT(files.Append(OutputOf(1, 2, {chunk})), IsOk());
  const absl::StatusOr<OutputPiece> piece = files.Read(Task(1), {}, kNoLimit);
  ASSERT_THAT(piece, IsOk());
  ASSERT_EQ(piece->items.size(), 1u);
  EXPECT_EQ(piece->items[0].chunk, chunk);
  EXPECT_EQ(piece->items[0].dispatch, core::DispatchNumber(2));
  EXPECT_THAT(Lines(files, 2), IsEmpty());
}

TEST_F(OutputFilesTest, RepeatedAndLateChunksAreIgnored) {
  OutputFiles files = Open();
  ASSERT_THAT(
      files.Append(OutputOf(1, 1, {{.number = 1, .data = "a"}, {.number = 2, .data = "b"}})),
      IsOk());
  ASSERT_THAT(
      files.Append(OutputOf(1, 1, {{.number = 2, .data = "b"}, {.number = 3, .data = "c"}})),
      IsOk());
  ASSERT_THAT(files.Append(OutputOf(1, 2, {{.number = 1, .data = "d"}})), IsOk());
  ASSERT_THAT(files.Append(OutputOf(1, 1, {{.number = 4, .data = "late"}})), IsOk());
  EXPECT_THAT(Lines(files, 1), ElementsAre("1/1 a", "1/2 b", "1/3 c", "2/1 d"));
}

TEST_F(OutputFilesTest, ReadContinuesAfterAPosition) {
  OutputFiles files = Open();
  ASSERT_THAT(
      files.Append(OutputOf(1, 1, {{.number = 1, .data = "a"}, {.number = 2, .data = "b"}})),
      IsOk());
  const absl::StatusOr<OutputPiece> first = files.Read(Task(1), {}, /*bytes_max=*/1);
  ASSERT_THAT(first, IsOk());
  ASSERT_EQ(first->items.size(), 1u) << "up to about bytes_max";
  EXPECT_THAT(Lines(files, 1, first->end), ElementsAre("1/2 b"));
  ASSERT_THAT(files.Append(OutputOf(1, 1, {{.number = 3, .data = "c"}})), IsOk());
  EXPECT_THAT(Lines(files, 1, first->end), ElementsAre("1/2 b", "1/3 c"));
  EXPECT_THAT(Lines(files, 1, {.dispatch = core::DispatchNumber(1), .number = 2}),
              ElementsAre("1/3 c"))
      << "for a reader that only remembers the chunk";
}

TEST_F(OutputFilesTest, BeginningAndEndAreKeptAndTheGapIsReported) {
  OutputFiles files = Open(kSmall);
  AppendChunks(files, 1, 1, 1000);
  const absl::StatusOr<OutputPiece> piece = files.Read(Task(1), {}, kNoLimit);
  ASSERT_THAT(piece, IsOk());
  EXPECT_EQ(piece->items.front().chunk.number, 1u);
  EXPECT_EQ(piece->items.back().chunk.number, 1000u);
  uint64_t bytes = 0;
  uint64_t gaps = 0;
  for (const OutputPiece::Item& item : piece->items) {
    bytes += item.chunk.dropped_bytes + item.chunk.data.size();
    if (item.chunk.dropped_bytes > 0) ++gaps;
  }
  EXPECT_EQ(bytes, 100'000u) << "kept or reported as dropped";
  EXPECT_EQ(gaps, 1u);
  EXPECT_GT(piece->items.size(), 20u);
  EXPECT_LE(files.total_bytes(), kSmall.head_bytes + 2 * kSmall.tail_file_bytes);
}

TEST_F(OutputFilesTest, SlowReaderGetsItsGapReported) {
  OutputFiles files = Open(kSmall);
  AppendChunks(files, 1, 1, 20);
  const absl::StatusOr<OutputPiece> first = files.Read(Task(1), {}, kNoLimit);
  ASSERT_THAT(first, IsOk());
  AppendChunks(files, 1, 21, 100);
  const absl::StatusOr<OutputPiece> second = files.Read(Task(1), first->end, kNoLimit);
  ASSERT_THAT(second, IsOk());
  const uint64_t next = second->items.front().chunk.number;
  EXPECT_GT(next, 21u);
  EXPECT_EQ(second->items.front().chunk.dropped_bytes, 100 * (next - 21));
  EXPECT_EQ(second->items.back().chunk.number, 100u);
}

TEST_F(OutputFilesTest, ReaderContinuesAfterTheTaskWasRemovedAndWroteAgain) {
  OutputFiles files = Open({.total_bytes = 3000});
  AppendChunks(files, 1, 1, 10);
  const absl::StatusOr<OutputPiece> first = files.Read(Task(1), {}, kNoLimit);
  ASSERT_THAT(first, IsOk());
  AppendChunks(files, 2, 1, 20);
  ASSERT_THAT(Lines(files, 1), IsEmpty());
  AppendChunks(files, 1, 11, 18);
  EXPECT_EQ(Lines(files, 1, first->end).size(), 8u);
}

TEST_F(OutputFilesTest, GapIsReportedWhenReadingFromADispatch) {
  OutputFiles files = Open(kSmall);
  AppendChunks(files, 1, 1, 50);
  for (uint64_t number = 1; number <= 50; ++number) {
    ASSERT_THAT(files.Append(OutputOf(1, 2, {{.number = number, .data = std::string(100, 'y')}})),
                IsOk());
  }
  for (const OutputPosition& position :
       {OutputPosition{.dispatch = core::DispatchNumber(2)},
        OutputPosition{.dispatch = core::DispatchNumber(1), .number = 40}}) {
    const absl::StatusOr<OutputPiece> piece = files.Read(Task(1), position, kNoLimit);
    ASSERT_THAT(piece, IsOk());
    EXPECT_GT(piece->items.front().chunk.dropped_bytes, 1000u);
    EXPECT_EQ(piece->items.front().dispatch, core::DispatchNumber(2));
    EXPECT_EQ(piece->items.back().chunk.number, 50u);
  }
}

TEST_F(OutputFilesTest, MissingFileIsNoErrorForReaders) {
  OutputFiles files = Open();
  std::filesystem::remove(folder_);
  EXPECT_FALSE(files.Append(OutputOf(1, 1, {{.number = 1, .data = "lost"}})).ok());
  std::filesystem::create_directory(folder_);
  EXPECT_THAT(Lines(files, 1), IsEmpty());
  ASSERT_THAT(files.Append(OutputOf(1, 1, {{.number = 2, .data = "c"}})), IsOk());
  EXPECT_THAT(Lines(files, 1), ElementsAre("1/2 c -4"));
}

TEST_F(OutputFilesTest, PartialWriteOnAFullDiskIsUndone) {
  OutputFiles files = Open();
  ASSERT_THAT(files.Append(OutputOf(1, 1, {{.number = 1, .data = "a"}})), IsOk());
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit full = before;
  full.rlim_cur = files.total_bytes() + 50;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  EXPECT_FALSE(files.Append(OutputOf(1, 1, {{.number = 2, .data = std::string(1000, 'x')}})).ok());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  ASSERT_THAT(files.Append(OutputOf(1, 1, {{.number = 3, .data = "c"}})), IsOk());
  EXPECT_THAT(Lines(files, 1), ElementsAre("1/1 a", "1/3 c -1000"));
}

TEST_F(OutputFilesTest, ReopenedFolderContinuesWhereItEnded) {
  {
    OutputFiles files = Open(kSmall);
    AppendChunks(files, 1, 1, 50);
  }
  OutputFiles files = Open(kSmall);
  AppendChunks(files, 1, 41, 60);
  const absl::StatusOr<OutputPiece> piece = files.Read(Task(1), {}, kNoLimit);
  ASSERT_THAT(piece, IsOk());
  uint64_t bytes = 0;
  for (const OutputPiece::Item& item : piece->items) {
    bytes += item.chunk.dropped_bytes + item.chunk.data.size();
  }
  EXPECT_EQ(bytes, 6000u) << "nothing duplicated and nothing lost";
}

TEST_F(OutputFilesTest, TornChunkAtTheEndIsRemoved) {
  {
    OutputFiles files = Open();
    ASSERT_THAT(
        files.Append(OutputOf(1, 1, {{.number = 1, .data = "a"}, {.number = 2, .data = "torn"}})),
        IsOk());
  }
  const std::filesystem::path file = std::filesystem::directory_iterator(folder_)->path();
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  OutputFiles files = Open();
  EXPECT_THAT(Lines(files, 1), ElementsAre("1/1 a"));
  ASSERT_THAT(files.Append(OutputOf(1, 1, {{.number = 2, .data = "again"}})), IsOk());
  EXPECT_THAT(Lines(files, 1), ElementsAre("1/1 a", "1/2 again"));
  EXPECT_EQ(files.total_bytes(), std::filesystem::file_size(file));
}

TEST_F(OutputFilesTest, OverTheTotalTheLeastRecentlyWrittenTaskIsRemoved) {
  {
    OutputFiles files = Open({.total_bytes = 3000});
    AppendChunks(files, 1, 1, 8);
    AppendChunks(files, 2, 1, 8);
    AppendChunks(files, 1, 9, 9);
    AppendChunks(files, 3, 1, 8);
    EXPECT_THAT(Lines(files, 2), IsEmpty());
    EXPECT_EQ(Lines(files, 1).size(), 9u);
    EXPECT_EQ(Lines(files, 3).size(), 8u);
    EXPECT_LE(files.total_bytes(), 3000u);
  }
  OutputFiles files = Open({.total_bytes = 1500});
  EXPECT_THAT(Lines(files, 1), IsEmpty()) << "also when the folder is opened";
  EXPECT_EQ(Lines(files, 3).size(), 8u);
}

TEST_F(OutputFilesTest, RemovedTaskLeavesNoFiles) {
  OutputFiles files = Open(kSmall);
  AppendChunks(files, 1, 1, 100);
  AppendChunks(files, 2, 1, 1);
  files.Remove(Task(1));
  files.Remove(Task(9));
  EXPECT_THAT(Lines(files, 1), IsEmpty());
  EXPECT_THAT(files.Tasks(), ElementsAre(Task(2)));
  files.Remove(Task(2));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  EXPECT_EQ(files.total_bytes(), 0u);
}

TEST_F(OutputFilesTest, UnwritableChunkIsReportedByTheNext) {
  OutputFiles files = Open();
  ASSERT_THAT(files.Append(OutputOf(1, 1, {{.number = 1, .data = "a"}})), IsOk());
  // Replaces the file by a folder.
  const std::filesystem::path file = std::filesystem::directory_iterator(folder_)->path();
  std::filesystem::rename(file, file.string() + ".aside");
  std::filesystem::create_directory(file);
  EXPECT_THAT(files.Append(OutputOf(1, 1, {{.number = 2, .data = "lost"}})),
              test::StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr(file.string())));
  std::filesystem::remove(file);
  std::filesystem::rename(file.string() + ".aside", file);
  ASSERT_THAT(files.Append(OutputOf(1, 1, {{.number = 3, .data = "c"}})), IsOk());
  EXPECT_THAT(Lines(files, 1), ElementsAre("1/1 a", "1/3 c -4"));
}

TEST_F(OutputFilesTest, ForeignFilesAreLeftAlone) {
  std::filesystem::create_directories(folder_);
  std::filesystem::create_directory(folder_ / "lost+found");
  OutputFiles files = Open();
  EXPECT_THAT(files.Tasks(), IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(folder_ / "lost+found"));
}

}  // namespace
}  // namespace callboard::store
