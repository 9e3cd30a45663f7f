// Compares random schedules with a reference implementation that has no shortcuts: it checks every
// second of the wall clock.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/core/schedule.h"

namespace callboard::core {
namespace {

using Kind = Occurrence::Kind;

constexpr const char* kZones[] = {"UTC",
                                  "Europe/Berlin",
                                  "Europe/Dublin",
                                  "America/New_York",
                                  "America/Nuuk",
                                  "Asia/Kolkata",
                                  "America/Sao_Paulo",
                                  "Australia/Lord_Howe",
                                  "Asia/Beirut",
                                  "Pacific/Apia",
                                  "Pacific/Kwajalein",
                                  "Antarctica/Casey",
                                  "Asia/Tehran",
                                  "Africa/Casablanca",
                                  "Africa/Monrovia",
                                  "Antarctica/Troll",
                                  "Asia/Pyongyang",
                                  "Europe/Lisbon"};

// A field of an expression: its text, and a predicate with the same meaning.
struct Field {
  std::string text;
  std::function<bool(absl::CivilSecond)> matches;
};

// The reference implementation of one expression.
struct ReferenceCron {
  bool Matches(absl::CivilSecond wall) const {
    const bool time =
        second.matches(wall) && minute.matches(wall) && hour.matches(wall) && month.matches(wall);
    const bool open =
        absl::StrContains("*?", date.text[0]) || absl::StrContains("*?", weekday.text[0]);
    return time && (open ? date.matches(wall) && weekday.matches(wall)
                         : date.matches(wall) || weekday.matches(wall));
  }
  bool FollowsElapsedTime() const { return hour.text == "*"; }

  Field second, minute, hour, date, month, weekday;
};

struct DrawnSchedule {
  ScheduleText text;
  std::vector<ReferenceCron> crons;
  // The period of `@every`, if the schedule has one.
  std::optional<int64_t> period;
  absl::TimeZone zone;
};

// Draws a number from the whole range, independent of rapidcheck's current size.
int Draw(int min, int max) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(min, max + 1));
}

// Returns true one time in `times`.
bool OneIn(int times) { return Draw(1, times) == times; }

int LengthOfMonth(absl::CivilSecond wall) {
  return static_cast<int>(absl::CivilDay(absl::CivilMonth(wall) + 1) -
                          absl::CivilDay(absl::CivilMonth(wall)));
}

int Weekday(absl::CivilSecond wall) { return (static_cast<int>(absl::GetWeekday(wall)) + 1) % 7; }

// Draws one item of a list. Returns its text and its values in [min, max].
std::pair<std::string, std::set<int>> DrawItem(int min, int max) {
  const int low = Draw(min, max);
  const int high = Draw(min, max);
  const int step = Draw(1, max);
  const auto every = [&](int from, int count, int by) {
    std::set<int> values;
    for (int i = 0; i < count; i += by) values.insert(min + (from - min + i) % (max - min + 1));
    return values;
  };
  const int count = high - low + (high < low ? max - min + 1 : 0) + 1;
  switch (Draw(0, 4)) {
    case 0:
      return {absl::StrCat(low), {low}};
    case 1:
      return {absl::StrCat("*/", step), every(min, max - min + 1, step)};
    case 2:
      return {absl::StrCat(low, "/", step), every(low, max - low + 1, step)};
    case 3:
      return {absl::StrCat(low, "-", high), every(low, count, 1)};
    default:
      return {absl::StrCat(low, "-", high, "/", step), every(low, count, step)};
  }
}

using DrawField = std::function<Field()>;

// Draws a list of items one time in `times`, else a star.
Field DrawList(int times, const DrawField& draw_item) {
  if (!OneIn(times)) return {"*", [](absl::CivilSecond) { return true; }};
  Field list = draw_item();
  if (OneIn(3)) {
    const Field more = draw_item();
    absl::StrAppend(&list.text, ",", more.text);
    list.matches = [one = list.matches, other = more.matches](absl::CivilSecond wall) {
      return one(wall) || other(wall);
    };
  }
  return list;
}

DrawField Numbers(int min, int max, int (*value)(absl::CivilSecond)) {
  return [=]() -> Field {
    const auto [text, values] = DrawItem(min, max);
    return {text,
            [=, values = values](absl::CivilSecond wall) { return values.contains(value(wall)); }};
  };
}

Field DrawDate() {
  return DrawList(4, []() -> Field {
    if (!OneIn(3)) {
      return Numbers(1, 31, [](absl::CivilSecond wall) { return wall.day(); })();
    }
    const int before = Draw(0, 4);
    return {before == 0 ? "L" : absl::StrCat("L-", before),
            [=](absl::CivilSecond wall) { return wall.day() + before == LengthOfMonth(wall); }};
  });
}

