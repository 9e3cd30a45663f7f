#include "libs/config/jobs_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "callboard/v1/queue.pb.h"
#include "libs/base/mutex.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/files.h"
#include "libs/testing/status_matchers.h"

namespace callboard::config {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kInvalidFile[] = "jobs: {}\n";

std::string FileWith(const std::string& name) {
  return "jobs:\n- {name: " + name + ", schedule: '@daily', prompt: p}\n";
}

class JobsFileTest : public testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(path_) << text; }
  void Open() {
    const auto take = [this](const std::vector<core::Job>& jobs) {
      base::MutexLock lock(mutex_);
      names_.clear();
      for (const core::Job& job : jobs) names_.push_back(job.name);
      ++times_;
      changed_.NotifyAll();
    };
    auto file = JobsFile::Open(path_, clock_, take, absl::Milliseconds(10));
    ASSERT_THAT(file, IsOk());
    file_ = *std::move(file);
  }
  std::vector<std::string> names() {
    base::MutexLock lock(mutex_);
    return names_;
  }
  // Waits until jobs were received `times` times.
  void WaitForTimes(int times) {
    base::MutexLock lock(mutex_);
    while (times_ < times) changed_.Wait(mutex_);
  }
  std::string WaitForError() {
    while (file_->state().error.empty()) std::this_thread::yield();
    return file_->state().error;
  }

  const std::string path_ = (test::NewFolder() / "jobs.yaml").string();
  test::FakeClock clock_;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);
  int times_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<JobsFile> file_;
};

TEST_F(JobsFileTest, IsReadBeforeOpenReturns) {
  Write(FileWith("a"));
  Open();
  EXPECT_THAT(names(), ElementsAre("a"));
  EXPECT_EQ(file_->state().read_at, clock_.WallNow());
  EXPECT_THAT(file_->state().error, IsEmpty());
}

