// Schedulers with a wall clock that the test controls: daylight saving transitions, clocks that are
// set, and hours of downtime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/crash/disk.h"
#include "tests/integration/cron_fixture.h"

namespace callboard {
namespace {

using test::GaplessSecondlyJob;
using test::IsOk;
using test::OutcomeOf;
using test::SecondlyJob;
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
  // Starts a scheduler whose clock shows this time.
  void StartAt(const std::string& then) {
    SetTime(then);
    StartScheduler(disk_.environment());
  }
  void SetTime(const std::string& then) { disk_.SetWallClock(At(then) - clock_.WallNow()); }
  // Returns the rows as `2026-03-29T01:00:00Z fired`.
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

// ---- Daylight saving transitions ----------------------------------------------------------------

TEST_F(SchedulerClockTest, SkippedWallTimeRunsOnceAtTheTransition) {
  StartDirector();
  WriteJobs({Job("night", "30 2 * * *", "time_zone: Europe/Berlin")});
  StartAt("2026-03-29T00:59:58Z");
  WaitForRows("night", 1, "dst_gap_moved");
  // The next occurrence is an hour earlier than in winter.
  SetTime("2026-03-30T00:29:59Z");
  WaitForRows("night", 1, "fired");
  EXPECT_THAT(Rows("night"),
              ElementsAre("2026-03-29T01:00:00Z dst_gap_moved", "2026-03-30T00:30:00Z fired"));
  EXPECT_THAT(CronRequests(), ElementsAre(RequestId("night", At("2026-03-29T01:00:00Z")),
                                          RequestId("night", At("2026-03-30T00:30:00Z"))));
}

TEST_F(SchedulerClockTest, RepeatedWallTimeRunsOnlyTheFirstTime) {
  StartDirector();
  WriteJobs({Job("night", "30 2 * * *", "time_zone: Europe/Berlin")});
  StartAt("2026-10-25T00:29:58Z");
  WaitForRows("night", 1, "fired");
  SetTime("2026-10-25T01:29:59Z");
  WaitForRows("night", 1, "dst_fold_suppressed");
  EXPECT_THAT(Rows("night"), ElementsAre("2026-10-25T00:30:00Z fired",
                                         "2026-10-25T01:30:00Z dst_fold_suppressed"));
  EXPECT_THAT(CronRequests(), ElementsAre(RequestId("night", At("2026-10-25T00:30:00Z"))));
}

// ---- Clocks that are set ------------------------------------------------------------------------

TEST_F(SchedulerClockTest, NoOccurrenceRunsTwiceWhenTheClockIsSetBack) {
  StartDirector();
  WriteJobs({GaplessSecondlyJob("tick")});
  StartAt("2026-06-01T12:00:00Z");
  WaitForRows("tick", 2, "fired");
  SetTime("2026-06-01T11:00:00Z");
  server_->process().WaitForLine("scheduler=clock_set_back");
  // The scheduler continues with the second after the last decided one, also after a restart.
  const int64_t next = scheduler_->Get("tick")->next_fires(0).seconds();
  EXPECT_GT(next, absl::ToUnixSeconds(At("2026-06-01T12:00:00Z")));
  KillScheduler();
  StartScheduler(disk_.environment());
  EXPECT_EQ(scheduler_->Get("tick")->next_fires(0).seconds(), next);
  SetTime("2026-06-01T12:00:30Z");
  WaitUntil([&] { return scheduler_->Firings("tick").back().nominal_at().seconds() > next; });
  const std::vector<v1::Firing> rows = scheduler_->Firings("tick");
  const std::map<std::string, v1::Task> tasks = CronTasks();
  EXPECT_GE(tasks.size(), rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].nominal_at().seconds(),
              rows[0].nominal_at().seconds() + static_cast<int64_t>(i));
    EXPECT_EQ(tasks.at(rows[i].request_id()).queue_id(), rows[i].queue_id());
  }
}

// ---- Hours of downtime --------------------------------------------------------------------------

TEST_F(SchedulerClockTest, MissedOccurrencesFollowEachJobsCatchUpSetting) {
  StartDirector();
  WriteJobs({Job("latest", "0 * * * *"), Job("none", "0 * * * *", "catch_up: none"),
             Job("all", "0 * * * *", "catch_up: {all: 2}")});
  StartAt("2026-06-01T00:30:00Z");
  // The scheduler has loaded its jobs and committed them.
  ASSERT_THAT(scheduler_->Get("latest"), IsOk());
  KillScheduler();
  StartAt("2026-06-01T04:30:00Z");
  WaitForRows("latest", 1, "fired");
  WaitForRows("all", 2, "fired");
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

TEST_F(SchedulerClockTest, LongDowntimeIsCountedInABoundedNumberOfRows) {
  StartDirector();
  WriteJobs({SecondlyJob("tick", {"overlap: allow", "catch_up: none"})});
  StartAt("2026-06-01T00:00:00Z");
  WaitForRows("tick", 1, "fired");
  KillScheduler();
  StartAt("2026-06-01T02:00:00Z");
  WaitUntil([&] {
    const std::vector<v1::Firing> rows = scheduler_->Firings("tick");
    return rows.back().nominal_at().seconds() >= absl::ToUnixSeconds(At("2026-06-01T02:00:00Z"));
  });
  const std::vector<v1::Firing> rows = scheduler_->Firings("tick");
  EXPECT_LT(rows.size(), 1100u);
  // Each row represents itself and the occurrences that it counts, up to the row before it.
  for (size_t i = 1; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i - 1].nominal_at().seconds() + 1 + static_cast<int64_t>(rows[i].more_count()),
              rows[i].nominal_at().seconds());
  }
  EXPECT_LT(CronTasks().size(), 50u);
}

// ---- Unreachable director -----------------------------------------------------------------------

TEST_F(SchedulerClockTest, CatchUpNoneGivesUpWithoutADirectorAndLatestWaits) {
  WriteJobs({Job("latest", "0 * * * *"), Job("none", "0 * * * *", "catch_up: none")});
  StartAt("2026-06-01T00:59:58Z");
  server_->process().WaitForLine("scheduler=director_unreachable");
  SetTime("2026-06-01T01:01:01Z");
  WaitForRows("none", 1, "skipped_director_down");
  StartDirector();
  WaitForRows("latest", 1, "fired");
  EXPECT_THAT(Rows("latest"), ElementsAre("2026-06-01T01:00:00Z fired"));
  EXPECT_THAT(Rows("none"), ElementsAre("2026-06-01T01:00:00Z skipped_director_down"));
  EXPECT_THAT(CronRequests(), ElementsAre(RequestId("latest", At("2026-06-01T01:00:00Z"))));
}

}  // namespace
}  // namespace callboard
