// Schedulers that die at one of the calls with which they open their ledger, write an intent,
// submit it, and write its result: before the call, halfway through, or after it.
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/testing/running_server.h"
#include "tests/e2e/mortal_scheduler.h"

namespace callboard::e2e {
namespace {

using crash::DiskAction;

constexpr uint64_t kSchedulers = 8;
constexpr uint64_t kDeathsEach = 25;
// More calls than it takes to open a ledger and catch up; about the calls of two fires.
constexpr uint64_t kCallsOfAStart = 50;
constexpr uint64_t kCallsOfFires = 14;

// Ids of tasks, by request id.
using Tasks = std::multimap<std::string, std::string>;

class SchedulerKillTest : public testing::Test {
 protected:
  // Each scheduler dies at different calls. Every third time it restarts when another occurrence is
  // due, and dies while it starts.
  static MortalScheduler::KillPoint PointOf(uint64_t scheduler, uint64_t death) {
    const uint64_t number = scheduler + death * kSchedulers;
    const bool from_its_start = death % 3 == 2;
    return {.from_its_start = from_its_start,
            .calls = 1 + number % (from_its_start ? kCallsOfAStart : kCallsOfFires),
            .death = static_cast<crash::DeathTime>(number % 3),
            .stays_away = death % 3 == 1};
  }
  static void Run(MortalScheduler& scheduler, uint64_t number) {
    scheduler.Begin();
    for (uint64_t i = 0; i < kDeathsEach; ++i) scheduler.Die(PointOf(number, i));
    scheduler.End();
  }

  Tasks FindAll() {
    const auto stub = v1::QueueService::NewStub(director_.NewChannel());
    Tasks tasks;
    v1::ListTasksRequest request;
    request.set_page_size(1000);
    do {
      grpc::ClientContext context;
      v1::ListTasksResponse page;
      EXPECT_TRUE(stub->ListTasks(&context, request, &page).ok());
      for (const v1::Task& task : page.tasks()) tasks.emplace(task.request_id(), task.queue_id());
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    return tasks;
  }

  // Checks that every second from the first on has a row, or is counted in one.
  static void ExpectNoGap(const MortalScheduler::Record& record, absl::Time end) {
    ASSERT_FALSE(record.rows.empty()) << record.job;
    int64_t expected = 0;
    for (const v1::Firing& row : record.rows) {
      const int64_t covers_from =
          row.nominal_at().seconds() - static_cast<int64_t>(row.more_count());
      if (expected == 0) {
        EXPECT_GT(covers_from, absl::ToUnixSeconds(record.first.first)) << record.job;
        EXPECT_LE(covers_from, absl::ToUnixSeconds(record.first.second)) << record.job;
      } else {
        EXPECT_EQ(covers_from, expected) << record.job;
      }
      expected = row.nominal_at().seconds() + 1;
    }
    EXPECT_EQ(expected, absl::ToUnixSeconds(end)) << record.job;
  }
  // Checks that a row is "fired" if and only if it has exactly one task.
  static uint64_t ExpectTaskOfEachFired(const MortalScheduler::Record& record, const Tasks& tasks) {
    uint64_t fired = 0;
    for (const v1::Firing& row : record.rows) {
      const std::string id = absl::StrCat("cron/", record.job, "/", row.nominal_at().seconds());
      const bool has_run = row.outcome() == v1::Firing::OUTCOME_FIRED;
      fired += has_run ? 1 : 0;
      EXPECT_EQ(tasks.count(id), has_run ? 1u : 0u)
          << id << ": " << v1::Firing::Outcome_Name(row.outcome()) << " " << row.detail();
      if (has_run && tasks.count(id) == 1) {
        EXPECT_EQ(tasks.find(id)->second, row.queue_id());
      }
    }
    return fired;
  }

  test::RunningServer director_{"services/director/callboard-director", {"--queue.max_size=0"}};
};

TEST_F(SchedulerKillTest, EveryOccurrenceHasOneRowAndEveryFiredRowOneTask) {
  std::deque<MortalScheduler> schedulers;
  for (uint64_t i = 0; i < kSchedulers; ++i) {
    schedulers.emplace_back(absl::StrCat("s", i), director_.grpc_address());
  }
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kSchedulers; ++i) {
    threads.emplace_back([&schedulers, i] { Run(schedulers[i], i); });
  }
  for (std::thread& thread : threads) thread.join();

  const Tasks tasks = FindAll();
  uint64_t fired = 0;
  std::map<DiskAction, uint64_t> deaths;
  for (const MortalScheduler& scheduler : schedulers) {
    for (const MortalScheduler::Record& record : scheduler.records()) {
      ExpectNoGap(record, scheduler.end());
      fired += ExpectTaskOfEachFired(record, tasks);
    }
    for (const auto& [action, count] : scheduler.deaths()) deaths[action] += count;
  }
  EXPECT_EQ(tasks.size(), fired) << "a task without a row";
  EXPECT_GE(fired, kSchedulers * kDeathsEach);
  // Deaths at every step of a fire.
  for (const DiskAction action : {DiskAction::kWrite, DiskAction::kSync, DiskAction::kSend}) {
    EXPECT_GE(deaths[action], kSchedulers * kDeathsEach / 20) << static_cast<uint32_t>(action);
  }
}

}  // namespace
}  // namespace callboard::e2e
