#include "libs/store/file_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "callboard/storage/v1/journal.pb.h"
#include "libs/core/hash.h"
#include "libs/ports/event_store.h"
#include "libs/testing/files.h"
#include "libs/testing/status_matchers.h"

namespace callboard::store {
namespace {

using test::IsOk;
using test::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

core::FenceToken Token(uint64_t task) {
  return {core::QueueId(core::Ulid(task, 7)), core::DispatchNumber(2), 3};
}

const core::RunResult kResult = {.end = core::RunResult::End::kFailed,
                                 .exit_code = -1,
                                 .signal = "SIGSEGV",
                                 .result = std::string("\0\xff", 2),
                                 .result_truncated = true,
                                 .error = "why"};

class FileJournalTest : public testing::Test {
 protected:
  FileJournal::OpenResult Open() { return *FileJournal::Open(path_); }
  // Opens the journal again and returns its state.
  agent::JournalState Reopen() { return Open().state; }

  const std::string path_ = test::NewFolder() / "journal";
};

TEST_F(FileJournalTest, ReopenedJournalHasWhatWasWritten) {
  {
    const FileJournal::OpenResult opened = Open();
    EXPECT_THAT(opened.state.accepted, IsEmpty());
    ASSERT_THAT(opened.journal->Write({agent::RunAccepted{Token(1)}, agent::RunAccepted{Token(2)},
                                       agent::RunAccepted{Token(3)}}),
                IsOk());
    ASSERT_THAT(opened.journal->Write(
                    {agent::ResultStored{Token(2), kResult}, agent::RunForgotten{Token(3)}}),
                IsOk());
  }
  const agent::JournalState state = Reopen();
  EXPECT_THAT(state.accepted, ElementsAre(Token(1)));
  ASSERT_EQ(state.results.size(), 1u);
  EXPECT_EQ(state.results.at(Token(2)), kResult);
}

TEST_F(FileJournalTest, TextThatIsNotUtf8IsRepairedOnReading) {
  {
    const FileJournal::OpenResult opened = Open();
    ASSERT_THAT(opened.journal->Write({agent::ResultStored{
                    Token(1), {.signal = "SIG\xff", .result = "\xff", .error = "cut \xe2\x82"}}}),
                IsOk());
  }
  const core::RunResult repaired = {
      .signal = "SIG\xef\xbf\xbd", .result = "\xff", .error = "cut \xef\xbf\xbd\xef\xbf\xbd"};
  EXPECT_EQ(Reopen().results.at(Token(1)), repaired);
}

TEST_F(FileJournalTest, EveryRunEndSurvivesReopening) {
  using End = core::RunResult::End;
  const std::vector<End> ends = {End::kCompleted, End::kFailed, End::kTimedOut, End::kCancelled,
                                 End::kNotStarted};
  {
    const FileJournal::OpenResult opened = Open();
    for (size_t i = 0; i < ends.size(); ++i) {
      ASSERT_THAT(opened.journal->Write({agent::ResultStored{Token(i), {.end = ends[i]}}}), IsOk());
    }
  }
  const agent::JournalState state = Reopen();
  ASSERT_EQ(state.results.size(), ends.size());
  for (size_t i = 0; i < ends.size(); ++i) EXPECT_EQ(state.results.at(Token(i)).end, ends[i]);
}

TEST_F(FileJournalTest, UnknownEntryIsAnErrorAndLeavesTheFileUnchanged) {
  { ASSERT_THAT(Open().journal->Write({agent::RunAccepted{Token(1)}}), IsOk()); }
  storage::v1::JournalEntry unknown;
  unknown.set_kind(static_cast<storage::v1::JournalEntry::Kind>(77));
  storage::v1::JournalEntry unknown_end;
  unknown_end.set_kind(storage::v1::JournalEntry::KIND_RESULT);
  unknown_end.mutable_run()->set_state(static_cast<v1::AgentRun::State>(77));
  const std::string known = test::FileText(path_);
  for (const storage::v1::JournalEntry& entry : {unknown, unknown_end}) {
    std::string text = known;
    core::AppendFrame(entry.SerializeAsString(), text);
    std::ofstream(path_, std::ios::binary) << text;
    EXPECT_THAT(FileJournal::Open(path_),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("does not know")));
    EXPECT_EQ(test::FileText(path_), text);
  }
}

TEST_F(FileJournalTest, TornLastEntryIsIgnored) {
  { ASSERT_THAT(Open().journal->Write({agent::RunAccepted{Token(1)}}), IsOk()); }
  const size_t one = std::filesystem::file_size(path_);
  { ASSERT_THAT(Open().journal->Write({agent::RunAccepted{Token(2)}}), IsOk()); }
  for (size_t size = std::filesystem::file_size(path_) - 1; size > one; --size) {
    std::filesystem::copy_file(path_, path_ + ".torn",
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(path_ + ".torn", size);
    EXPECT_THAT(FileJournal::Open(path_ + ".torn")->state.accepted, ElementsAre(Token(1))) << size;
  }
}

TEST_F(FileJournalTest, EntriesSurviveAKilledProcess) {
  const FileJournal::OpenResult opened = Open();
  ASSERT_THAT(opened.journal->Write({agent::RunAccepted{Token(1)}}), IsOk());
  ASSERT_THAT(opened.journal->Write({agent::RunAccepted{Token(2)}}), IsOk());
  // The state that a killed process leaves.
  std::filesystem::copy_file(path_, path_ + ".killed");
  const auto next = FileJournal::Open(path_ + ".killed");
  ASSERT_THAT(next, IsOk());
  EXPECT_THAT(next->state.accepted, ElementsAre(Token(1), Token(2)));
}

TEST_F(FileJournalTest, FullFileIsRewrittenWithoutForgottenRuns) {
  {
    const FileJournal::OpenResult opened = Open();
    ASSERT_THAT(opened.journal->Write({agent::RunAccepted{Token(1)}}), IsOk());
    for (uint64_t task = 2; task < 50'000; ++task) {
      ASSERT_THAT(opened.journal->Write(
                      {agent::RunAccepted{Token(task)}, agent::RunForgotten{Token(task)}}),
                  IsOk());
    }
    EXPECT_LT(std::filesystem::file_size(path_), size_t{2} << 20);
  }
  EXPECT_THAT(Reopen().accepted, ElementsAre(Token(1)));
}

TEST_F(FileJournalTest, ResultLargerThanTheFreeSpaceIsStored) {
  const core::RunResult large = {.result = std::string(3 << 20, 'x')};
  {
    const FileJournal::OpenResult opened = Open();
    ASSERT_THAT(opened.journal->Write({agent::RunAccepted{Token(1)}}), IsOk());
    ASSERT_THAT(opened.journal->Write({agent::ResultStored{Token(1), large}}), IsOk());
    ASSERT_THAT(opened.journal->Write({agent::RunAccepted{Token(2)}}), IsOk());
  }
  const agent::JournalState state = Reopen();
  EXPECT_EQ(state.results.at(Token(1)), large);
  EXPECT_THAT(state.accepted, ElementsAre(Token(2)));
}

TEST_F(FileJournalTest, FullDiskIsAnErrorOnOpen) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {.rlim_cur = 64 << 10, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THAT(FileJournal::Open(path_).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("File too large")));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(FileJournal::Open(path_), IsOk());
}

TEST_F(FileJournalTest, JournalWithoutThisFormatIsRefused) {
  storage::v1::JournalEntry entry;
  entry.set_kind(storage::v1::JournalEntry::KIND_ACCEPTED);
  entry.set_dispatch(1);
  for (const uint32_t format : {0, 2, 3}) {
    if (format > 0) {
      entry.set_kind(storage::v1::JournalEntry::KIND_FORMAT);
      entry.set_format(format);
    }
    std::string text;
    core::AppendFrame(entry.SerializeAsString(), text);
    std::ofstream(path_, std::ios::binary) << text;
    const absl::Status status = FileJournal::Open(path_).status();
    EXPECT_THAT(status, test::HasReason(std::string(ports::kStoreRefused))) << format;
    EXPECT_THAT(std::string(status.message()), HasSubstr("move the file away")) << format;
    EXPECT_EQ(test::FileText(path_), text) << "it is not changed";
  }
}

TEST_F(FileJournalTest, SecondAgentCannotOpenTheSameJournal) {
  const FileJournal::OpenResult first = Open();
  EXPECT_THAT(FileJournal::Open(path_).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another agent")));
}

TEST_F(FileJournalTest, MissingFolderIsNamedInTheError) {
  EXPECT_THAT(FileJournal::Open(path_ + "/missing/journal").status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("missing")));
}

}  // namespace
}  // namespace callboard::store
