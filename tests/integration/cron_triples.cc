// Prints random schedules and their occurrences for comparison with other programs: one JSON object
// per line, with an expression, a time zone, and instants with the occurrence before and the one
// after each, in seconds since 1970.
//
//   cron_triples <instants> <seed>
//
// Uses only syntax with the same meaning in all libraries that read the output. Left out, because
// at least one of them reads it in another way or not at all: `~`, `L-3`, ranges that wrap around,
// lists with duplicate values, `#` inside a list, open steps of weekdays (elsewhere they go up to
// 7), a day field that begins with `*` but is not `*` next to a restricted one, a day field that is
// restricted to everything, and instants near a change of the clocks.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/check.h"
#include "libs/core/schedule.h"
#include "libs/testing/fake_environment.h"

namespace callboard {
namespace {

using core::Occurrence;
using core::Schedule;

constexpr int kInstantsPerSchedule = 8;
// Zones with the same rules in all recent editions of the time zone database.
constexpr const char* kZones[] = {"UTC",
                                  "Europe/Berlin",
                                  "Europe/Dublin",
                                  "Europe/London",
                                  "Asia/Kolkata",
                                  "Asia/Kathmandu",
                                  "Asia/Tokyo",
                                  "America/New_York",
                                  "America/Denver",
                                  "America/St_Johns",
                                  "Australia/Lord_Howe",
                                  "Australia/Sydney",
                                  "Pacific/Auckland",
                                  "Pacific/Chatham",
                                  "Africa/Johannesburg",
                                  "America/Argentina/Buenos_Aires"};
constexpr const char* kMonths[] = {"JAN", "feb", "Mar", "apr", "MAY", "jun",
                                   "Jul", "aug", "SEP", "oct", "Nov", "dec"};
constexpr const char* kWeekdays[] = {"SUN", "mon", "Tue", "wed", "THU", "fri", "Sat"};
constexpr absl::Duration kCalm = absl::Hours(48);

// Draws random expressions.
class Words {
 public:
  explicit Words(uint64_t seed) : random_(seed) {}

  int Draw(int min, int max) { return min + static_cast<int>(random_.Below(max - min + 1)); }

  std::string Expression() {
    std::vector<std::string> fields;
    if (random_.Chance(0.3)) fields.push_back(List(0, 59));
    fields.insert(fields.end(), {List(0, 59), List(0, 23)});
    const std::string date = Date();
    const std::string weekday = date.find("*/") == 0 ? "*" : Weekday(date);
    fields.insert(fields.end(), {date, Month(), weekday});
    return absl::StrJoin(fields, " ");
  }

 private:
  std::string List(int min, int max) {
    if (random_.Chance(0.4)) return "*";
    const int low = Draw(min, max);
    const int step = Draw(1, max);
    switch (Draw(0, 4)) {
      case 0:
        return absl::StrCat("*/", step);
      case 1:
        return absl::StrCat(low, "/", step);
      case 2:
        return absl::StrCat(Range(min, low), "/", step);
      case 3:
        return low == max ? Range(min, max) : Halves(min, low, max);
      default:
        return absl::StrCat(low);
    }
  }

  std::string Range(int min, int max) {
    const int low = Draw(min, max);
    return absl::StrCat(low, "-", Draw(low, max));
  }

  std::string Halves(int min, int middle, int max) {
    return absl::StrCat(Range(min, middle), ",", Range(middle + 1, max));
  }

  std::string Date() {
    if (random_.Chance(0.5)) return "*";
    if (random_.Chance(0.1)) return absl::StrCat("*/", Draw(2, 15));
    if (random_.Chance(0.1)) return "L";
    if (random_.Chance(0.1)) return absl::StrCat(Draw(1, 31), ",L");
    return random_.Chance(0.5) ? Halves(1, Draw(1, 15), 30) : Range(2, 31);
  }

  std::string Month() {
    if (random_.Chance(0.3)) return kMonths[Draw(0, 11)];
    return random_.Chance(0.5) ? "*" : List(1, 12);
  }

  std::string Weekday(const std::string& date) {
    if (random_.Chance(0.5)) return "*";
    if (random_.Chance(0.1)) return date == "*" ? absl::StrCat("*/", Draw(2, 6)) : "*";
    if (random_.Chance(0.15)) return absl::StrCat(Draw(0, 7), "#", Draw(1, 5));
    if (random_.Chance(0.15)) return absl::StrCat(Draw(0, 7), "L");
    if (random_.Chance(0.3)) return kWeekdays[Draw(0, 6)];
    return random_.Chance(0.5) ? Halves(0, Draw(0, 3), 5) : Range(1, 6);
  }

  test::FakeRandom random_;
};

bool IsCalm(absl::TimeZone zone, absl::Time time) {
  return zone.At(time - kCalm).offset == zone.At(time + kCalm).offset;
}

bool IsBeginningOfMarch(absl::CivilDay day) { return day.month() == 3 && day.day() <= 2; }

// Returns `[instant, last, next]`; empty if it must be left out.
std::string Answer(const Schedule& schedule, absl::TimeZone zone, absl::Time time) {
  const std::optional<Occurrence> last = schedule.LastBefore(time);
  const std::optional<Occurrence> next = schedule.NextAfter(time);
  if (!last || !next || IsBeginningOfMarch(absl::CivilDay(next->wall))) return "";
  if (!IsCalm(zone, time) || !IsCalm(zone, last->at) || !IsCalm(zone, next->at)) return "";
  return absl::StrCat("[", absl::ToUnixSeconds(time), ",", absl::ToUnixSeconds(last->at), ",",
                      absl::ToUnixSeconds(next->at), "]");
}

void Print(int instants, uint64_t seed) {
  Words words(seed);
  while (instants > 0) {
    const std::string expression = words.Expression();
    const std::string zone_name = kZones[words.Draw(0, std::size(kZones) - 1)];
    absl::TimeZone zone;
    CHECK(absl::LoadTimeZone(zone_name, &zone)) << zone_name;
    const bool seconds = std::count(expression.begin(), expression.end(), ' ') == 5;
    const auto schedule = Schedule::Parse({.expressions = {expression}, .seconds = seconds}, zone);
    // The other libraries search forever for schedules without occurrences.
    if (!schedule.ok()) continue;
    std::vector<std::string> answers;
    for (int i = 0; i < kInstantsPerSchedule && instants > 0; ++i) {
      // 2000 to 2035.
      const absl::Time time = absl::FromUnixSeconds(words.Draw(946'684'800, 2'051'222'400));
      const std::string answer = Answer(*schedule, zone, time);
      if (answer.empty()) continue;
      answers.push_back(answer);
      --instants;
    }
    std::cout << absl::StrCat("{\"cron\":\"", expression, "\",\"zone\":\"", zone_name,
                              "\",\"instants\":[", absl::StrJoin(answers, ","), "]}\n");
  }
}

}  // namespace
}  // namespace callboard

int main(int argc, char** argv) {
  int instants = 0;
  uint64_t seed = 0;
  CHECK(argc == 3 && absl::SimpleAtoi(argv[1], &instants) && absl::SimpleAtoi(argv[2], &seed))
      << "cron_triples <instants> <seed>";
  callboard::Print(instants, seed);
}