Field DrawWeekday() {
  return DrawList(4, []() -> Field {
    const int weekday = Draw(0, 6);
    const int week = Draw(1, 5);
    const std::string text = weekday == 0 && OneIn(2) ? "7" : absl::StrCat(weekday);
    switch (Draw(0, 3)) {
      case 0:
        return {text + "L", [=](absl::CivilSecond wall) {
                  return Weekday(wall) == weekday && wall.day() + 7 > LengthOfMonth(wall);
                }};
      case 1:
        return {absl::StrCat(text, "#", week), [=](absl::CivilSecond wall) {
                  return Weekday(wall) == weekday && (wall.day() + 6) / 7 == week;
                }};
      default:
        return Numbers(0, 6, Weekday)();
    }
  });
}

ReferenceCron DrawCron(bool seconds) {
  ReferenceCron reference;
  reference.second = {"0", [](absl::CivilSecond wall) { return wall.second() == 0; }};
  if (seconds) {
    reference.second =
        DrawList(2, Numbers(0, 59, [](absl::CivilSecond wall) { return wall.second(); }));
  }
  reference.minute =
      DrawList(2, Numbers(0, 59, [](absl::CivilSecond wall) { return wall.minute(); }));
  reference.hour = DrawList(2, Numbers(0, 23, [](absl::CivilSecond wall) { return wall.hour(); }));
  reference.date = DrawDate();
  reference.month =
      DrawList(4, Numbers(1, 12, [](absl::CivilSecond wall) { return wall.month(); }));
  reference.weekday = DrawWeekday();
  return reference;
}

