#include "libs/core/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/testing/status_matchers.h"

namespace callboard::core {
namespace {

using ::callboard::test::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Expressions = std::vector<std::string>;

absl::TimeZone Zone(const std::string& name) {
  absl::TimeZone zone;
  EXPECT_TRUE(absl::LoadTimeZone(name, &zone)) << name;
  return zone;
}

absl::Time TimeOf(const std::string& text) {
  absl::Time time;
  std::string error;
  EXPECT_TRUE(absl::ParseTime("%Y-%m-%d %H:%M:%S%Ez", text, &time, &error)) << text << error;
  return time;
}

std::string KindText(const Occurrence& occurrence) {
  switch (occurrence.kind) {
    case Occurrence::Kind::kPlain:
      return "";
    case Occurrence::Kind::kGapMoved:
      return " moved";
    case Occurrence::Kind::kFoldSuppressed:
      return " suppressed";
    case Occurrence::Kind::kSkippedCalendar:
      return " skipped";
  }
  return " ?";
}

// `2026-03-29 03:00:00+02:00`, then what is not plain: its kind, wall time and how many it stands
// for.
std::string TextOf(const Occurrence& occurrence, absl::TimeZone zone) {
  std::string text =
      absl::FormatTime("%Y-%m-%d %H:%M:%S%Ez", occurrence.at, zone) + KindText(occurrence);
  if (occurrence.wall != absl::ToCivilSecond(occurrence.at, zone)) {
    absl::StrAppend(&text, " ", absl::FormatCivilTime(occurrence.wall));
  }
  if (occurrence.merged > 0) absl::StrAppend(&text, " +", occurrence.merged);
  return text;
}

// All occurrences in (after, until), once forward and once backward.
std::vector<std::string> Between(const ScheduleText& text, const std::string& zone_name,
                                 const std::string& after, const std::string& until) {
  const absl::TimeZone zone = Zone(zone_name);
  const auto schedule = Schedule::Parse(text, zone);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  if (!schedule.ok()) return {};
  std::vector<std::string> forward;
  std::vector<std::string> backward;
  for (auto next = schedule->NextAfter(TimeOf(after)); next && next->at < TimeOf(until);
       next = schedule->NextAfter(next->at)) {
    forward.push_back(TextOf(*next, zone));
  }
  for (auto last = schedule->LastBefore(TimeOf(until)); last && last->at > TimeOf(after);
       last = schedule->LastBefore(last->at)) {
    backward.insert(backward.begin(), TextOf(*last, zone));
  }
  EXPECT_EQ(forward, backward);
  return forward;
}

TEST(ScheduleTest, FixedTimeInAGapHappensWhenTheClocksAreSet) {
  EXPECT_THAT(Between({.expressions = {"30 2 * * *"}}, "Europe/Berlin", "2026-03-28 12:00:00+01:00",
                      "2026-03-30 12:00:00+02:00"),
              ElementsAre("2026-03-29 03:00:00+02:00 moved 2026-03-29T02:30:00",
                          "2026-03-30 02:30:00+02:00"));
}

TEST(ScheduleTest, FixedTimeThatOccursTwiceHappensTheFirstTime) {
  EXPECT_THAT(Between({.expressions = {"30 2 * * *"}}, "Europe/Berlin", "2026-10-24 12:00:00+02:00",
                      "2026-10-26 12:00:00+01:00"),
              ElementsAre("2026-10-25 02:30:00+02:00", "2026-10-25 02:30:00+01:00 suppressed",
                          "2026-10-26 02:30:00+01:00"));
}

TEST(ScheduleTest, ErrorQuotesTheExpression) {
  EXPECT_THAT(Schedule::Parse({.expressions = {"* * * * *", "61 * * * *"}}, absl::UTCTimeZone()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"61 * * * *\"")));
}

}  // namespace
}  // namespace callboard::core
