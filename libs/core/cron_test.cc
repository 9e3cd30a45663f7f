#include "libs/core/cron.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/core/limits.h"
#include "libs/testing/status_matchers.h"

namespace callboard::core {
namespace {

using ::callboard::test::IsOk;
using ::callboard::test::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr absl::CivilSecond kStart(2027);
constexpr absl::CivilSecond kEnd(2427);

Cron Parsed(absl::string_view text, const CronDialect& dialect = {}) {
  auto cron = Cron::Parse(text, dialect);
  EXPECT_THAT(cron, IsOk()) << text;
  return *cron;
}

// Returns the first `count` matching wall times from 2027 on.
std::vector<absl::CivilSecond> Walls(const Cron& cron, size_t count) {
  std::vector<absl::CivilSecond> walls;
  for (auto wall = cron.FirstIn(kStart, kEnd); wall && walls.size() < count;
       wall = cron.FirstIn(*wall + 1, kEnd)) {
    walls.push_back(*wall);
  }
  return walls;
}

// Returns the first `count` matches from 2027 on, as text without the year. 2027 begins on a
// Friday.
std::vector<std::string> First(size_t count, absl::string_view text,
                               const CronDialect& dialect = {}) {
  std::vector<std::string> texts;
  for (const absl::CivilSecond wall : Walls(Parsed(text, dialect), count)) {
    texts.push_back(absl::FormatTime("%m-%d %H:%M:%S", absl::FromCivil(wall, absl::UTCTimeZone()),
                                     absl::UTCTimeZone()));
  }
  return texts;
}

// Returns the first `count` matching days from 2027 on.
std::vector<std::string> Days(size_t count, absl::string_view days) {
  std::vector<std::string> texts;
  for (const absl::CivilSecond wall : Walls(Parsed(absl::StrCat("0 0 ", days)), count)) {
    texts.push_back(absl::FormatCivilTime(absl::CivilDay(wall)));
  }
  return texts;
}

// Returns the matching minutes of an hour.
std::vector<int> Minutes(absl::string_view field, absl::string_view hash_key = "") {
  std::vector<int> minutes;
  const Cron cron = Parsed(absl::StrCat(field, " * * * *"), {.hash_key = hash_key});
  for (auto wall = cron.FirstIn(kStart, kStart + 3600); wall;
       wall = cron.FirstIn(*wall + 1, kStart + 3600)) {
    minutes.push_back(wall->minute());
  }
  return minutes;
}

TEST(CronTest, FieldsAreMinuteHourDayMonthAndWeekday) {
  EXPECT_THAT(First(3, "5 4 3 2 *"),
              ElementsAreArray({"02-03 04:05:00", "02-03 04:05:00", "02-03 04:05:00"}));
  EXPECT_THAT(First(3, " 5,10\t4  * * 6 "),
              ElementsAreArray({"01-02 04:05:00", "01-02 04:10:00", "01-09 04:05:00"}));
}

TEST(CronTest, SixFieldsBeginWithTheSecond) {
  EXPECT_THAT(First(3, "*/25 59 23 1 * *", {.seconds = true}),
              ElementsAreArray({"01-01 23:59:00", "01-01 23:59:25", "01-01 23:59:50"}));
}

TEST(CronTest, NamesAreReadInAnyCase) {
  EXPECT_THAT(Days(4, "* jan,Mar MON-tUe"),
              ElementsAreArray({"2027-01-04", "2027-01-05", "2027-01-11", "2027-01-12"}));
}

TEST(CronTest, StepsCountFromTheBeginningOfTheirRange) {
  EXPECT_THAT(Minutes("*/25"), ElementsAreArray({0, 25, 50}));
  EXPECT_THAT(Minutes("10-40/7"), ElementsAreArray({10, 17, 24, 31, 38}));
  EXPECT_THAT(Minutes("5/15"), ElementsAreArray({5, 20, 35, 50}));
  EXPECT_THAT(Minutes("7,1-3,2"), ElementsAreArray({1, 2, 3, 7}));
}

TEST(CronTest, RangesMayWrapAround) {
  EXPECT_THAT(Minutes("55-5/4"), ElementsAreArray({3, 55, 59}));
  EXPECT_THAT(First(4, "0 22-1 * * *"), ElementsAreArray({"01-01 00:00:00", "01-01 01:00:00",
                                                          "01-01 22:00:00", "01-01 23:00:00"}));
  EXPECT_THAT(Days(5, "* * FRI-MON"), ElementsAreArray({"2027-01-01", "2027-01-02", "2027-01-03",
                                                        "2027-01-04", "2027-01-08"}));
  EXPECT_THAT(Days(4, "1 NOV-FEB *"),
              ElementsAreArray({"2027-01-01", "2027-02-01", "2027-11-01", "2027-12-01"}));
}

TEST(CronTest, SundayIsZeroAndSeven) {
  for (const char* sunday : {"0", "7", "SUN", "7-7", "0-0"}) {
    EXPECT_THAT(Days(2, absl::StrCat("* * ", sunday)),
                ElementsAreArray({"2027-01-03", "2027-01-10"}));
  }
  EXPECT_THAT(Days(3, "* * 6-7"), ElementsAreArray({"2027-01-02", "2027-01-03", "2027-01-09"}));
  EXPECT_THAT(Days(3, "* * 7-1"), ElementsAreArray({"2027-01-03", "2027-01-04", "2027-01-10"}));
  EXPECT_THAT(Days(8, "* * 0-7"), Days(8, "* * *"));
  EXPECT_THAT(Days(2, "* * 7L"), ElementsAreArray({"2027-01-31", "2027-02-28"}));
}

TEST(CronTest, LastDayIsCountedFromTheEndOfTheMonth) {
  EXPECT_THAT(Days(3, "L * *"), ElementsAreArray({"2027-01-31", "2027-02-28", "2027-03-31"}));
  EXPECT_THAT(Days(3, "L-3 2 *"), ElementsAreArray({"2027-02-25", "2028-02-26", "2029-02-25"}));
  EXPECT_THAT(Days(3, "15,l *  *"), ElementsAreArray({"2027-01-15", "2027-01-31", "2027-02-15"}));
  EXPECT_THAT(Days(3, "L-30 * *"), ElementsAreArray({"2027-01-01", "2027-03-01", "2027-05-01"}));
}

TEST(CronTest, LastWeekdayIsTheLastInTheMonth) {
  EXPECT_THAT(Days(3, "* * 5L"), ElementsAreArray({"2027-01-29", "2027-02-26", "2027-03-26"}));
  EXPECT_THAT(Days(3, "* * FRIL,monl"),
              ElementsAreArray({"2027-01-25", "2027-01-29", "2027-02-22"}));
}

TEST(CronTest, NumberedWeekdayIsTheNthInTheMonth) {
  EXPECT_THAT(Days(2, "* * MON#2"), ElementsAreArray({"2027-01-11", "2027-02-08"}));
  EXPECT_THAT(Days(2, "* * 1#1"), ElementsAreArray({"2027-01-04", "2027-02-01"}));
  EXPECT_THAT(Days(3, "* * 5#5"), ElementsAreArray({"2027-01-29", "2027-04-30", "2027-07-30"}));
  EXPECT_THAT(Days(4, "* * 5#1,6#1,SUN"),
              ElementsAreArray({"2027-01-01", "2027-01-02", "2027-01-03", "2027-01-10"}));
}

TEST(CronTest, EitherDayFieldMatchesWhenBothAreRestricted) {
  EXPECT_THAT(Days(4, "13 * FRI"),
              ElementsAreArray({"2027-01-01", "2027-01-08", "2027-01-13", "2027-01-15"}));
  EXPECT_THAT(Days(2, "30 2 1#1"), ElementsAreArray({"2027-02-01", "2028-02-07"}));
  // In a month without a fifth Monday, MON#5 does not match a Monday of the next month.
  EXPECT_THAT(Days(2, "14 2 MON#5"), ElementsAreArray({"2027-02-14", "2028-02-14"}));
}

TEST(CronTest, BothDayFieldsMustMatchWhenOneBeginsWithAStar) {
  EXPECT_THAT(Days(3, "*/2 * FRI"), ElementsAreArray({"2027-01-01", "2027-01-15", "2027-01-29"}));
  EXPECT_THAT(Days(3, "13 * */5"), ElementsAreArray({"2027-06-13", "2027-08-13", "2028-02-13"}));
  EXPECT_THAT(Days(2, "? * FRI"), ElementsAreArray({"2027-01-01", "2027-01-08"}));
  EXPECT_THAT(Days(2, "13 * ?"), ElementsAreArray({"2027-01-13", "2027-02-13"}));
}

TEST(CronTest, HashOfAKeyNeverChanges) {
  EXPECT_THAT(First(1, "~ ~ ~ * *", {.hash_key = "report"}), ElementsAreArray({"01-19 03:17:00"}));
}

TEST(CronTest, HashSpreadsKeysOverAllValues) {
  std::set<int> minutes;
  std::set<std::pair<int, int>> starts;
  for (int key = 0; key < 1000; ++key) {
    const std::string hash_key = absl::StrCat("job-", key);
    const absl::CivilSecond wall = Walls(Parsed("~ ~ * * *", {.hash_key = hash_key}), 1)[0];
    minutes.insert(wall.minute());
    starts.emplace(wall.hour(), wall.minute());
  }
  EXPECT_THAT(minutes, SizeIs(60));
  // Hour and minute are independent: 1000 keys hit about 722 of the 1440 minutes of a day.
  EXPECT_GT(starts.size(), 650);
}

TEST(CronTest, HashStaysWithinItsRange) {
  std::set<int> night;
  std::set<int> days;
  for (int key = 0; key < 1000; ++key) {
    const std::string hash_key = absl::StrCat(key);
    const absl::CivilSecond wall = Walls(Parsed("0 22~3 ~ * *", {.hash_key = hash_key}), 1)[0];
    night.insert(wall.hour());
    days.insert(wall.day());
  }
  EXPECT_THAT(night, ElementsAreArray({0, 1, 2, 3, 22, 23}));
  EXPECT_EQ(*days.begin(), 1);
  // 28 is the last day that every month has.
  EXPECT_EQ(*days.rbegin(), 28);
}

TEST(CronTest, HashWithAStepChoosesThePhase) {
  std::set<int> phases;
  for (int key = 0; key < 200; ++key) {
    const std::vector<int> minutes = Minutes("~/15", absl::StrCat(key));
    ASSERT_THAT(minutes, SizeIs(4));
    for (int i = 1; i < 4; ++i) EXPECT_EQ(minutes[i], minutes[0] + 15 * i);
    phases.insert(minutes[0]);
    EXPECT_LT(Minutes("50~59/20", absl::StrCat(key)).size(), 2);
  }
  EXPECT_THAT(phases, SizeIs(15));
}

TEST(CronTest, MacrosEqualTheirExpressionsWithAndWithoutSeconds) {
  const std::pair<const char*, const char*> macros[] = {
      {"@yearly", "0 0 1 1 *"},  {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"},
      {"@weekly", "0 0 * * 0"},  {"@daily", "0 0 * * *"},    {"@midnight", "0 0 * * *"},
      {" @Hourly ", "0 * * * *"}};
  for (const auto& [macro, expression] : macros) {
    EXPECT_EQ(First(30, macro), First(30, expression));
    EXPECT_EQ(First(30, macro, {.seconds = true}), First(30, expression));
    EXPECT_EQ(Parsed(macro).every_hour(), Parsed(expression).every_hour());
  }
}

TEST(CronTest, EveryHourMeansAnHourFieldOfExactlyAStar) {
  EXPECT_TRUE(Parsed("5 * * * *").every_hour());
  EXPECT_TRUE(Parsed("0 5 * * * *", {.seconds = true}).every_hour());
  for (const char* hours : {"*/1", "0-23", "~", "*,5", "5"}) {
    EXPECT_FALSE(Parsed(absl::StrCat("5 ", hours, " * * *")).every_hour()) << hours;
  }
}

TEST(CronTest, RareDatesAreFound) {
  const Cron leap = Parsed("0 0 29 2 *");
  EXPECT_EQ(leap.FirstIn(absl::CivilSecond(2096, 3, 1), kEnd), absl::CivilSecond(2104, 2, 29));
  EXPECT_EQ(leap.LastIn(kStart, absl::CivilSecond(2104, 2, 29)), absl::CivilSecond(2096, 2, 29));
  const Cron fifth_monday = Parsed("59 23 * 2 1#5");
  EXPECT_EQ(fifth_monday.FirstIn(absl::CivilSecond(2073), kEnd),
            absl::CivilSecond(2112, 2, 29, 23, 59, 0));
  EXPECT_EQ(fifth_monday.LastIn(kStart, absl::CivilSecond(2112)),
            absl::CivilSecond(2072, 2, 29, 23, 59, 0));
}

TEST(CronTest, FromIsInclusiveAndUntilIsExclusive) {
  const Cron cron = Parsed("0 12 * * *");
  const absl::CivilSecond noon(2027, 5, 5, 12, 0, 0);
  EXPECT_EQ(cron.FirstIn(noon, noon + 1), noon);
  EXPECT_EQ(cron.LastIn(noon, noon + 1), noon);
  EXPECT_EQ(cron.FirstIn(noon + 1, noon + 24 * 3600), std::nullopt);
  EXPECT_EQ(cron.LastIn(noon + 1, noon + 24 * 3600), std::nullopt);
  EXPECT_EQ(cron.FirstIn(noon, noon), std::nullopt);
  EXPECT_EQ(cron.LastIn(noon, noon), std::nullopt);
}

TEST(CronTest, ExpressionWithoutAMatchingDateIsAnError) {
  for (const char* never : {"0 0 30 2 *", "0 0 31 4,JUN,9,11 *", "0 0 L-29 2 *", "0 0 30 2 */2"}) {
    EXPECT_THAT(Cron::Parse(never, {}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(never), HasSubstr("never happens"))));
  }
}

TEST(CronTest, ErrorsNameFieldColumnAndAllowedValues) {
  const std::pair<const char*, const char*> errors[] = {
      {"*/5,75 * * * *", "minute: 75 is not in 0-59 (field 1, column 5 of \"*/5,75 * * * *\")"},
      {"  5 24 * * *", "hour: 24 is not in 0-23 (field 2, column 5 of \"  5 24 * * *\")"},
      {"0 0 0 * *", "day of month: 0 is not in 1-31 (field 3, column 5 of \"0 0 0 * *\")"},
      {"0 0 * FEBR *", "month: \"R\" does not belong here (field 4, column 10 of"},
      {"0 0 * XYZ *", "month: \"XYZ\" is not in 1-12 or JAN-DEC (field 4, column 7 of"},
      {"0 0 * * MON-8", "day of week: 8 is not in 0-7 or SUN-SAT (field 5, column 13 of"},
      {"0 0 * * MON-", "day of week: 0-7 or SUN-SAT is missing (field 5, column 13 of"},
      {"0, * * * *", "minute: 0-59 is missing (field 1, column 3 of"},
      {"0 MON * * *", "hour: \"MON\" is not in 0-23 (field 2, column 3 of"},
      {"*/0 * * * *", "minute: a step of 0 is not in 1-60 (field 1, column 3 of"},
      {"*/90 * * * *", "minute: a step of 90 is not in 1-60 (field 1, column 3 of"},
      {"99999999999 * * * *", "minute: 99999999999 is not in 0-59 (field 1, column 1 of"},
      {"-1 * * * *", "minute: \"-1\" is not in 0-59 (field 1, column 1 of"},
      {"0 0 L-31 * *", "day of month: L-31 is not in 0-30 (field 3, column 7 of"},
      {"0 0 15W * *", "day of month: \"W\" does not belong here (field 3, column 7 of"},
      {"0 0 * * 5#6", "day of week: #6 is not in 1-5 (field 5, column 11 of"},
      {"0 0 * * L", "day of week: \"L\" is not in 0-7 or SUN-SAT (field 5, column 9 of"},
      {"? * * * *", "minute: \"?\" is not in 0-59 (field 1, column 1 of"},
      {"\xc3\xa4\x01,1 * * * *",
       "minute: \"\xc3\xa4\\u0001\" is not in 0-59 (field 1, column 1 of"},
      {"* * * *",
       "\"* * * *\" has 4 fields instead of 5: minute hour day-of-month month day-of-week"},
      {"* * * * * *", "a sixth, for seconds, comes first where they are switched on"},
      {"", "\"\" has 0 fields instead of 5"},
      {"@dayly", "\"@dayly\" is not one of @yearly, @annually, @monthly, @weekly, @daily,"},
  };
  for (const auto& [expression, message] : errors) {
    EXPECT_THAT(Cron::Parse(expression, {}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
  EXPECT_THAT(Cron::Parse("60 * * * * *", {.seconds = true}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "second: 60 is not in 0-59 (field 1, column 1 of \"60 * * * * *\")"));
  EXPECT_THAT(Cron::Parse("0 60 * * * *", {.seconds = true}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "minute: 60 is not in 0-59 (field 2, column 3 of \"0 60 * * * *\")"));
}

TEST(CronTest, ErrorsQuoteAtMost128BytesOfANumber) {
  EXPECT_THAT(Cron::Parse(std::string(240, '9') + " * * * *", {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("minute: 999"), Not(HasSubstr(std::string(129, '9'))))));
}

TEST(CronTest, LengthIsBounded) {
  std::string text = "0 0 1 1 *";
  text.append(kCronBytesMax - text.size(), ' ');
  EXPECT_THAT(Cron::Parse(text, {}), IsOk());
  text += ' ';
  EXPECT_THAT(Cron::Parse(text, {}), StatusIs(absl::StatusCode::kInvalidArgument,
                                              "a cron expression has 257 bytes; 256 are allowed"));
}

TEST(CronTest, StepMayBeAsLongAsItsField) {
  for (const auto& [step, same] :
       {std::pair("*/60 * * * *", "0 * * * *"), std::pair("0 */24 * * *", "0 0 * * *"),
        std::pair("5/60 * * * *", "5 * * * *")}) {
    const absl::StatusOr<Cron> one = Cron::Parse(step, {});
    ASSERT_THAT(one, test::IsOk()) << step;
    const absl::CivilSecond from(2026, 1, 1, 0, 0, 1);
    EXPECT_EQ(one->FirstIn(from, from + 100'000),
              Cron::Parse(same, {})->FirstIn(from, from + 100'000))
        << step;
  }
  EXPECT_FALSE(Cron::Parse("*/61 * * * *", {}).ok());
  EXPECT_FALSE(Cron::Parse("0 */25 * * *", {}).ok());
}

}  // namespace
}  // namespace callboard::core
