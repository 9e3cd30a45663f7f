// The fixture for tests of a scheduler and its director over gRPC.
#ifndef CALLBOARD_TESTS_INTEGRATION_CRON_FIXTURE_H_
#define CALLBOARD_TESTS_INTEGRATION_CRON_FIXTURE_H_

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "libs/system/system.h"
#include "libs/testing/tcp_proxy.h"
#include "tests/e2e/eventually.h"
#include "tests/integration/director_fixture.h"
#include "tests/integration/scheduler_client.h"

namespace callboard::test {

// A job that is due every second, and a job that is next due in years. `keys` are more settings,
// each as `key: value`.
inline std::string SecondlyJob(const std::string& name, const std::vector<std::string>& keys = {}) {
  return absl::StrCat("- {name: ", name, ", schedule: '* * * * * *', seconds: true, prompt: echo",
                      keys.empty() ? "" : ", ", absl::StrJoin(keys, ", "), "}\n");
}
inline std::string RareJob(const std::string& name, const std::vector<std::string>& keys = {}) {
  return absl::StrCat("- {name: ", name, ", schedule: 0 0 29 2 *, prompt: echo",
                      keys.empty() ? "" : ", ", absl::StrJoin(keys, ", "), "}\n");
}
// A job whose every occurrence makes a task, even on a machine that is too busy to be on time.
inline std::string GaplessSecondlyJob(const std::string& name) {
  return SecondlyJob(name, {"overlap: allow", "catch_up: {all: 100}"});
}

inline std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

// A scheduler with a jobs file, a ledger that survives restarts, and a director with a fixed
// address, whether it is running or not.
class CronFixture : public DirectorFixture {
 protected:
  void StartDirector(const std::vector<std::string>& flags = {"--queue.max_size=0"}) {
    Start(flags);
    network_.SetTarget(director_->grpc_address());
  }

  // Replaces the jobs file.
  void WriteJobs(const std::vector<std::string>& jobs) {
    WriteFile(absl::StrCat("jobs:", jobs.empty() ? " []" : "", "\n", absl::StrJoin(jobs, "")));
  }
  // Replaces the file atomically.
  void WriteFile(const std::string& text) {
    std::ofstream(jobs_file_ + ".new") << text;
    std::filesystem::rename(jobs_file_ + ".new", jobs_file_);
  }
  void StartScheduler(const std::vector<std::string>& environment = {}) {
    server_ = std::make_unique<RunningServer>(kScheduler, SchedulerFlags(), environment);
    scheduler_.emplace(server_->grpc_address());
  }
  std::vector<std::string> SchedulerFlags() const {
    return {absl::StrCat("--data_dir=", ledger_.string()), absl::StrCat("--jobs_file=", jobs_file_),
            absl::StrCat("--director.address=", network_.address())};
  }
  void KillScheduler() {
    server_->process().Signal(SIGKILL);
    ASSERT_EQ(server_->process().WaitForExit(absl::Minutes(1)), 128 + SIGKILL);
  }

  // Waits until `holds` returns true.
  static void WaitUntil(const std::function<bool()>& holds) {
    ASSERT_TRUE(e2e::WaitUntilTrue(absl::Minutes(1), holds));
  }
  void WaitForRows(const std::string& job, size_t count, const std::string& outcome) {
    WaitUntil([&] { return CountRows(job, outcome) >= count; });
  }
  size_t CountRows(const std::string& job, const std::string& outcome) {
    size_t count = 0;
    for (const v1::Firing& row : scheduler_->Firings(job)) count += OutcomeOf(row) == outcome;
    return count;
  }
  // Returns a whole second in the near future.
  absl::Time Soon() const {
    return absl::FromUnixSeconds(absl::ToUnixSeconds(clock_.WallNow())) + absl::Seconds(4);
  }
  // Gives the scheduler jobs whose first occurrence is at `first`.
  void DeclareFor(absl::Time first, const std::vector<std::string>& jobs) {
    WriteJobs(jobs);
    server_->process().Signal(SIGHUP);
    WaitUntil([&] {
      const v1::SchedulerStatus status = scheduler_->Status();
      return status.jobs() == jobs.size() && status.jobs_file_error().empty();
    });
    ASSERT_EQ(scheduler_->Status().next_fire_at().seconds(), absl::ToUnixSeconds(first))
        << "too slow: the jobs were due before the scheduler had them";
  }

  // Returns the rows as `3 fired`: seconds after `start`, and outcome.
  std::vector<std::string> RowsSince(absl::Time start, const std::string& job) {
    std::vector<std::string> rows;
    for (const v1::Firing& row : scheduler_->Firings(job)) {
      rows.push_back(absl::StrCat(row.nominal_at().seconds() - absl::ToUnixSeconds(start), " ",
                                  OutcomeOf(row)));
    }
    return rows;
  }
  // Returns the tasks that the scheduler has submitted, by request id.
  std::map<std::string, v1::Task> CronTasks() {
    std::map<std::string, v1::Task> tasks;
    v1::ListTasksRequest request;
    request.set_source("scheduler");
    request.set_page_size(1000);
    do {
      const auto page = Call(&v1::QueueService::Stub::ListTasks, request);
      EXPECT_THAT(page, IsOk());
      if (!page.ok()) break;
      for (const v1::Task& task : page->tasks()) {
        EXPECT_TRUE(tasks.emplace(task.request_id(), task).second) << task.request_id();
      }
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    return tasks;
  }
  std::vector<std::string> CronRequests() {
    std::vector<std::string> ids;
    for (const auto& [id, task] : CronTasks()) ids.push_back(id);
    return ids;
  }
  static std::string RequestId(const std::string& job, absl::Time nominal) {
    return absl::StrCat("cron/", job, "/", absl::ToUnixSeconds(nominal));
  }

  const system::SystemClock clock_;
  const std::filesystem::path ledger_ = NewFolder();
  const std::string jobs_file_ = (NewFolder() / "jobs.yaml").string();
  TcpProxy network_ = TcpProxy("");
  std::unique_ptr<RunningServer> server_;
  std::optional<SchedulerClient> scheduler_;
};

}  // namespace callboard::test

#endif  // CALLBOARD_TESTS_INTEGRATION_CRON_FIXTURE_H_
