// Schedules: cron expressions in a time zone. docs/CRON.md describes the language and the behaviour
// when clocks are changed.
//
// Terms: a *gap* is a range of wall times that do not exist because the clocks are set forward. A
// *fold* is a range of wall times that occur twice because the clocks are set back.
#ifndef CALLBOARD_LIBS_CORE_SCHEDULE_H_
#define CALLBOARD_LIBS_CORE_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "libs/core/cron.h"

namespace callboard::core {

// Occurrences are in the years [kScheduleFirstYear, kScheduleEndYear).
inline constexpr int kScheduleFirstYear = 1900;
inline constexpr int kScheduleEndYear = 2300;
// Upper bound of `Occurrence::merged`.
inline constexpr int kMergedMax = 1000;

// One nominal occurrence of a schedule. There is at most one per instant.
struct Occurrence {
  enum class Kind {
    kPlain,
    // The wall time is in a gap. The occurrence fires when the clocks are set forward.
    kGapMoved,
    // The wall time is in a fold, for the second time. The occurrence does not fire.
    kFoldSuppressed,
    // The wall time was removed from the calendar, usually with its whole day. The occurrence does
    // not fire.
    kSkippedCalendar,
  };

  // The instant at which the occurrence fires or would have fired, in whole seconds.
  absl::Time at = {};
  // The wall time that the expression matches; the first one if several are in the gap.
  absl::CivilSecond wall = {};
  Kind kind = Kind::kPlain;
  // Number of further matching wall times in the gap. They are merged into this occurrence.
  int merged = 0;
  // True if the gap before this occurrence is a change of the calendar. Wall times in such a gap,
  // including the `merged` ones, are skipped and do not fire at its end.
  bool after_calendar_gap = false;

  bool Fires() const { return kind == Kind::kPlain || kind == Kind::kGapMoved; }

  friend bool operator==(const Occurrence&, const Occurrence&) = default;
};

// The text form of a schedule.
struct ScheduleText {
  // The schedule is the union of these. An instant that several of them match is one occurrence.
  std::vector<std::string> expressions;
  // True if expressions have six fields, seconds first.
  bool seconds = false;
  // Selects the values of `~`.
  std::string hash_key = {};
  // `@every` counts from here, in both directions.
  absl::Time anchor = absl::UnixEpoch();
};

// A parsed schedule. An immutable value type with cheap copies. Results depend only on the text,
// the rules of the time zone and the arguments; a Schedule does not read a clock.
class Schedule {
 public:
  // Creates a schedule without occurrences.
  Schedule() = default;
  // Returns INVALID_ARGUMENT, quoting the expression with the position and cause of the error.
  static absl::StatusOr<Schedule> Parse(const ScheduleText& text, absl::TimeZone zone);

  // Return the first occurrence strictly after `time` and the last one strictly before it,
  // including occurrences that do not fire. There are none outside of the supported years.
  std::optional<Occurrence> NextAfter(absl::Time time) const;
  std::optional<Occurrence> LastBefore(absl::Time time) const;

 private:
  // An interval in which the UTC offset of the zone is constant, in seconds since 1970.
  struct Span {
    // Convert between instants of the interval and wall times.
    absl::CivilSecond WallAt(int64_t second) const;
    int64_t SecondOf(absl::CivilSecond wall) const;

    int64_t start;
    // Exclusive.
    int64_t end;
    // Seconds by which the wall clock is ahead of UTC, and by which it was set forward at `start`.
    int64_t offset;
    int64_t jump;
  };

  explicit Schedule(absl::TimeZone zone) : zone_(zone) {}

  Span SpanAt(int64_t second) const;
  // Return the first second of `span` at or after `second`, and the last one at or before it, that
  // has an occurrence of any kind.
  std::optional<int64_t> FirstFrom(int64_t second, const Span& span) const;
  std::optional<int64_t> LastUntil(int64_t second, const Span& span) const;
  // Returns the first wall time in the gap before `span` that an expression matches, if any. Skips
  // expressions that follow elapsed time (Cron::every_hour()).
  std::optional<absl::CivilSecond> FirstInGap(const Span& span) const;
  // Returns the first wall time in [from, until) that an expression matches, if any. Skips
  // expressions that follow elapsed time.
  std::optional<absl::CivilSecond> FirstFixed(absl::CivilSecond from,
                                              absl::CivilSecond until) const;
  // Returns true if `second` has a plain occurrence.
  bool IsPlainAt(int64_t second, const Span& span) const;
  // Returns the occurrence at `second`. REQUIRES: there is one.
  Occurrence OccurrenceAt(int64_t second, const Span& span) const;

  absl::TimeZone zone_;
  std::vector<Cron> crons_;
  // The periods of the `@every` expressions, in seconds.
  std::vector<int64_t> periods_;
  int64_t anchor_ = 0;
};

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_SCHEDULE_H_
