// callboard db on the store of a director that runs, was killed, or refuses to start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "callboard/config/v1/cli.pb.h"
#include "callboard/config/v1/director.pb.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/base/check.h"
#include "libs/config/settings.h"
#include "libs/testing/files.h"
#include "libs/testing/process.h"
#include "libs/testing/running_server.h"

namespace callboard {
namespace {

using test::BuiltBinary;
using test::FileText;
using test::NewFolder;
using test::ProcessResult;
using test::RunningServer;
using test::RunToEnd;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAreArray;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::StartsWith;

constexpr char kDirector[] = "services/director/callboard-director";

std::string DataDirFlag(const std::filesystem::path& folder) {
  return absl::StrCat("--data_dir=", folder.string());
}

ProcessResult RunDb(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {BuiltBinary("services/cli/callboard"), "db"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return RunToEnd(command);
}

// A director with a folder of tasks.
class StoredQueue {
 public:
  explicit StoredQueue(const std::filesystem::path& folder)
      : director_(kDirector, {DataDirFlag(folder), "--queue.max_size=0"}),
        stub_(v1::QueueService::NewStub(director_.NewChannel())) {}

  // Returns their ids.
  std::vector<std::string> Submit(int tasks) {
    std::vector<std::string> ids;
    for (int i = 0; i < tasks; ++i) {
      grpc::ClientContext context;
      v1::SubmitTaskRequest request;
      v1::SubmitTaskResponse response;
      request.set_prompt(absl::StrCat("echo ", i));
      const grpc::Status status = stub_->SubmitTask(&context, request, &response);
      CHECK(status.ok()) << status.error_message();
      ids.push_back(response.queue_id());
    }
    return ids;
  }

  std::vector<std::string> ListIds() {
    grpc::ClientContext context;
    v1::ListTasksRequest request;
    v1::ListTasksResponse response;
    request.set_page_size(1000);
    const grpc::Status status = stub_->ListTasks(&context, request, &response);
    CHECK(status.ok()) << status.error_message();
    std::vector<std::string> ids;
    for (const v1::Task& task : response.tasks()) ids.push_back(task.queue_id());
    return ids;
  }

  // Returns its folder.
  std::filesystem::path Checkpoint(const std::string& name) {
    const ProcessResult made =
        RunDb({"checkpoint", "--name=" + name,
               absl::StrCat("--director.address=", director_.grpc_address())});
    CHECK(made.exit_code == 0) << made.output;
    const std::vector<std::string> words = absl::StrSplit(made.output, absl::ByAnyChar(" \n"));
    CHECK_EQ(words.at(0), "checkpoint");
    return words.at(1);
  }

  void Kill() {
    director_.process().Signal(SIGKILL);
    EXPECT_THAT(director_.process().WaitForExit(absl::Seconds(10)), Optional(128 + SIGKILL));
  }

 private:
  RunningServer director_;
  std::unique_ptr<v1::QueueService::Stub> stub_;
};

// Flips a bit in the middle of the newest log; returns the log's name.
std::string DamageLog(const std::filesystem::path& folder) {
  const std::filesystem::path log = test::NewestFile(folder, ".log");
  test::FlipBit(log, 0.5);
  return log.filename();
}

TEST(DbTest, CheckpointOfALiveDirectorCanBeInspected) {
  const std::filesystem::path folder = NewFolder();
  StoredQueue queue(folder);
  const std::vector<std::string> ids = queue.Submit(3);
  const std::filesystem::path checkpoint = queue.Checkpoint("first");
  queue.Submit(1);
  EXPECT_EQ(checkpoint, folder / "checkpoints" / "first");
  const std::string flag = DataDirFlag(checkpoint);

  const ProcessResult verified = RunDb({"verify", flag});
  EXPECT_THAT(verified.exit_code, Optional(0)) << verified.output;
  EXPECT_THAT(verified.output, AllOf(HasSubstr(" is undamaged\n"), HasSubstr("tasks      3\n")));

  const ProcessResult stats = RunDb({"stats", flag, "-o", "json"});
  EXPECT_THAT(stats.exit_code, Optional(0)) << stats.output;
  EXPECT_THAT(stats.output, AllOf(HasSubstr("\"counts\":{\"pending\":3,"),
                                  HasSubstr("\"oldest_pending\":{\"queue_id\":\"" + ids[0])));

  const ProcessResult got = RunDb({"get", ids[1], flag, "-o", "json"});
  EXPECT_THAT(got.exit_code, Optional(0)) << got.output;
  EXPECT_THAT(got.output, AllOf(StartsWith("{\"task\":{\"prompt\":\"echo 1\","),
                                HasSubstr("\"state\":\"pending\""), HasSubstr("\"position\":2,"),
                                HasSubstr("\"kind\":\"ADMITTED\"")));
  EXPECT_THAT(RunDb({"get", ids[1], flag}).output, HasSubstr("state      pending, position 2\n"));

  const ProcessResult exported = RunDb({"export", flag});
  const std::vector<std::string> lines = absl::StrSplit(exported.output, '\n');
  ASSERT_EQ(lines.size(), 4u) << exported.output;
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_THAT(lines[i], HasSubstr(ids[i]));
  const std::filesystem::path file = NewFolder() / "tasks.jsonl";
  EXPECT_THAT(RunDb({"export", flag, "--to=" + file.string()}).exit_code, Optional(0));
  EXPECT_EQ(FileText(file), exported.output);
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST(DbTest, RestoredStoreIsPrivateToItsOwner) {
  using std::filesystem::perms;
  const std::filesystem::path folder = NewFolder();
  std::filesystem::path checkpoint;
  {
    StoredQueue queue(folder);
    queue.Submit(3);
    checkpoint = queue.Checkpoint("first");
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(checkpoint)) {
    std::filesystem::permissions(entry, perms::group_read | perms::others_read,
                                 std::filesystem::perm_options::add);
  }
  const std::filesystem::path restored = NewFolder() / "restored";
  const mode_t umask_before = umask(S_IWGRP | S_IWOTH);
  const ProcessResult ended =
      RunDb({"restore", "--from=" + checkpoint.string(), DataDirFlag(restored)});
  umask(umask_before);
  ASSERT_THAT(ended.exit_code, Optional(0)) << ended.output;
  constexpr perms kOthers = perms::group_all | perms::others_all;
  EXPECT_EQ(std::filesystem::status(restored).permissions() & kOthers, perms::none);
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(restored)) {
    EXPECT_EQ(entry.status().permissions() & kOthers, perms::none) << entry.path();
    ++files;
  }
  EXPECT_GT(files, 5u);
}

TEST(DbTest, InterruptedExportLeavesAllOrNothing) {
  const std::filesystem::path folder = NewFolder();
  {
    StoredQueue queue(folder);
    queue.Submit(500);
  }
  const std::filesystem::path file = NewFolder() / "tasks.jsonl";
  const std::string building = file.string() + ".new";
  test::Process exporting({BuiltBinary("services/cli/callboard"), "db", "export",
                           DataDirFlag(folder), "--to=" + file.string()});
  while (!std::filesystem::exists(building) && !std::filesystem::exists(file)) {
    std::this_thread::yield();
  }
  exporting.Signal(SIGINT);
  const std::optional<int> code = exporting.WaitForExit(absl::Seconds(60));
  // The export may have finished before the signal arrived.
  EXPECT_THAT(code, AnyOf(Optional(130), Optional(0)));
  EXPECT_EQ(std::filesystem::exists(file), code == 0);
  EXPECT_FALSE(std::filesystem::exists(building));
}

TEST(DbTest, FolderOfALiveDirectorIsRejected) {
  const std::filesystem::path folder = NewFolder();
  StoredQueue queue(folder);
  const std::filesystem::path checkpoint = queue.Checkpoint("first");
  const std::string uses =
      absl::StrCat("Error: another director uses ", folder.string(), ", or `callboard db` does; ");
  const ProcessResult verified = RunDb({"verify", DataDirFlag(folder)});
  EXPECT_THAT(verified.exit_code, Optional(75));
  EXPECT_EQ(verified.output,
            uses + "make a checkpoint with `callboard db checkpoint` and inspect that\n");
  const std::vector<std::vector<std::string>> changes = {
      {"restore", "--accept_loss"},
      {"restore", "--from=" + checkpoint.string()},
      {"checkpoint"},
  };
  for (std::vector<std::string> change : changes) {
    change.push_back(DataDirFlag(folder));
    const ProcessResult rejected = RunDb(change);
    EXPECT_THAT(rejected.exit_code, Optional(75)) << change[0];
    EXPECT_THAT(rejected.output, StartsWith(uses));
  }
}

TEST(DbTest, DamagedStoreCanBeRestoredOrSalvaged) {
  const std::filesystem::path folder = NewFolder();
  std::vector<std::string> early, late;
  std::filesystem::path checkpoint;
  {
    StoredQueue queue(folder);
    early = queue.Submit(5);
    checkpoint = queue.Checkpoint("first");
    late = queue.Submit(45);
    queue.Kill();
  }
  const std::string log = DamageLog(folder);
  const std::filesystem::path copy = NewFolder() / "copy";
  std::filesystem::copy(folder, copy, std::filesystem::copy_options::recursive);

  // The director reports the error and the next step.
  const ProcessResult rejected = RunToEnd(test::ServerCommand(kDirector, {DataDirFlag(folder)}));
  EXPECT_THAT(rejected.exit_code, Optional(65));
  EXPECT_THAT(rejected.output,
              AllOf(HasSubstr(log), HasSubstr("`callboard db verify " + DataDirFlag(folder) + "`"),
                    HasSubstr("`callboard db restore`")));
  const ProcessResult verified = RunDb({"verify", DataDirFlag(folder)});
  EXPECT_THAT(verified.exit_code, Optional(65));
  EXPECT_THAT(verified.output, AllOf(HasSubstr("damaged: "), HasSubstr(log),
                                     HasSubstr("is damaged\n"), HasSubstr("--accept_loss")));
  EXPECT_THAT(RunDb({"export", DataDirFlag(folder)}).exit_code, Optional(65));
  const ProcessResult salvaged = RunDb({"export", "--skip_damaged", DataDirFlag(folder)});
  EXPECT_THAT(salvaged.exit_code, Optional(0));
  EXPECT_THAT(salvaged.output, AllOf(HasSubstr("skipped: "), HasSubstr(early[4])));

  // First way: restore the checkpoint.
  const ProcessResult restored =
      RunDb({"restore", "--from=" + checkpoint.string(), DataDirFlag(folder)});
  EXPECT_THAT(restored.exit_code, Optional(0)) << restored.output;
  EXPECT_THAT(restored.output, AllOf(HasSubstr("tasks      5\n"), HasSubstr("/damaged-")));
  {
    StoredQueue queue(folder);
    EXPECT_THAT(queue.ListIds(), ElementsAreArray(early));
    // Both can be used: the store continues, the checkpoint is unchanged.
    queue.Submit(1);
    EXPECT_THAT(RunDb({"verify", DataDirFlag(checkpoint)}).output, HasSubstr("tasks      5\n"));
  }

  // Second way: continue with the remaining tasks.
  const ProcessResult accepted = RunDb({"restore", "--accept_loss", DataDirFlag(copy)});
  EXPECT_THAT(accepted.exit_code, Optional(0)) << accepted.output;
  EXPECT_THAT(accepted.output,
              AllOf(HasSubstr("lost       sequences "), EndsWith(copy.string() + "\n")));
  StoredQueue queue(copy);
  const std::vector<std::string> left = queue.ListIds();
  EXPECT_GE(left.size(), early.size());
  EXPECT_LT(left.size(), early.size() + late.size());
  EXPECT_THAT(accepted.output, HasSubstr(absl::StrCat("kept       ", left.size(), " tasks")));
}

TEST(DbTest, CheckpointWorksWithoutADirector) {
  const std::filesystem::path folder = NewFolder();
  std::vector<std::string> ids;
  {
    StoredQueue queue(folder);
    ids = queue.Submit(2);
    queue.Kill();
  }
  const ProcessResult made =
      RunDb({"checkpoint", "--name=cold", DataDirFlag(folder), "-o", "json"});
  EXPECT_THAT(made.exit_code, Optional(0)) << made.output;
  EXPECT_THAT(made.output, HasSubstr("\"size_bytes\":"));
  // The checkpoint starts a new machine.
  const std::filesystem::path fresh = NewFolder() / "fresh";
  const ProcessResult restored = RunDb({"restore", DataDirFlag(fresh), "-o", "json",
                                        "--from=" + (folder / "checkpoints" / "cold").string()});
  EXPECT_THAT(restored.exit_code, Optional(0)) << restored.output;
  EXPECT_THAT(restored.output, HasSubstr("\"tasks\":2,"));
  EXPECT_THAT(StoredQueue(fresh).ListIds(), ElementsAreArray(ids));
}

TEST(DbTest, NotFoundExitsWith4) {
  const std::filesystem::path folder = NewFolder();
  { StoredQueue(folder).Kill(); }
  const ProcessResult task =
      RunDb({"get", "queue-01hzy0m7c4t9q3v8k2n6b5r1xd", DataDirFlag(folder)});
  EXPECT_THAT(task.exit_code, Optional(4));
  EXPECT_THAT(task.output, StartsWith("Error: there is no task queue-01hzy"));
  const std::filesystem::path empty = NewFolder();
  for (const char* command : {"verify", "stats", "export", "checkpoint"}) {
    EXPECT_THAT(RunDb({command, DataDirFlag(empty)}).exit_code, Optional(4)) << command;
  }
  EXPECT_THAT(RunDb({"restore", "--accept_loss", DataDirFlag(empty)}).exit_code, Optional(4));
  EXPECT_TRUE(std::filesystem::is_empty(empty));
}

TEST(DbTest, WrongUsageExitsWith2) {
  const std::vector<std::vector<std::string>> cases = {
      {}, {"verfy"}, {"restore"}, {"restore", "--accept_loss", "--from=x"}, {"get", "task-1"}};
  for (const std::vector<std::string>& arguments : cases) {
    EXPECT_THAT(RunDb(arguments).exit_code, Optional(2)) << testing::PrintToString(arguments);
  }
}

TEST(DbTest, CheckpointNeedsADirectorUnlessAFolderIsNamed) {
  EXPECT_THAT(RunDb({"checkpoint", "--director.address=127.0.0.1:1"}).exit_code, Optional(5));
}

TEST(DbTest, DefaultFolderIsTheDirectors) {
  config::v1::CliConfig cli;
  config::v1::DirectorConfig director;
  CHECK_OK(config::LoadSettings({.arguments = {}, .environment = {}}, cli).status());
  CHECK_OK(config::LoadSettings({.arguments = {}, .environment = {}}, director).status());
  EXPECT_EQ(cli.data_dir(), director.data_dir());
}

}  // namespace
}  // namespace callboard
