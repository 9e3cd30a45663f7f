#include "libs/core/schedule.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/core/limits.h"

namespace callboard::core {
namespace {

constexpr absl::CivilSecond kEpoch(1970);
constexpr int64_t kFirstSecond = absl::CivilSecond(kScheduleFirstYear) - kEpoch;
constexpr int64_t kEndSecond = absl::CivilSecond(kScheduleEndYear) - kEpoch;
constexpr absl::Time kFirst = absl::FromUnixSeconds(kFirstSecond);
constexpr absl::Time kEnd = absl::FromUnixSeconds(kEndSecond);

// A change of the clocks by this much or more counts as a change of the calendar, because no summer
// time shifts the clocks that far.
constexpr int64_t kCalendarJumpSeconds = 3 * 3600;

constexpr absl::string_view kEvery = "@every";

absl::StatusOr<int64_t> PeriodSeconds(absl::string_view text) {
  absl::Duration period;
  if (!absl::ParseDuration(absl::StripAsciiWhitespace(text.substr(kEvery.size())), &period) ||
      period < absl::Seconds(1) || period > absl::Seconds(kEverySecondsMax) ||
      period != absl::Trunc(period, absl::Seconds(1))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", base::EscapeForError(text), "\": ", kEvery, " needs whole seconds from 1s to ",
        absl::FormatDuration(absl::Seconds(kEverySecondsMax)), ", for example 90m or 1h30m"));
  }
  return absl::ToInt64Seconds(period);
}

// Returns the last second at or before `second` that is a multiple of `period` away from `anchor`.
int64_t LastMultiple(int64_t anchor, int64_t period, int64_t second) {
  const int64_t beyond = (second - anchor) % period;
  return second - (beyond < 0 ? beyond + period : beyond);
}

}  // namespace

absl::StatusOr<Schedule> Schedule::Parse(const ScheduleText& text, absl::TimeZone zone) {
  if (text.expressions.empty() || text.expressions.size() > kCronsMax) {
    return absl::InvalidArgumentError(absl::StrCat("a schedule has 1 to ", kCronsMax,
                                                   " expressions, not ", text.expressions.size()));
  }
  Schedule schedule(zone);
  if (text.anchor < kFirst || text.anchor >= kEnd) {
    return absl::InvalidArgumentError(absl::StrCat(
        kEvery, " counts from ", absl::FormatTime(text.anchor, absl::UTCTimeZone()),
        ", which is not in the years ", kScheduleFirstYear, " to ", kScheduleEndYear - 1));
  }
  schedule.anchor_ = absl::ToUnixSeconds(text.anchor);
  for (const std::string& expression : text.expressions) {
    const absl::string_view trimmed = absl::StripAsciiWhitespace(expression);
    if (absl::StartsWith(trimmed, "CRON_TZ=") || absl::StartsWith(trimmed, "TZ=")) {
      return absl::InvalidArgumentError(
          "an expression cannot name a time zone: remove CRON_TZ= and set time_zone");
    }
    // Cron::Parse() rejects an expression that is too long to be quoted.
    if (absl::StartsWithIgnoreCase(trimmed, kEvery) && trimmed.size() <= kCronBytesMax) {
      ASSIGN_OR_RETURN(const int64_t period, PeriodSeconds(trimmed));
      schedule.periods_.push_back(period);
    } else {
      ASSIGN_OR_RETURN(
          Cron cron, Cron::Parse(expression, {.seconds = text.seconds, .hash_key = text.hash_key}));
      schedule.crons_.push_back(cron);
    }
  }
  return schedule;
}

std::optional<Occurrence> Schedule::NextAfter(absl::Time time) const {
  int64_t second = absl::ToUnixSeconds(std::clamp(time, kFirst - absl::Seconds(1), kEnd)) + 1;
  while (second < kEndSecond) {
    const Span span = SpanAt(second);
    if (const auto due = FirstFrom(second, span); due.has_value()) {
      return OccurrenceAt(*due, span);
    }
    second = span.end;
  }
  return std::nullopt;
}

std::optional<Occurrence> Schedule::LastBefore(absl::Time time) const {
  const absl::Time end = std::clamp(time, kFirst, kEnd);
  int64_t second = absl::ToUnixSeconds(end);
  if (absl::FromUnixSeconds(second) == end) --second;
  while (second >= kFirstSecond) {
    const Span span = SpanAt(second);
    if (const auto due = LastUntil(second, span); due.has_value()) {
      return OccurrenceAt(*due, span);
    }
    second = span.start - 1;
  }
  return std::nullopt;
}

