#include "libs/core/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/core/limits.h"
#include "libs/testing/status_matchers.h"

namespace callboard::core {
namespace {

using ::callboard::test::IsOk;
using ::callboard::test::StatusIs;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

using Expressions = std::vector<std::string>;

// More than any test expects. A schedule that does not advance fails instead of looping forever.
constexpr size_t kOccurrencesMax = 20;

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

// Formats an occurrence as `2026-03-29 03:00:00+02:00`, followed by the kind, wall time and number
// of merged occurrences if they are not the defaults.
std::string TextOf(const Occurrence& occurrence, absl::TimeZone zone) {
  std::string text =
      absl::FormatTime("%Y-%m-%d %H:%M:%S%Ez", occurrence.at, zone) + KindText(occurrence);
  if (occurrence.wall != absl::ToCivilSecond(occurrence.at, zone)) {
    absl::StrAppend(&text, " ", absl::FormatCivilTime(occurrence.wall));
  }
  if (occurrence.merged > 0) absl::StrAppend(&text, " +", occurrence.merged);
  return text;
}

// Returns all occurrences in (after, until). Checks that both directions give the same ones.
std::vector<std::string> Between(const ScheduleText& text, const std::string& zone_name,
                                 const std::string& after, const std::string& until) {
  const absl::TimeZone zone = Zone(zone_name);
  const auto schedule = Schedule::Parse(text, zone);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  if (!schedule.ok()) return {};
  std::vector<std::string> forward;
  std::vector<std::string> backward;
  for (auto next = schedule->NextAfter(TimeOf(after));
       next && next->at < TimeOf(until) && forward.size() < kOccurrencesMax;
       next = schedule->NextAfter(next->at)) {
    forward.push_back(TextOf(*next, zone));
  }
  for (auto last = schedule->LastBefore(TimeOf(until));
       last && last->at > TimeOf(after) && backward.size() < kOccurrencesMax;
       last = schedule->LastBefore(last->at)) {
    backward.insert(backward.begin(), TextOf(*last, zone));
  }
  EXPECT_EQ(forward, backward);
  return forward;
}

std::vector<std::string> Between(const Expressions& expressions, const std::string& zone_name,
                                 const std::string& after, const std::string& until) {
  return Between(ScheduleText{.expressions = expressions}, zone_name, after, until);
}

TEST(ScheduleTest, FixedTimeInAGapFiresWhenTheClocksAreSet) {
  EXPECT_THAT(Between({"30 2 * * *"}, "Europe/Berlin", "2026-03-28 12:00:00+01:00",
                      "2026-03-30 12:00:00+02:00"),
              ElementsAreArray({"2026-03-29 03:00:00+02:00 moved 2026-03-29T02:30:00",
                                "2026-03-30 02:30:00+02:00"}));
  EXPECT_THAT(Between({"30 2 8 3 *"}, "America/New_York", "2026-03-01 00:00:00-05:00",
                      "2027-03-09 00:00:00-05:00"),
              ElementsAreArray({"2026-03-08 03:00:00-04:00 moved 2026-03-08T02:30:00",
                                "2027-03-08 02:30:00-05:00"}));
}

TEST(ScheduleTest, SeveralFixedTimesInAGapFireOnce) {
  EXPECT_THAT(Between({"*/20 2 * * *"}, "Europe/Berlin", "2026-03-28 12:00:00+01:00",
                      "2026-03-30 02:10:00+02:00"),
              ElementsAreArray({"2026-03-29 03:00:00+02:00 moved 2026-03-29T02:00:00 +2",
                                "2026-03-30 02:00:00+02:00"}));
}

TEST(ScheduleTest, RegularTimeAtTheEndOfAGapMergesTheMovedOnes) {
  EXPECT_THAT(Between({"*/30 2-3 * * *"}, "Europe/Berlin", "2026-03-28 12:00:00+01:00",
                      "2026-03-29 12:00:00+02:00"),
              ElementsAreArray({"2026-03-29 03:00:00+02:00 +2", "2026-03-29 03:30:00+02:00"}));
}

TEST(ScheduleTest, EveryHourMovesNothingOutOfAGap) {
  EXPECT_THAT(Between({"15,45 * * * *"}, "Europe/Berlin", "2026-03-29 01:30:00+01:00",
                      "2026-03-29 03:50:00+02:00"),
              ElementsAreArray({"2026-03-29 01:45:00+01:00", "2026-03-29 03:15:00+02:00",
                                "2026-03-29 03:45:00+02:00"}));
}

TEST(ScheduleTest, FixedTimeInAFoldFiresTheFirstTime) {
  EXPECT_THAT(Between({"30 2 * * *"}, "Europe/Berlin", "2026-10-24 12:00:00+02:00",
                      "2026-10-26 12:00:00+01:00"),
              ElementsAreArray({"2026-10-25 02:30:00+02:00", "2026-10-25 02:30:00+01:00 suppressed",
                                "2026-10-26 02:30:00+01:00"}));
}

TEST(ScheduleTest, FoldBeginsWithTheTransitionAndEndsBeforeTheOldTime) {
  EXPECT_THAT(Between({"0,59 1-3 * * *"}, "Europe/Berlin", "2026-10-25 00:00:00+02:00",
                      "2026-10-25 12:00:00+01:00"),
              ElementsAreArray({"2026-10-25 01:00:00+02:00", "2026-10-25 01:59:00+02:00",
                                "2026-10-25 02:00:00+02:00", "2026-10-25 02:59:00+02:00",
                                "2026-10-25 02:00:00+01:00 suppressed",
                                "2026-10-25 02:59:00+01:00 suppressed", "2026-10-25 03:00:00+01:00",
                                "2026-10-25 03:59:00+01:00"}));
}

TEST(ScheduleTest, EveryHourFiresInBothHoursOfAFold) {
  EXPECT_THAT(Between({"30 * * * *"}, "Europe/Berlin", "2026-10-25 01:00:00+02:00",
                      "2026-10-25 04:00:00+01:00"),
              ElementsAreArray({"2026-10-25 01:30:00+02:00", "2026-10-25 02:30:00+02:00",
                                "2026-10-25 02:30:00+01:00", "2026-10-25 03:30:00+01:00"}));
}

TEST(ScheduleTest, HourFieldThatIsNotExactlyAStarIsFixed) {
  EXPECT_THAT(Between({"30 */1 * * *"}, "Europe/Berlin", "2026-10-25 02:00:00+02:00",
                      "2026-10-25 04:00:00+01:00"),
              ElementsAreArray({"2026-10-25 02:30:00+02:00", "2026-10-25 02:30:00+01:00 suppressed",
                                "2026-10-25 03:30:00+01:00"}));
}

TEST(ScheduleTest, EveryFollowsElapsedTime) {
  EXPECT_THAT(Between({"@every 90m"}, "Europe/Berlin", "2026-03-29 00:00:00+01:00",
                      "2026-03-29 06:00:00+02:00"),
              ElementsAreArray({"2026-03-29 01:00:00+01:00", "2026-03-29 03:30:00+02:00",
                                "2026-03-29 05:00:00+02:00"}));
  EXPECT_THAT(Between({"@every 24h"}, "Europe/Berlin", "2026-10-24 00:00:00+02:00",
                      "2026-10-27 00:00:00+01:00"),
              ElementsAreArray({"2026-10-24 02:00:00+02:00", "2026-10-25 02:00:00+02:00",
                                "2026-10-26 01:00:00+01:00"}));
}

TEST(ScheduleTest, ShiftsOfHalfAnHourAreGapsAndFolds) {
  const char* const zone = "Australia/Lord_Howe";
  EXPECT_THAT(
      Between({"0,15,45 2 * * *"}, zone, "2026-10-04 00:00:00+10:30", "2026-10-04 12:00:00+11:00"),
      ElementsAreArray(
          {"2026-10-04 02:30:00+11:00 moved 2026-10-04T02:00:00 +1", "2026-10-04 02:45:00+11:00"}));
  EXPECT_THAT(
      Between({"15,45 1 * * *"}, zone, "2026-04-05 00:00:00+11:00", "2026-04-05 12:00:00+10:30"),
      ElementsAreArray({"2026-04-05 01:15:00+11:00", "2026-04-05 01:45:00+11:00",
                        "2026-04-05 01:45:00+10:30 suppressed"}));
  EXPECT_THAT(
      Between({"15,45 * * * *"}, zone, "2026-04-05 01:30:00+11:00", "2026-04-05 03:00:00+10:30"),
      ElementsAreArray({"2026-04-05 01:45:00+11:00", "2026-04-05 01:45:00+10:30",
                        "2026-04-05 02:15:00+10:30", "2026-04-05 02:45:00+10:30"}));
}

TEST(ScheduleTest, ShiftsOfTwoHoursAreGapsAndFolds) {
  const char* const zone = "Antarctica/Troll";
  EXPECT_THAT(
      Between({"30 1,2,4 * * *"}, zone, "2026-03-29 00:00:00+00:00", "2026-03-29 12:00:00+02:00"),
      ElementsAreArray(
          {"2026-03-29 03:00:00+02:00 moved 2026-03-29T01:30:00 +1", "2026-03-29 04:30:00+02:00"}));
  EXPECT_THAT(
      Between({"30 1 * * *"}, zone, "2026-10-25 00:00:00+02:00", "2026-10-25 12:00:00+00:00"),
      ElementsAreArray({"2026-10-25 01:30:00+02:00", "2026-10-25 01:30:00+00:00 suppressed"}));
}

TEST(ScheduleTest, MidnightInAGapFiresAtTheBeginningOfItsDay) {
  EXPECT_THAT(Between({"@daily"}, "America/Sao_Paulo", "2018-11-03 12:00:00-03:00",
                      "2018-11-05 12:00:00-02:00"),
              ElementsAreArray({"2018-11-04 01:00:00-02:00 moved 2018-11-04T00:00:00",
                                "2018-11-05 00:00:00-02:00"}));
  EXPECT_THAT(Between({"0 0 * * SUN"}, "Asia/Beirut", "2022-03-21 12:00:00+02:00",
                      "2022-04-04 12:00:00+03:00"),
              ElementsAreArray({"2022-03-27 01:00:00+03:00 moved 2022-03-27T00:00:00",
                                "2022-04-03 00:00:00+03:00"}));
}

TEST(ScheduleTest, FoldBeforeMidnightBelongsToTheOldDay) {
  EXPECT_THAT(Between({"0 0 * * *", "30 23 * * *"}, "America/Sao_Paulo",
                      "2018-02-17 12:00:00-02:00", "2018-02-18 12:00:00-03:00"),
              ElementsAreArray({"2018-02-17 23:30:00-02:00", "2018-02-17 23:30:00-03:00 suppressed",
                                "2018-02-18 00:00:00-03:00"}));
}

TEST(ScheduleTest, DayThatTheCalendarSkipsIsSkipped) {
  EXPECT_THAT(Between({"0,30 10 * * *"}, "Pacific/Apia", "2011-12-29 10:15:00-10:00",
                      "2011-12-31 10:15:00+14:00"),
              ElementsAreArray({"2011-12-29 10:30:00-10:00",
                                "2011-12-31 00:00:00+14:00 skipped 2011-12-30T10:00:00 +1",
                                "2011-12-31 10:00:00+14:00"}));
  EXPECT_THAT(Between({"0 12 21 8 *"}, "Pacific/Kwajalein", "1992-09-01 00:00:00-12:00",
                      "1994-09-01 00:00:00+12:00"),
              ElementsAreArray({"1993-08-22 00:00:00+12:00 skipped 1993-08-21T12:00:00",
                                "1994-08-21 12:00:00+12:00"}));
  EXPECT_THAT(Between({"0 * * * *"}, "Pacific/Apia", "2011-12-29 22:30:00-10:00",
                      "2011-12-31 01:30:00+14:00"),
              ElementsAreArray({"2011-12-29 23:00:00-10:00", "2011-12-31 00:00:00+14:00",
                                "2011-12-31 01:00:00+14:00"}));
}

TEST(ScheduleTest, RegularTimeAfterASkippedDayFires) {
  EXPECT_THAT(
      Between({"@daily"}, "Pacific/Apia", "2011-12-28 12:00:00-10:00", "2012-01-01 12:00:00+14:00"),
      ElementsAreArray({"2011-12-29 00:00:00-10:00", "2011-12-31 00:00:00+14:00 +1",
                        "2012-01-01 00:00:00+14:00"}));
}

TEST(ScheduleTest, DayThatTheCalendarRepeatsFiresTwice) {
  EXPECT_THAT(Between({"0 12 * * *"}, "Pacific/Kwajalein", "1969-09-29 18:00:00+11:00",
                      "1969-10-01 18:00:00-12:00"),
              ElementsAreArray({"1969-09-30 12:00:00+11:00", "1969-09-30 12:00:00-12:00",
                                "1969-10-01 12:00:00-12:00"}));
}

TEST(ScheduleTest, JumpOfThreeHoursIsAChangeOfTheCalendar) {
  const char* const zone = "Antarctica/Casey";
  EXPECT_THAT(
      Between({"0 5 * * *"}, zone, "2018-10-06 12:00:00+08:00", "2018-10-08 12:00:00+11:00"),
      ElementsAreArray(
          {"2018-10-07 07:00:00+11:00 skipped 2018-10-07T05:00:00", "2018-10-08 05:00:00+11:00"}));
  EXPECT_THAT(
      Between({"0 2 * * *"}, zone, "2018-03-10 12:00:00+11:00", "2018-03-12 12:00:00+08:00"),
      ElementsAreArray(
          {"2018-03-11 02:00:00+11:00", "2018-03-11 02:00:00+08:00", "2018-03-12 02:00:00+08:00"}));
}

TEST(ScheduleTest, NegativeSummerTimeIsHandledLikeAnyOther) {
  const char* const zone = "Europe/Dublin";
  EXPECT_THAT(
      Between({"30 1 * * *"}, zone, "2026-03-28 12:00:00+00:00", "2026-03-29 12:00:00+01:00"),
      ElementsAreArray({"2026-03-29 02:00:00+01:00 moved 2026-03-29T01:30:00"}));
  EXPECT_THAT(
      Between({"30 1 * * *"}, zone, "2026-10-24 12:00:00+01:00", "2026-10-25 12:00:00+00:00"),
      ElementsAreArray({"2026-10-25 01:30:00+01:00", "2026-10-25 01:30:00+00:00 suppressed"}));
}

TEST(ScheduleTest, OtherChangesOfAZoneAreGapsAndFolds) {
  EXPECT_THAT(Between({"45 23 * * *"}, "Asia/Pyongyang", "2018-05-04 12:00:00+08:30",
                      "2018-05-06 12:00:00+09:00"),
              ElementsAreArray({"2018-05-05 00:00:00+09:00 moved 2018-05-04T23:45:00",
                                "2018-05-05 23:45:00+09:00"}));
  EXPECT_THAT(
      Between({"45 2 * * *"}, "America/Caracas", "2007-12-08 12:00:00-04:00",
              "2007-12-09 12:00:00-04:30"),
      ElementsAreArray({"2007-12-09 02:45:00-04:00", "2007-12-09 02:45:00-04:30 suppressed"}));
  EXPECT_THAT(Between({"0,15 0 * * *"}, "Africa/Monrovia", "1972-01-06 12:00:00-00:44",
                      "1972-01-08 12:00:00+00:00"),
              ElementsAreArray({"1972-01-07 00:44:30+00:00 moved 1972-01-07T00:00:00 +1",
                                "1972-01-08 00:00:00+00:00", "1972-01-08 00:15:00+00:00"}));
}

TEST(ScheduleTest, NewNameOfTheSameOffsetHasNoEffect) {
  EXPECT_THAT(Between({"0,30 1-2 * * *"}, "Europe/Lisbon", "1992-09-27 01:15:00+01:00",
                      "1992-09-27 12:00:00+01:00"),
              ElementsAreArray({"1992-09-27 01:30:00+01:00", "1992-09-27 02:00:00+01:00",
                                "1992-09-27 02:30:00+01:00"}));
}

TEST(ScheduleTest, UnionHasOneOccurrencePerInstant) {
  EXPECT_THAT(Between({"*/30 8 * * *", "0 8-9 * * *", "@every 1h"}, "UTC",
                      "2026-05-05 07:30:00+00:00", "2026-05-05 09:30:00+00:00"),
              ElementsAreArray({"2026-05-05 08:00:00+00:00", "2026-05-05 08:30:00+00:00",
                                "2026-05-05 09:00:00+00:00"}));
}

TEST(ScheduleTest, UnionIsPlainWhereAnyExpressionIsPlain) {
  const char* const zone = "Europe/Berlin";
  EXPECT_THAT(Between({"30 2 * * *", "0 3 * * *"}, zone, "2026-03-28 12:00:00+01:00",
                      "2026-03-29 12:00:00+02:00"),
              ElementsAreArray({"2026-03-29 03:00:00+02:00 +1"}));
  EXPECT_THAT(Between({"30 2 * * *", "30 * * * *"}, zone, "2026-10-25 02:00:00+02:00",
                      "2026-10-25 03:00:00+01:00"),
              ElementsAreArray({"2026-10-25 02:30:00+02:00", "2026-10-25 02:30:00+01:00"}));
  EXPECT_THAT(Between({"30 2 * * *", "@every 30m"}, zone, "2026-10-25 02:15:00+02:00",
                      "2026-10-25 03:00:00+01:00"),
              ElementsAreArray({"2026-10-25 02:30:00+02:00", "2026-10-25 02:00:00+01:00",
                                "2026-10-25 02:30:00+01:00"}));
}

TEST(ScheduleTest, UnionMergesTheWallTimesOfAGap) {
  EXPECT_THAT(Between({"45 2 * * *", "30 2 * * *", "30 2 * * SUN", "15 * * * *"}, "Europe/Berlin",
                      "2026-03-29 01:30:00+01:00", "2026-03-29 03:30:00+02:00"),
              ElementsAreArray({"2026-03-29 03:00:00+02:00 moved 2026-03-29T02:30:00 +1",
                                "2026-03-29 03:15:00+02:00"}));
}

TEST(ScheduleTest, MergedCountsUpToALimit) {
  EXPECT_THAT(Between(ScheduleText{.expressions = {"* * 2 * * *"}, .seconds = true},
                      "Europe/Berlin", "2026-03-29 00:00:00+01:00", "2026-03-29 12:00:00+02:00"),
              ElementsAreArray({"2026-03-29 03:00:00+02:00 moved 2026-03-29T02:00:00 +1000"}));
}

TEST(ScheduleTest, PlainAndMovedFire) {
  using Kind = Occurrence::Kind;
  EXPECT_TRUE(Occurrence{.kind = Kind::kPlain}.Fires());
  EXPECT_TRUE(Occurrence{.kind = Kind::kGapMoved}.Fires());
  EXPECT_FALSE(Occurrence{.kind = Kind::kFoldSuppressed}.Fires());
  EXPECT_FALSE(Occurrence{.kind = Kind::kSkippedCalendar}.Fires());
}

TEST(ScheduleTest, NextIsStrictlyAfterAndLastStrictlyBefore) {
  const Schedule schedule = *Schedule::Parse({.expressions = {"* * * * *"}}, absl::UTCTimeZone());
  const absl::Time noon = TimeOf("2026-05-05 12:00:00+00:00");
  const absl::Duration tick = absl::Nanoseconds(1);
  EXPECT_EQ(schedule.NextAfter(noon - tick)->at, noon);
  EXPECT_EQ(schedule.NextAfter(noon)->at, noon + absl::Minutes(1));
  EXPECT_EQ(schedule.LastBefore(noon + tick)->at, noon);
  EXPECT_EQ(schedule.LastBefore(noon)->at, noon - absl::Minutes(1));
}

TEST(ScheduleTest, NoOccurrencesOutsideOfTheSupportedYears) {
  const Schedule schedule = *Schedule::Parse({.expressions = {"@yearly"}}, absl::UTCTimeZone());
  const absl::Time first = TimeOf("1900-01-01 00:00:00+00:00");
  const absl::Time last = TimeOf("2299-01-01 00:00:00+00:00");
  EXPECT_EQ(schedule.NextAfter(absl::InfinitePast())->at, first);
  EXPECT_EQ(schedule.LastBefore(first), std::nullopt);
  EXPECT_EQ(schedule.LastBefore(absl::InfinitePast()), std::nullopt);
  EXPECT_EQ(schedule.LastBefore(absl::InfiniteFuture())->at, last);
  EXPECT_EQ(schedule.NextAfter(last), std::nullopt);
  EXPECT_EQ(schedule.NextAfter(absl::InfiniteFuture()), std::nullopt);
}

TEST(ScheduleTest, RareDateIsFoundAcrossDecades) {
  EXPECT_THAT(Between({"0 0 * 2 1#5"}, "Europe/Berlin", "2026-01-01 00:00:00+00:00",
                      "2113-01-01 00:00:00+00:00"),
              ElementsAreArray({"2044-02-29 00:00:00+01:00", "2072-02-29 00:00:00+01:00",
                                "2112-02-29 00:00:00+01:00"}));
}

TEST(ScheduleTest, AtEveryCountsFromItsAnchorInBothDirections) {
  const ScheduleText text{.expressions = {"@every 1h30m"},
                          .anchor = TimeOf("2026-05-05 12:34:56+00:00") + absl::Milliseconds(7)};
  EXPECT_THAT(Between(text, "UTC", "2026-05-05 10:00:00+00:00", "2026-05-05 15:00:00+00:00"),
              ElementsAreArray({"2026-05-05 11:04:56+00:00", "2026-05-05 12:34:56+00:00",
                                "2026-05-05 14:04:56+00:00"}));
}

TEST(ScheduleTest, AtEveryNeedsWholeSeconds) {
  for (const char* text : {"@every", "@every 90", "@every 1d", "@every 500ms", "@every 1.5s",
                           "@every 0s", "@every -5m", "@every inf", "@every 8785h"}) {
    EXPECT_THAT(Schedule::Parse({.expressions = {text}}, absl::UTCTimeZone()),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("\"", text,
                                      "\": @every needs whole seconds from 1s to "
                                      "8784h, for example 90m or 1h30m")));
  }
  EXPECT_THAT(Schedule::Parse({.expressions = {"@every " + std::string(kCronBytesMax, '9')}},
                              absl::UTCTimeZone()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("256 are allowed")));
  for (const char* text : {"@every 1s", " @Every  1.5m ", "@every 8784h"}) {
    EXPECT_THAT(Schedule::Parse({.expressions = {text}}, absl::UTCTimeZone()), IsOk());
  }
}

TEST(ScheduleTest, HashFollowsTheKey) {
  const auto first = [](const std::string& key) {
    const ScheduleText text{.expressions = {"~ ~ * * *"}, .hash_key = key};
    return Schedule::Parse(text, absl::UTCTimeZone())->NextAfter(absl::UnixEpoch())->at;
  };
  EXPECT_EQ(first("a"), first("a"));
  EXPECT_NE(first("a"), first("b"));
}

TEST(ScheduleTest, ErrorQuotesTheExpression) {
  EXPECT_THAT(Schedule::Parse({.expressions = {"* * * * *", "61 * * * *"}}, absl::UTCTimeZone()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"61 * * * *\"")));
}

TEST(ScheduleTest, NumberOfExpressionsIsBounded) {
  const auto parsed = [](size_t count) {
    return Schedule::Parse({.expressions = Expressions(count, "@daily")}, absl::UTCTimeZone());
  };
  EXPECT_THAT(parsed(kCronsMax), IsOk());
  EXPECT_THAT(parsed(0), StatusIs(absl::StatusCode::kInvalidArgument,
                                  "a schedule has 1 to 32 expressions, not 0"));
  EXPECT_THAT(parsed(kCronsMax + 1), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ScheduleTest, AnchorIsInTheSupportedYears) {
  EXPECT_THAT(Schedule::Parse({.expressions = {"@every 1h"}, .anchor = absl::InfiniteFuture()},
                              absl::UTCTimeZone()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1900 to 2299")));
}

}  // namespace
}  // namespace callboard::core
