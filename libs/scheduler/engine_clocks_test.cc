// Tests of occurrences in nights with a clock change.
#include "libs/scheduler/engine.h"
#include "libs/testing/scheduler_fixture.h"

namespace callboard::scheduler {
namespace {

using test::At;
using test::CronJob;
using ::testing::ElementsAre;

class ChangedClocksTest : public test::SchedulerFixture {
 protected:
  // On 2026-10-25 at 01:00 UTC the clocks in Berlin go back from 03:00 to 02:00. 02:30 runs at
  // 00:30 UTC and is suppressed at 01:30 UTC.
  core::Job fold_ = CronJob("job", "30 2 * * *", "Europe/Berlin");
};

TEST_F(ChangedClocksTest, SuppressedOccurrenceDoesNotEndCatchUp) {
  now_.wall = At("2026-10-24 20:00:00");
  Start({fold_});
  now_.wall = At("2026-10-25 12:00:00");
  Start({fold_});
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_EQ(NextRequestId(), core::CronRequestId("job", At("2026-10-25 00:30:00")));
  Accept();
  EXPECT_THAT(Rows("job"), ElementsAre("00:30:00 fired queue-1", "01:30:00 dst_fold_suppressed"));
}

TEST_F(ChangedClocksTest, SuppressedOccurrenceDoesNotEndTheWaitForTheDirector) {
  now_.wall = At("2026-10-25 00:00:00");
  Start({fold_});
  Advance(absl::Minutes(30));
  Answer(Unreachable());
  Advance(absl::Minutes(90));
  ASSERT_EQ(requests_.size(), 1u);
  Accept();
  EXPECT_THAT(Rows("job"), ElementsAre("00:30:00 fired queue-1", "01:30:00 dst_fold_suppressed"));
}

TEST_F(ChangedClocksTest, SuppressedOccurrenceDoesNotEndTheWaitForAPlace) {
  fold_.queue_full_wait = absl::Hours(2);
  now_.wall = At("2026-10-25 00:00:00");
  Start({fold_});
  Advance(absl::Minutes(30));
  Answer(Full());
  Advance(absl::Minutes(90));
  ASSERT_EQ(requests_.size(), 1u);
  Accept();
  EXPECT_THAT(Rows("job"), ElementsAre("00:30:00 fired queue-1", "01:30:00 dst_fold_suppressed"));
}

TEST_F(ChangedClocksTest, OccurrenceSkippedByTheCalendarDoesNotEndTheOneBefore) {
  // On 2011-12-30 at 10:00 UTC Apia went from the 29th to the 31st.
  const core::Job job = CronJob("job", "0 10 * * *", "Pacific/Apia");
  now_.wall = At("2011-12-29 12:00:00");
  Start({job});
  now_.wall = At("2011-12-30 12:00:00");
  Start({job});
  ASSERT_EQ(requests_.size(), 1u);
  Accept();
  EXPECT_THAT(Rows("job"), ElementsAre("20:00:00 fired queue-1", "10:00:00 skipped_calendar"));
}

TEST_F(ChangedClocksTest, EveryTimeInAGapHasARowOrANote) {
  const auto night = [this](const std::string& name, const std::string& expression) {
    now_.wall = At("2011-12-30 09:30:00");
    Start({CronJob(name, expression, "Pacific/Apia")});
    Advance(absl::Minutes(30));
    AcceptAll();
  };
  night("skipped", "0,15,30 10 * * *");
  EXPECT_THAT(Rows("skipped"), ElementsAre("10:00:00 skipped_calendar"));
  EXPECT_EQ(Row("skipped", "2011-12-30 10:00:00").more, 2u);
  night("plain", "0 0,12 * * *");
  EXPECT_THAT(Rows("plain"), ElementsAre("10:00:00 fired queue-1"));
  EXPECT_EQ(Row("plain", "2011-12-30 10:00:00").detail,
            "the calendar skips 2 wall times before it");
  // There are more skipped times than are counted.
  for (const std::string hours : {"1-22", "0-22"}) {
    night(hours, absl::StrCat("* ", hours, " * * *"));
    EXPECT_EQ(Row(hours, "2011-12-30 10:00:00").detail,
              "the calendar skips at least 1000 wall times before it");
  }
}

}  // namespace
}  // namespace callboard::scheduler