Schedule::Span Schedule::SpanAt(int64_t second) const {
  const absl::Time time = absl::FromUnixSeconds(second);
  Span span{.start = kFirstSecond, .end = kEndSecond, .offset = zone_.At(time).offset, .jump = 0};
  absl::TimeZone::CivilTransition transition;
  if (zone_.NextTransition(time, &transition)) {
    span.end = std::min(span.end, span.SecondOf(transition.from));
  }
  if (zone_.PrevTransition(time + absl::Seconds(1), &transition) &&
      span.SecondOf(transition.to) >= span.start) {
    span.start = span.SecondOf(transition.to);
    span.jump = transition.to - transition.from;
  }
  return span;
}

absl::CivilSecond Schedule::Span::WallAt(int64_t second) const { return kEpoch + second + offset; }

int64_t Schedule::Span::SecondOf(absl::CivilSecond wall) const { return wall - kEpoch - offset; }

std::optional<int64_t> Schedule::FirstFrom(int64_t second, const Span& span) const {
  if (second == span.start && FirstInGap(span).has_value()) return second;
  int64_t until = span.end;
  for (const int64_t period : periods_) {
    until = std::min(until, LastMultiple(anchor_, period, second + period - 1));
  }
  for (const Cron& cron : crons_) {
    const auto wall = cron.FirstIn(span.WallAt(second), span.WallAt(until));
    if (wall.has_value()) until = span.SecondOf(*wall);
  }
  if (until == span.end) return std::nullopt;
  return until;
}

std::optional<int64_t> Schedule::LastUntil(int64_t second, const Span& span) const {
  int64_t after = span.start - 1;
  for (const int64_t period : periods_) {
    after = std::max(after, LastMultiple(anchor_, period, second));
  }
  for (const Cron& cron : crons_) {
    const auto wall = cron.LastIn(span.WallAt(after + 1), span.WallAt(second + 1));
    if (wall.has_value()) after = span.SecondOf(*wall);
  }
  if (after >= span.start) return after;
  if (FirstInGap(span).has_value()) return span.start;
  return std::nullopt;
}

std::optional<absl::CivilSecond> Schedule::FirstInGap(const Span& span) const {
  const absl::CivilSecond end = span.WallAt(span.start);
  return FirstFixed(end - std::max<int64_t>(span.jump, 0), end);
}

std::optional<absl::CivilSecond> Schedule::FirstFixed(absl::CivilSecond from,
                                                      absl::CivilSecond until) const {
  std::optional<absl::CivilSecond> first;
  for (const Cron& cron : crons_) {
    if (cron.every_hour()) continue;
    const auto wall = cron.FirstIn(from, first.value_or(until));
    if (wall.has_value()) first = wall;
  }
  return first;
}

bool Schedule::IsPlainAt(int64_t second, const Span& span) const {
  const absl::CivilSecond wall = span.WallAt(second);
  const bool is_second_time = -kCalendarJumpSeconds < span.jump && second < span.start - span.jump;
  return std::any_of(periods_.begin(), periods_.end(),
                     [&](int64_t period) { return (second - anchor_) % period == 0; }) ||
         std::any_of(crons_.begin(), crons_.end(), [&](const Cron& cron) {
           return (!is_second_time || cron.every_hour()) &&
                  cron.FirstIn(wall, wall + 1).has_value();
         });
}

Occurrence Schedule::OccurrenceAt(int64_t second, const Span& span) const {
  const absl::CivilSecond wall = span.WallAt(second);
  Occurrence occurrence{.at = absl::FromUnixSeconds(second), .wall = wall};
  auto missing = second == span.start ? FirstInGap(span) : std::nullopt;
  occurrence.after_calendar_gap = missing.has_value() && span.jump >= kCalendarJumpSeconds;
  if (!IsPlainAt(second, span)) {
    occurrence.kind = !missing.has_value()            ? Occurrence::Kind::kFoldSuppressed
                      : occurrence.after_calendar_gap ? Occurrence::Kind::kSkippedCalendar
                                                      : Occurrence::Kind::kGapMoved;
    if (missing.has_value()) {
      occurrence.wall = *missing;
      missing = FirstFixed(*missing + 1, wall);
    }
  }
  for (; missing.has_value() && occurrence.merged < kMergedMax;
       missing = FirstFixed(*missing + 1, wall)) {
    ++occurrence.merged;
  }
  return occurrence;
}

}  // namespace callboard::core
