// Schedulers whose wall clock the test has in its hands: nights in which clocks are changed, clocks
// that are set, and hours in which nobody was there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/crash/disk.h"
#include "tests/integration/cron_fixture.h"

namespace callboard {
namespace {

using test::EverySecond;
using test::IsOk;
using test::OutcomeOf;
using test::Secondly;
using ::testing::ElementsAre;

absl::Time At(const std::string& text) {
  absl::Time time;
  std::string error;
  EXPECT_TRUE(absl::ParseTime(absl::RFC3339_sec, text, &time, &error)) << error;
  return time;
}

std::string Job(const std::string& name, const std::string& schedule,
                const std::string& more = "catch_up: latest") {
  return absl::StrCat("- {name: ", name, ", schedule: ", schedule,
                      ", prompt: echo, overlap: allow, ", more, "}\n");
}

class SchedulerClockTest : public test::CronFixture {
 protected:
  // A scheduler that believes that it is now then.
  void StartAt(const std::string& then) {
    SetTime(then);
    StartScheduler(disk_.environment());
  }
  void SetTime(const std::string& then) { disk_.SetWallClock(At(then) - clock_.WallNow()); }
  // Each as `2026-03-29T01:00:00Z fired`.
  std::vector<std::string> Rows(const std::string& job) {
    std::vector<std::string> rows;
    for (const v1::Firing& row : scheduler_->Firings(job)) {
      const absl::Time nominal = absl::FromUnixSeconds(row.nominal_at().seconds());
      rows.push_back(absl::StrCat(test::TimeText(nominal), " ", OutcomeOf(row)));
    }
    return rows;
  }

  crash::Disk disk_ = crash::Disk(test::NewFolder());
};

// ---- Nights in which clocks are changed ---------------------------------------------------------

TEST_F(SchedulerClockTest, WallTimeThatDoesNotExistRunsOnceAtTheTransition) {
  StartDirector();
  WriteJobs({Job("night", "30 2 * * *", "time_zone: Europe/Berlin")});
  StartAt("2026-03-29T00:59:58Z");
  AwaitRows("night", 1, "dst_gap_moved");
  // The next one is an hour earlier than in winter.
  SetTime("2026-03-30T00:29:59Z");
  AwaitRows("night", 1, "fired");
  EXPECT_THAT(Rows("night"),
              ElementsAre("2026-03-29T01:00:00Z dst_gap_moved", "2026-03-30T00:30:00Z fired"));
  EXPECT_THAT(CronRequests(), ElementsAre(RequestId("night", At("2026-03-29T01:00:00Z")),
                                          RequestId("night", At("2026-03-30T00:30:00Z"))));
}

TEST_F(SchedulerClockTest, WallTimeThatComesTwiceRunsTheFirstTimeOnly) {
  StartDirector();
  WriteJobs({Job("night", "30 2 * * *", "time_zone: Europe/Berlin")});
  StartAt("2026-10-25T00:29:58Z");
  AwaitRows("night", 1, "fired");
  SetTime("2026-10-25T01:29:59Z");
  AwaitRows("night", 1, "dst_fold_suppressed");
  EXPECT_THAT(Rows("night"), ElementsAre("2026-10-25T00:30:00Z fired",
                                         "2026-10-25T01:30:00Z dst_fold_suppressed"));
  EXPECT_THAT(CronRequests(), ElementsAre(RequestId("night", At("2026-10-25T00:30:00Z"))));
}

// ---- Clocks that are set ------------------------------------------------------------------------

TEST_F(SchedulerClockTest, NothingHappensTwiceWhenTheClockIsSetBack) {
  StartDirector();
  WriteJobs({EverySecond("tick")});
  StartAt("2026-06-01T12:00:00Z");
  AwaitRows("tick", 2, "fired");
  SetTime("2026-06-01T11:00:00Z");
  server_->process().WaitForLine("scheduler=clock_set_back");
  // It waits for the second after the last that was decided, over a restart as well.
  const int64_t next = scheduler_->Get("tick")->next_fires(0).seconds();
  EXPECT_GT(next, absl::ToUnixSeconds(At("2026-06-01T12:00:00Z")));
  KillScheduler();
  StartScheduler(disk_.environment());
  EXPECT_EQ(scheduler_->Get("tick")->next_fires(0).seconds(), next);
  SetTime("2026-06-01T12:00:30Z");
  Await([&] { return scheduler_->Firings("tick").back().nominal_at().seconds() > next; });
  const std::vector<v1::Firing> rows = scheduler_->Firings("tick");
  const std::map<std::string, v1::Task> tasks = CronTasks();
  EXPECT_GE(tasks.size(), rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].nominal_at().seconds(),
              rows[0].nominal_at().seconds() + static_cast<int64_t>(i));
    EXPECT_EQ(tasks.at(rows[i].request_id()).queue_id(), rows[i].queue_id());
  }
}