TEST_F(JobsFileTest, InvalidOrMissingFileAtStartIsAnError) {
  const auto open = [this] { return JobsFile::Open(path_, clock_, nullptr).status(); };
  EXPECT_THAT(open(), StatusIs(absl::StatusCode::kInvalidArgument,
                               "jobs_file: cannot read " + path_ + ": No such file or directory"));
  Write(kInvalidFile);
  EXPECT_THAT(open(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("jobs.yaml:1:")));
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_THAT(open(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Is a directory")));
}

TEST_F(JobsFileTest, IsReadAgainWhenWritten) {
  Write(FileWith("a"));
  Open();
  Write(FileWith("b"));
  WaitForTimes(2);
  EXPECT_THAT(names(), ElementsAre("b"));
}

TEST_F(JobsFileTest, IsReadAgainWhenReplaced) {
  Write(FileWith("a"));
  Open();
  std::ofstream(path_ + ".new") << FileWith("c");
  std::filesystem::rename(path_ + ".new", path_);
  WaitForTimes(2);
  EXPECT_THAT(names(), ElementsAre("c"));
}

TEST_F(JobsFileTest, IsReadAgainWhenALinkInItsPathChanges) {
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  for (const char* version : {"1", "2"}) {
    std::filesystem::create_directory(folder / version);
    std::ofstream(folder / version / "jobs.yaml") << FileWith(version);
  }
  std::filesystem::create_symlink("1", folder / "data");
  std::filesystem::create_symlink("data/jobs.yaml", path_);
  Open();
  std::filesystem::create_symlink("2", folder / "new");
  std::filesystem::rename(folder / "new", folder / "data");
  WaitForTimes(2);
  EXPECT_THAT(names(), ElementsAre("2"));
}

TEST_F(JobsFileTest, InvalidVersionLeavesThePreviousOneInUse) {
  Write(FileWith("a"));
  Open();
  Write(kInvalidFile);
  EXPECT_THAT(WaitForError(), HasSubstr("jobs.yaml:1: jobs: expected a list"));
  EXPECT_THAT(names(), ElementsAre("a"));
  Write(FileWith("b"));
  WaitForTimes(2);
  EXPECT_THAT(file_->state().error, IsEmpty());
}

TEST_F(JobsFileTest, MissingFileLeavesThePreviousVersionInUse) {
  Write(FileWith("a"));
  Open();
  std::filesystem::remove(path_);
  EXPECT_THAT(WaitForError(), HasSubstr("No such file or directory"));
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(JobsFileTest, UnchangedFileThatReturnsIsInUseAgain) {
  Write(FileWith("a"));
  Open();
  std::filesystem::rename(path_, path_ + ".gone");
  WaitForError();
  std::filesystem::rename(path_ + ".gone", path_);
  WaitForTimes(2);
  EXPECT_THAT(file_->state().error, IsEmpty());
}

TEST_F(JobsFileTest, EmptiedFileDoesNotRemoveTheJobs) {
  Write(FileWith("a"));
  Open();
  Write("");
  EXPECT_THAT(WaitForError(), HasSubstr("the file has no jobs; write `jobs: []`"));
  Write("jobs: []\n");
  WaitForTimes(2);
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(JobsFileTest, ReloadReadsAnUnchangedFile) {
  Write(FileWith("a"));
  Open();
  file_->Reload();
  WaitForTimes(2);
  EXPECT_THAT(names(), ElementsAre("a"));
}

FileStamp Grown(off_t size) { return {.inode = 1, .size = size}; }

TEST(StabilityCheckTest, FileIsReadAfterTwoEqualChecks) {
  StabilityCheck check;
  EXPECT_FALSE(check.ShouldRead(Grown(1)));
  EXPECT_FALSE(check.ShouldRead(Grown(2)));
  EXPECT_TRUE(check.ShouldRead(Grown(2)));
  EXPECT_FALSE(check.ShouldRead(Grown(2)));
  EXPECT_FALSE(check.ShouldRead(Grown(3)));
  EXPECT_TRUE(check.ShouldRead(Grown(3)));
}

TEST(StabilityCheckTest, ReloadWaitsForTwoEqualChecks) {
  StabilityCheck check;
  EXPECT_FALSE(check.ShouldRead(Grown(1)));
  // Shortly after the previous check, which found the same stamp.
  check.Restart(Grown(1));
  EXPECT_FALSE(check.ShouldRead(Grown(2)));
  check.Restart(Grown(2));
  EXPECT_TRUE(check.ShouldRead(Grown(2)));
}

TEST(StabilityCheckTest, ReloadReadsTheSameFileAgain) {
  StabilityCheck check;
  EXPECT_FALSE(check.ShouldRead(Grown(1)));
  EXPECT_TRUE(check.ShouldRead(Grown(1)));
  check.Restart(Grown(1));
  EXPECT_TRUE(check.ShouldRead(Grown(1)));
  EXPECT_FALSE(check.ShouldRead(Grown(1)));
}

TEST(TimeZoneTest, IanaNamesAreAccepted) {
  const absl::StatusOr<absl::TimeZone> zone = LoadZone("Europe/Berlin");
  ASSERT_THAT(zone, IsOk());
  EXPECT_EQ(zone->At(absl::UnixEpoch()).offset, 3600);
}

TEST(TimeZoneTest, EmptyNameIsUtc) { EXPECT_EQ(*LoadZone(""), absl::UTCTimeZone()); }

TEST(TimeZoneTest, LocalZoneAndFilePathsAreRejected) {
  for (const char* name :
       {"localtime", "/etc/localtime", "file:/etc/localtime", "libc:localtime", "../localtime",
        "Europe/Berlin ", "Mars/Olympus", "europe berlin", "\xff"}) {
    EXPECT_THAT(LoadZone(name), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("is not a time zone of the IANA database")))
        << name;
  }
}

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// Reads a file with one job, which has its required keys and these lines.
absl::StatusOr<core::Job> ReadOne(const std::string& lines) {
  const absl::StatusOr<std::vector<core::Job>> jobs = ReadJobs(
      absl::StrCat("jobs:\n- name: nightly\n  schedule: 0 3 * * *\n  prompt: do it\n", lines),
      "jobs.yaml");
  if (!jobs.ok()) return jobs.status();
  return jobs->front();
}

callboard::v1::SubmitTaskRequest TaskOf(const core::Job& job) {
  callboard::v1::SubmitTaskRequest task;
  EXPECT_TRUE(task.ParseFromString(*job.task));
  return task;
}

auto HasError(const std::string& message) {
  return StatusIs(absl::StatusCode::kInvalidArgument, message);
}

TEST(JobReaderTest, NameScheduleAndPromptAreRequired) {
  const absl::StatusOr<core::Job> job = ReadOne("");
  ASSERT_THAT(job, IsOk());
  EXPECT_EQ(job->name, "nightly");
  EXPECT_THAT(job->text.expressions, ElementsAre("0 3 * * *"));
  EXPECT_EQ(TaskOf(*job).prompt(), "do it");
  EXPECT_EQ(TaskOf(*job).source(), "scheduler");
  EXPECT_EQ(TaskOf(*job).source_job(), "nightly");
  EXPECT_EQ(job->overlap, core::OverlapPolicy::kSkip);
  EXPECT_EQ(job->catch_up, core::CatchUp());
  EXPECT_THAT(ReadJobs("jobs:\n- name: a\n  prompt: p\n", "f"),
              HasError("f:2: job a: schedule: is required"));
  EXPECT_THAT(ReadJobs("jobs:\n- schedule: '@daily'\n  prompt: p\n", "f"),
              HasError("f:2: a job: name: is required"));
  EXPECT_THAT(ReadJobs("jobs:\n- name: a\n  schedule: '@daily'\n", "f"),
              HasError("f:2: job a: prompt is required"));
}

TEST(JobReaderTest, EveryKeyIsRead) {
  const absl::StatusOr<core::Job> job = ReadOne(R"(
  time_zone: Europe/Berlin
  overlap: queue_one
  catch_up: {all: 3}
  on_queue_full: {wait: 5m}
  jitter: 90s
  start: 2026-01-01T00:00:00Z
  end: 2027-01-01T00:00:00+01:00
  max_runs: 7
  paused: true
  pause_after_failures: 2
  agent_url: grpc://127.0.0.1:7071
)");
  ASSERT_THAT(job, IsOk());
  EXPECT_EQ(job->time_zone, "Europe/Berlin");
  EXPECT_EQ(job->overlap, core::OverlapPolicy::kQueueOne);
  EXPECT_EQ(job->catch_up, (core::CatchUp{core::CatchUp::Kind::kAll, 3}));
  EXPECT_EQ(job->queue_full_wait, absl::Minutes(5));
  EXPECT_EQ(job->jitter, absl::Seconds(90));
  EXPECT_EQ(job->start, absl::FromUnixSeconds(1767225600));
  EXPECT_EQ(job->end, absl::FromUnixSeconds(1798758000));
  EXPECT_EQ(job->max_runs, 7u);
  EXPECT_TRUE(job->paused);
  EXPECT_EQ(job->pause_after_failures, 2u);
  EXPECT_EQ(job->agent_url, "grpc://127.0.0.1:7071");
  EXPECT_EQ(job->schedule.NextAfter(absl::FromUnixSeconds(1767225600))->at,
            absl::FromUnixSeconds(1767232800));
}

TEST(JobReaderTest, TaskFieldsAreThoseOfSubmitTask) {
  const absl::StatusOr<core::Job> job = ReadOne(R"(
  payload: plain text
  model: 4
  timeout_seconds: 90
  thinking: true
  project: {name: site, path: /srv/site}
  env:
    LEVEL: 3
    DRY: true
  labels: {team: blue}
  retry_on: [exit:7, timeout]
  on_agent_lost: requeue
)");
  ASSERT_THAT(job, IsOk());
  const callboard::v1::SubmitTaskRequest task = TaskOf(*job);
  EXPECT_EQ(task.payload(), "plain text");
  EXPECT_EQ(task.model(), "4");
  EXPECT_EQ(task.timeout_seconds(), 90u);
  EXPECT_TRUE(task.has_thinking() && task.thinking());
  EXPECT_EQ(task.project().name(), "site");
  EXPECT_EQ(task.project().path(), "/srv/site");
  EXPECT_THAT(task.env(), UnorderedElementsAre(Pair("DRY", "true"), Pair("LEVEL", "3")));
  EXPECT_THAT(task.labels(), ElementsAre(Pair("team", "blue")));
  EXPECT_THAT(task.retry_on(), ElementsAre("exit:7", "timeout"));
  EXPECT_EQ(task.on_agent_lost(), callboard::v1::ON_AGENT_LOST_REQUEUE);
}

TEST(JobReaderTest, EveryTaskFieldHasATypeThatAKeyCanHave) {
  const auto& submit = *callboard::v1::SubmitTaskRequest::descriptor();
  for (int i = 0; i < submit.field_count(); ++i) {
    const auto& field = *submit.field(i);
    if (field.name() == "prompt") continue;
    std::string value = field.is_map() ? "{a: x}" : field.is_repeated() ? "[x]" : "x";
    if (field.message_type() != nullptr && !field.is_map()) {
      value = absl::StrCat("{", field.message_type()->field(0)->name(), ": x}");
    }
    // Most of the values are wrong. A type that no key can have ends the process.
    const absl::Status status =
        ReadOne(absl::StrCat("  ", field.name(), ": ", value, "\n")).status();
    EXPECT_THAT(status.message(), Not(HasSubstr("holds settings"))) << field.name();
  }
}

TEST(JobReaderTest, ScheduleCanBeAListAndHaveSeconds) {
  const auto jobs = ReadJobs(
      "jobs:\n- name: a\n  seconds: true\n  prompt: p\n"
      "  schedule: ['*/5 * * * * *', '@hourly']\n",
      "f");
  ASSERT_THAT(jobs, IsOk());
  EXPECT_THAT(jobs->front().text.expressions, ElementsAre("*/5 * * * * *", "@hourly"));
}

TEST(JobReaderTest, AtEveryCountsFromTheJobsStart) {
  const auto jobs = ReadJobs(
      "jobs:\n- {name: a, schedule: '@every 7s', prompt: p, start: '2026-01-01T00:00:01Z'}\n", "f");
  ASSERT_THAT(jobs, IsOk());
  EXPECT_EQ(core::NextOccurrence(jobs->front(), absl::InfinitePast())->at,
            absl::FromUnixSeconds(1767225601));
}

TEST(JobReaderTest, OriginsAreRecorded) {
  const absl::StatusOr<core::Job> job = ReadOne("  overlap: allow\n");
  ASSERT_THAT(job, IsOk());
  EXPECT_EQ(job->origins.at("overlap"), "file");
  EXPECT_EQ(job->origins.at("catch_up"), "default");
}

TEST(JobReaderTest, OnlyAnEmptyListMeansNoJobs) {
  const auto none = ReadJobs("jobs: []\n", "f");
  ASSERT_THAT(none, IsOk());
  EXPECT_THAT(*none, IsEmpty());
  for (const char* text : {"", "# nothing\n", "jobs:\n", "jobs: ~\n", "{}\n", "~\n"}) {
    EXPECT_THAT(ReadJobs(text, "f"),
                HasError("f:1: the file has no jobs; write `jobs: []` if it should have none"))
        << text;
  }
}

TEST(JobReaderTest, UnclosedQuoteIsAnErrorWhereverTheFileIsTruncated) {
  for (const std::string quote : {"\"", "'"}) {
    const std::string file =
        absl::StrCat("jobs:\n- name: a\n  schedule: '@daily'\n  prompt: ", quote,
                     "rm -rf build\n    \\t here", quote, "\n");
    const size_t begin = file.find("prompt: ") + sizeof("prompt: ");
    ASSERT_THAT(ReadJobs(file, "f"), IsOk());
    for (size_t end = begin; end < file.size() - 2; ++end) {
      EXPECT_THAT(ReadJobs(file.substr(0, end), "f"), StatusIs(absl::StatusCode::kInvalidArgument))
          << file.substr(0, end);
    }
    EXPECT_THAT(ReadJobs(file.substr(0, file.find("build") + sizeof("build")), "f"),
                HasError("f:4: job a: a quote that begins here is not closed"));
  }
  // A quote in a quoted value, and quotes in a plain or block value, are valid.
  EXPECT_THAT(ReadOne("  model: 'it''s'\n"), IsOk());
  EXPECT_THAT(ReadOne("  model: \"a \\\" b\"\n"), IsOk());
  EXPECT_THAT(ReadOne("  env: {A: it's}\n"), IsOk());
  EXPECT_THAT(ReadOne("  model: |-\n    \"x\n"), IsOk());
}

TEST(JobReaderTest, BinaryDataIsAnErrorWithJobAndLine) {
  EXPECT_THAT(ReadOne(std::string("  model: a\0b\n", 14)),
              HasError("jobs.yaml:5: job nightly: contains a NUL byte"));
  EXPECT_THAT(ReadOne("  model: \xff\n"), HasError("jobs.yaml:5: job nightly: invalid UTF-8"));
}

TEST(JobReaderTest, UnquotedSpecialValueIsAnErrorWithAdvice) {
  for (const char* value : {"* * * * *", "*/5 * * * *", "@daily", "  * * * * *", "  @daily",
                            "\t@daily", "[ * * * * * ]", "[  @daily]"}) {
    EXPECT_THAT(ReadJobs(absl::StrCat("jobs:\n- name: a\n  schedule: 0 0 * * *\n  prompt: p\n"
                                      "- name: b\n  prompt: p\n  schedule: ",
                                      value, "\n"),
                         "f"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         ::testing::AllOf(::testing::StartsWith("f:7: job b: "),
                                          ::testing::HasSubstr("must be quoted"))))
        << value;
  }
}

TEST(JobReaderTest, ZoneInAnExpressionIsAnError) {
  EXPECT_THAT(
      ReadJobs("jobs:\n- {name: a, schedule: CRON_TZ=Europe/Berlin 0 3 * * *, prompt: p}\n", "f"),
      StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("set time_zone")));
}

TEST(JobReaderTest, JobThatTheDirectorWouldRejectIsAnError) {
  EXPECT_THAT(
      ReadOne("  priority: high\n"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               ::testing::StartsWith("jobs.yaml:5: job nightly: priority is not supported")));
  EXPECT_THAT(ReadOne("  fairness_key: x\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::StartsWith("jobs.yaml:5: job nightly: fairness_key is not")));
}

TEST(JobReaderTest, InvalidValueIsAnErrorWithLineAndAllowedValues) {
  const std::pair<const char*, const char*> wrong[] = {
      {"time_zone: Mars/Olympus",
       "time_zone: \"Mars/Olympus\" is not a time zone of the IANA database; use a name such as "
       "Europe/Berlin"},
      {"overlap: queue-one", "overlap: 'queue-one' is not valid; expected: skip|queue_one|allow"},
      {"catch_up: all", "catch_up: expected latest, none or `all: <count>`"},
      {"catch_up: soon", "catch_up: expected latest, none or `all: <count>`"},
      {"catch_up: {all: many}", "catch_up.all: 'many' is not valid; expected: 0..4294967295"},
      {"catch_up: {all: 0}", "catch_up all: must be 1 to 100"},
      {"on_queue_full: wait", "on_queue_full: expected skip or `wait: <duration>`"},
      {"on_queue_full: 5m", "on_queue_full: expected skip or `wait: <duration>`"},
      {"jitter: 5", "jitter: '5' is not valid; expected: a duration such as 90s, 5m or 1h30m"},
      {"jitter: -5s", "jitter: '-5s' is not valid; expected: a duration such as 90s, 5m or 1h30m"},
      {"start: tomorrow",
       "start: 'tomorrow' is not valid; expected: a time such as 2026-01-31T08:00:00Z"},
      {"start: 1850-01-01T00:00:00Z", "start: expected a time between the years 1900 and 2299"},
      {"end: infinite-future",
       "end: 'infinite-future' is not valid; expected: a time such as 2026-01-31T08:00:00Z"},
      {"end: 10000-01-01T00:00:00Z",
       "end: '10000-01-01T00:00:00Z' is not valid; expected: a time such as 2026-01-31T08:00:00Z"},
      {"max_runs: -1", "max_runs: '-1' is not valid; expected: 0..4294967295"},
      {"paused: maybe", "paused: 'maybe' is not valid; expected: true|false"},
      {"agent_url: localhost", "agent_url: expected grpc://host:port"},
      {"timeout_seconds: soon", "timeout_seconds: 'soon' is not valid; expected: 0..4294967295"},
      {"retry_on: [exit:7, never]",
       "retry_on[1] must be one of exit:<1..255>, exit:*, signal:<name such as SIGKILL>, timeout"},
      {"env: [A]", "env: expected a map"},
      {"env: {'': A}", "env has an entry without a key"},
      {"prompt_: p", "there is no key 'prompt_'; did you mean 'prompt'?"},
      {"project: {nam: x}", "there is no key 'project.nam'; did you mean 'project.name'?"},
  };
  for (const auto& [line, message] : wrong) {
    EXPECT_THAT(ReadOne(absl::StrCat("  ", line, "\n")),
                HasError(absl::StrCat("jobs.yaml:5: job nightly: ", message)))
        << line;
  }
}

TEST(JobReaderTest, InvalidScheduleIsAnErrorWithFieldAndColumn) {
  EXPECT_THAT(ReadJobs("jobs:\n- name: a\n  prompt: p\n  schedule: 75 * * * *\n", "f"),
              HasError("f:4: job a: schedule: minute: 75 is not in 0-59 (field 1, column 1 of \"75 "
                       "* * * *\")"));
  EXPECT_THAT(
      ReadJobs("jobs:\n- name: a\n  prompt: p\n  schedule:\n  - '@daily'\n  - 0 25 * * *\n", "f"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               ::testing::StartsWith("f:6: job a: schedule: hour: 25 is not in 0-23")));
}

TEST(JobReaderTest, KeyWithADotIsAnErrorWithAdvice) {
  EXPECT_THAT(
      ReadJobs("jobs:\n- {name: a, schedule: '@daily', prompt: p, catch_up.all: 5}\n", "f"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               ::testing::HasSubstr("'catch_up.all'; write a map in the key before the dot")));
}

TEST(JobReaderTest, InvalidElementIsAnErrorWithItsLine) {
  const std::pair<const char*, const char*> wrong[] = {
      {"retry_on:\n  - exit:7\n  - timeout\n  - never",
       "jobs.yaml:8: job nightly: retry_on[2] must"},
      {"labels:\n    a: b\n    team: [x]", "jobs.yaml:7: job nightly: labels.team: expected"},
      {"labels:\n    a: b\n    app.team: \"x\\ty\"",
       "jobs.yaml:7: job nightly: labels has a control"},
      {"env:\n    A: 1\n    A.B: {}\n    C: 2", "jobs.yaml:7: job nightly: env.A.B: expected"},
      {"env:\n    A: 1\n    'B=': 2\n    C: 3", "jobs.yaml:7: job nightly: env has a name"},
      {"env:\n    A: 1\n    B: 2\n    A: 3", "jobs.yaml:8: job nightly: env.A is duplicated"},
      {"lane:\n    a: b", "jobs.yaml:5: job nightly: lane: expected one value"},
      {"project:\n    name: n\n    folder: x",
       "jobs.yaml:7: job nightly: there is no key 'project.f"},
      {"catch_up:\n    all: many", "jobs.yaml:6: job nightly: catch_up.all: 'many' is not valid"},
      {"on_queue_full:\n    wait: 25h", "jobs.yaml:6: job nightly: on_queue_full wait: must"},
      // If a key appears twice, the line is that of the one in the message.
      {"labels:\n    a: \"x\\ty\"\n  model: \"x\\ty\"", "jobs.yaml:7: job nightly: model has a"},
  };
  for (const auto& [lines, message] : wrong) {
    EXPECT_THAT(ReadOne(absl::StrCat("  ", lines, "\n")),
                StatusIs(absl::StatusCode::kInvalidArgument, ::testing::StartsWith(message)))
        << lines;
  }
}

TEST(JobReaderTest, UnknownKeyIsAnErrorWithTheMostSimilarKey) {
  EXPECT_THAT(
      ReadOne("  timeout: 5m\n"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               ::testing::StartsWith("jobs.yaml:5: job nightly: there is no key 'timeout'")));
  EXPECT_THAT(ReadOne("  timezone: UTC\n"),
              HasError("jobs.yaml:5: job nightly: there is no key 'timezone'; did you mean "
                       "'time_zone'?"));
  EXPECT_THAT(ReadJobs("job:\n", "f"),
              HasError("f:1: there is no key 'job'; did you mean 'jobs'?"));
}

TEST(JobReaderTest, FieldsThatTheSchedulerSetsAreErrors) {
  for (const char* key : {"request_id", "source", "policy", "ticket", "deadline_at"}) {
    EXPECT_THAT(ReadOne(absl::StrCat("  ", key, ": x\n")),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         ::testing::StartsWith(absl::StrCat(
                             "jobs.yaml:5: job nightly: there is no key '", key, "'"))))
        << key;
  }
}

TEST(JobReaderTest, RepeatedKeysAndJobsAreErrors) {
  EXPECT_THAT(ReadOne("  prompt: another\n"),
              HasError("jobs.yaml:5: job nightly: prompt is duplicated"));
  EXPECT_THAT(ReadOne("- {name: nightly, schedule: '@daily', prompt: p}\n"),
              HasError("jobs.yaml:5: job nightly: already declared in line 2"));
  EXPECT_THAT(ReadOne("  env: {A: 1, A: 2}\n"),
              HasError("jobs.yaml:5: job nightly: env.A is duplicated"));
}

TEST(JobReaderTest, LimitsApply) {
  EXPECT_THAT(ReadOne("  jitter: 25h\n"),
              HasError("jobs.yaml:5: job nightly: jitter must be at most 24h"));
  EXPECT_THAT(ReadOne("  max_attempts: 1000000\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::StartsWith("jobs.yaml:5: job nightly: max_attempts is 1000000")));
}

TEST(JobReaderTest, InvalidYamlIsAnErrorWithItsLine) {
  EXPECT_THAT(ReadJobs("jobs:\n- name: [a\n", "f"),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::StartsWith("f:3: ")));
  EXPECT_THAT(ReadJobs("jobs: []\n---\njobs: []\n", "f"),
              HasError("f:3: expected one document, found another one after `---`"));
  EXPECT_THAT(ReadJobs("- a\n", "f"), HasError("f:1: expected a map with the key 'jobs'"));
  EXPECT_THAT(ReadJobs("jobs: {a: b}\n", "f"),
              HasError("f:1: jobs: expected a list whose entries begin with `- name:`"));
}

TEST(JobReaderTest, YamlErrorQuotesOnlyPartOfTheFile) {
  // yaml-cpp quotes the whole version.
  const auto jobs =
      ReadJobs(absl::StrCat("%YAML ", std::string(100'000, 'x'), "\n---\njobs: []\n"), "f");
  EXPECT_THAT(jobs, StatusIs(absl::StatusCode::kInvalidArgument, ::testing::StartsWith("f:1: ")));
  EXPECT_LT(jobs.status().message().size(), 300u) << jobs.status();
}

TEST(JobReaderTest, ExponentialAliasesAreAnError) {
  std::string bomb = "  env:\n    a0: &a0 [x]\n";
  for (int i = 1; i < 14; ++i) {
    absl::StrAppend(&bomb, "    a", i, ": &a", i, " [");
    for (int j = 0; j < 10; ++j) absl::StrAppend(&bomb, j > 0 ? "," : "", "*a", i - 1);
    absl::StrAppend(&bomb, "]\n");
  }
  EXPECT_THAT(ReadOne(bomb), HasError("jobs.yaml:6: job nightly: env.a0: expected one value"));
  bomb = absl::StrCat("  env:\n    a0: &a ", std::string(1 << 20, 'x'), "\n");
  for (int i = 1; i < 5; ++i) absl::StrAppend(&bomb, "    a", i, ": *a\n");
  EXPECT_THAT(ReadOne(bomb), HasError("jobs.yaml:9: job nightly: the values are too large"));
}

TEST(JobReaderTest, KeyWithoutAValueIsAbsent) {
  const absl::StatusOr<core::Job> job = ReadOne("  overlap:\n  env:\n  project:\n  model: ~\n");
  ASSERT_THAT(job, IsOk());
  EXPECT_EQ(job->origins.at("overlap"), "default");
  EXPECT_THAT(ReadJobs("jobs:\n- name: a\n  schedule:\n  prompt: p\n", "f"),
              HasError("f:2: job a: schedule: is required"));
}

TEST(JobReaderTest, ErrorsContainNoPromptOrSecret) {
  for (const char* lines : {"  payload: {canary: canary}\n", "  env: {A: [canary]}\n",
                            "  env: {A: \"canary\\0\"}\n", "  model: \"canary\\t\"\n"}) {
    const absl::StatusOr<core::Job> job = ReadOne(lines);
    ASSERT_FALSE(job.ok()) << lines;
    EXPECT_THAT(job.status().message(), Not(HasSubstr("canary")));
  }
}

}  // namespace
}  // namespace callboard::config