// Draws a schedule of one to three satisfiable expressions.
DrawnSchedule DrawSchedule() {
  DrawnSchedule drawn;
  drawn.text.seconds = OneIn(3);
  RC_ASSERT(absl::LoadTimeZone(kZones[Draw(0, std::size(kZones) - 1)], &drawn.zone));
  for (int left = Draw(1, 3); left > 0; --left) {
    const ReferenceCron reference = DrawCron(drawn.text.seconds);
    std::vector<std::string> fields = {reference.minute.text, reference.hour.text,
                                       reference.date.text, reference.month.text,
                                       reference.weekday.text};
    if (drawn.text.seconds) fields.insert(fields.begin(), reference.second.text);
    const std::string text = absl::StrJoin(fields, " ");
    const auto cron = Cron::Parse(text, {.seconds = drawn.text.seconds});
    if (!cron.ok() && absl::StrContains(cron.status().message(), "never happens")) continue;
    RC_ASSERT(cron.ok());
    drawn.crons.push_back(reference);
    drawn.text.expressions.push_back(text);
  }
  if (OneIn(4) || drawn.crons.empty()) {
    drawn.period = Draw(1, 100'000);
    drawn.text.expressions.push_back(absl::StrCat("@every ", *drawn.period, "s"));
    drawn.text.anchor = absl::FromUnixSeconds(Draw(-1'000'000'000, 1'000'000'000));
  }
  RC_LOG() << absl::StrJoin(drawn.text.expressions, " | ") << " in " << drawn.zone.name() << "\n";
  return drawn;
}

Schedule Parsed(const DrawnSchedule& drawn) {
  auto schedule = Schedule::Parse(drawn.text, drawn.zone);
  RC_ASSERT(schedule.ok());
  return *schedule;
}

// Returns the occurrence at an instant, by checking each wall time that it may represent.
std::optional<Occurrence> ReferenceOccurrence(const DrawnSchedule& drawn, absl::Time at) {
  const absl::CivilSecond wall = absl::ToCivilSecond(at, drawn.zone);
  const absl::CivilSecond before = absl::ToCivilSecond(at - absl::Seconds(1), drawn.zone);
  const absl::TimeZone::TimeInfo info = drawn.zone.At(wall);
  const bool again = info.kind == absl::TimeZone::TimeInfo::REPEATED && at == info.post &&
                     info.post - info.pre < absl::Hours(3);
  bool plain = drawn.period &&
               (at - drawn.text.anchor) % absl::Seconds(*drawn.period) == absl::ZeroDuration();
  bool suppressed = false;
  std::set<absl::CivilSecond> missing;
  for (const ReferenceCron& reference : drawn.crons) {
    if (reference.Matches(wall))
      (again && !reference.FollowsElapsedTime() ? suppressed : plain) = true;
    if (reference.FollowsElapsedTime()) continue;
    for (absl::CivilSecond gone = before + 1; gone < wall; ++gone) {
      if (reference.Matches(gone)) missing.insert(gone);
    }
  }
  const int merged = std::min<int>(static_cast<int>(missing.size()) - (plain ? 0 : 1), kMergedMax);
  const bool calendar_gap = !missing.empty() && wall - before > 3 * 3600;
  if (plain) {
    return Occurrence{.at = at,
                      .wall = wall,
                      .kind = Kind::kPlain,
                      .merged = merged,
                      .after_calendar_gap = calendar_gap};
  }
  if (!missing.empty()) {
    return Occurrence{.at = at,
                      .wall = *missing.begin(),
                      .kind = calendar_gap ? Kind::kSkippedCalendar : Kind::kGapMoved,
                      .merged = merged,
                      .after_calendar_gap = calendar_gap};
  }
  if (suppressed) return Occurrence{.at = at, .wall = wall, .kind = Kind::kFoldSuppressed};
  return std::nullopt;
}

// Draws an instant of the past and coming decades, usually shortly before a change of the clocks.
absl::Time DrawStart(absl::TimeZone zone) {
  const absl::Time start = absl::FromUnixSeconds(Draw(-300'000'000, 2'000'000'000));
  absl::TimeZone::CivilTransition transition;
  if (OneIn(5) || !zone.NextTransition(start, &transition)) return start;
  return start + absl::Seconds(transition.from - absl::ToCivilSecond(start, zone) - Draw(0, 3600));
}

// Draws an instant in or directly outside of the supported years.
absl::Time DrawAnyTime() {
  return absl::FromCivil(absl::CivilDay(Draw(1899, 2300), 1, 1) + Draw(0, 365),
                         absl::UTCTimeZone()) +
         absl::Milliseconds(Draw(0, 24 * 3600 * 1000));
}

TEST(SchedulePropertyTest, MatchesTheReferenceAtEverySecond) {
  std::set<Kind> seen;
  EXPECT_TRUE(rc::check([&seen] {
    const DrawnSchedule drawn = DrawSchedule();
    const Schedule schedule = Parsed(drawn);
    const absl::Time start = DrawStart(drawn.zone);
    const absl::Time end = start + absl::Hours(4);
    RC_LOG() << "from " << start << "\n";
    std::vector<Occurrence> expected;
    for (absl::Time at = start; at < end; at += absl::Seconds(1)) {
      if (const auto due = ReferenceOccurrence(drawn, at)) expected.push_back(*due);
    }
    std::vector<Occurrence> forward;
    for (auto next = schedule.NextAfter(start - absl::Seconds(1));
         next && next->at < end && forward.size() <= expected.size();
         next = schedule.NextAfter(next->at)) {
      forward.push_back(*next);
    }
    std::vector<Occurrence> backward;
    for (auto last = schedule.LastBefore(end);
         last && last->at >= start && backward.size() <= expected.size();
         last = schedule.LastBefore(last->at)) {
      backward.push_back(*last);
    }
    std::reverse(backward.begin(), backward.end());
    for (const Occurrence& due : expected) seen.insert(due.kind);
    RC_ASSERT(forward == expected);
    RC_ASSERT(backward == expected);
  }));
  EXPECT_EQ(seen.size(), 4);
}

TEST(SchedulePropertyTest, NextAndLastAgreeInAllYears) {
  EXPECT_TRUE(rc::check([] {
    const Schedule schedule = Parsed(DrawSchedule());
    const absl::Time time = DrawAnyTime();
    const auto next = schedule.NextAfter(time);
    const auto last = schedule.LastBefore(time);
    if (next) {
      RC_ASSERT(next->at > time);
      RC_ASSERT(schedule.LastBefore(next->at + absl::Seconds(1)) == next);
      RC_ASSERT(schedule.NextAfter(next->at - absl::Seconds(1)) == next);
    }
    if (last) {
      RC_ASSERT(last->at < time);
      RC_ASSERT(schedule.NextAfter(last->at - absl::Seconds(1)) == last);
    }
    const auto around =
        last ? schedule.NextAfter(last->at) : schedule.NextAfter(absl::InfinitePast());
    RC_ASSERT(around == next || (around && around->at == time));
  }));
}

TEST(SchedulePropertyTest, LaterTimesHaveNoEarlierOccurrence) {
  EXPECT_TRUE(rc::check([] {
    const Schedule schedule = Parsed(DrawSchedule());
    const absl::Time time = DrawAnyTime();
    const absl::Time later = time + absl::Seconds(Draw(0, 100'000'000));
    const auto next = schedule.NextAfter(time);
    const auto next_later = schedule.NextAfter(later);
    RC_ASSERT(!next_later || next->at <= next_later->at);
    if (next && next->at > later) RC_ASSERT(next == next_later);
  }));
}

TEST(SchedulePropertyTest, UnionIsTheMergeOfItsExpressions) {
  EXPECT_TRUE(rc::check([] {
    const DrawnSchedule drawn = DrawSchedule();
    const Schedule all = Parsed(drawn);
    std::vector<Schedule> single;
    for (const std::string& expression : drawn.text.expressions) {
      ScheduleText text = drawn.text;
      text.expressions = {expression};
      single.push_back(*Schedule::Parse(text, drawn.zone));
    }
    absl::Time time = DrawStart(drawn.zone);
    for (int i = 0; i < 10; ++i) {
      std::optional<Occurrence> first;
      for (const Schedule& schedule : single) {
        const auto next = schedule.NextAfter(time);
        if (!next || (first && next->at > first->at)) continue;
        if (!first || next->at < first->at || next->kind == Kind::kPlain) first = next;
      }
      const auto next = all.NextAfter(time);
      RC_ASSERT(next.has_value() == first.has_value());
      if (!next) return;
      RC_ASSERT(next->at == first->at);
      RC_ASSERT(next->kind == first->kind);
      time = next->at;
    }
  }));
}

}  // namespace
}  // namespace callboard::core