// ---- Hours in which nobody was there ------------------------------------------------------------

TEST_F(SchedulerClockTest, WhatWasMissedForHoursIsCaughtUpAsEachJobSays) {
  StartDirector();
  WriteJobs({Job("latest", "0 * * * *"), Job("none", "0 * * * *", "catch_up: none"),
             Job("all", "0 * * * *", "catch_up: {all: 2}")});
  StartAt("2026-06-01T00:30:00Z");
  // It knows its jobs, and has written that down.
  ASSERT_THAT(scheduler_->Get("latest"), IsOk());
  KillScheduler();
  StartAt("2026-06-01T04:30:00Z");
  AwaitRows("latest", 1, "fired");
  AwaitRows("all", 2, "fired");
  EXPECT_THAT(Rows("latest"),
              ElementsAre("2026-06-01T01:00:00Z coalesced", "2026-06-01T02:00:00Z coalesced",
                          "2026-06-01T03:00:00Z coalesced", "2026-06-01T04:00:00Z fired"));
  EXPECT_THAT(
      Rows("none"),
      ElementsAre("2026-06-01T01:00:00Z missed_window", "2026-06-01T02:00:00Z missed_window",
                  "2026-06-01T03:00:00Z missed_window", "2026-06-01T04:00:00Z missed_window"));
  EXPECT_THAT(Rows("all"), ElementsAre("2026-06-01T01:00:00Z missed_window",
                                       "2026-06-01T02:00:00Z missed_window",
                                       "2026-06-01T03:00:00Z fired", "2026-06-01T04:00:00Z fired"));
  EXPECT_EQ(CronTasks().size(), 3u);
}

TEST_F(SchedulerClockTest, TwoHoursOfSecondsAreABoundedNumberOfRowsThatCountThemAll) {
  StartDirector();
  WriteJobs({Secondly("tick", {"overlap: allow", "catch_up: none"})});
  StartAt("2026-06-01T00:00:00Z");
  AwaitRows("tick", 1, "fired");
  KillScheduler();
  StartAt("2026-06-01T02:00:00Z");
  Await([&] {
    const std::vector<v1::Firing> rows = scheduler_->Firings("tick");
    return rows.back().nominal_at().seconds() >= absl::ToUnixSeconds(At("2026-06-01T02:00:00Z"));
  });
  const std::vector<v1::Firing> rows = scheduler_->Firings("tick");
  EXPECT_LT(rows.size(), 1100u);
  // Each row stands for itself and for those that it counts, up to the row before it.
  for (size_t i = 1; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i - 1].nominal_at().seconds() + 1 + static_cast<int64_t>(rows[i].more_count()),
              rows[i].nominal_at().seconds());
  }
  EXPECT_LT(CronTasks().size(), 50u);
}

// ---- A director that is away --------------------------------------------------------------------

TEST_F(SchedulerClockTest, NoneGivesUpAfterAMinuteWithoutADirectorAndLatestWaitsOn) {
  WriteJobs({Job("latest", "0 * * * *"), Job("none", "0 * * * *", "catch_up: none")});
  StartAt("2026-06-01T00:59:58Z");
  server_->process().WaitForLine("scheduler=director_unreachable");
  SetTime("2026-06-01T01:01:01Z");
  AwaitRows("none", 1, "skipped_director_down");
  StartDirector();
  AwaitRows("latest", 1, "fired");
  EXPECT_THAT(Rows("latest"), ElementsAre("2026-06-01T01:00:00Z fired"));
  EXPECT_THAT(Rows("none"), ElementsAre("2026-06-01T01:00:00Z skipped_director_down"));
  EXPECT_THAT(CronRequests(), ElementsAre(RequestId("latest", At("2026-06-01T01:00:00Z"))));
}

}  // namespace
}  // namespace callboard
