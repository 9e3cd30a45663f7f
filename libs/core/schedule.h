// When something is due that is due again and again: cron expressions in a time zone. docs/CRON.md
// has the language, and what happens when clocks are changed.
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

// The years that a schedule knows. Rules of time zones are reliable well beyond.
inline constexpr int kScheduleFirstYear = 1900;
inline constexpr int kScheduleEndYear = 2300;
// How far `Occurrence::merged` counts.
inline constexpr int kMergedMax = 1000;

// One nominal occurrence of a schedule. There is at most one per instant.
struct Occurrence {
  enum class Kind {
    kPlain,
    // Its wall time does not exist on this day; it happens when the clocks are set forward.
    kGapMoved,
    // Its wall time happens for the second time; it does not.
    kFoldSuppressed,
    // Its wall time, mostly a whole day, was struck from the calendar; it does not happen.
    kSkippedCalendar,
  };

  // When it happens, or would have; a whole second.
  absl::Time at = {};
  // The wall time that was asked for; the first one, if a gap has several.
  absl::CivilSecond wall = {};
  Kind kind = Kind::kPlain;
  // Further wall times of the gap before it, which have no occurrence of their own.
  int merged = 0;
  // The gap before it is a change of the calendar: what fell into it, `merged` included, is skipped
  // and does not happen at its end.
  bool after_calendar_gap = false;

  bool Fires() const { return kind == Kind::kPlain || kind == Kind::kGapMoved; }

  friend bool operator==(const Occurrence&, const Occurrence&) = default;
};

// A schedule as people write it.
struct ScheduleText {
  // Each is due; what several ask for at one instant is due once.
  std::vector<std::string> expressions;
  // Whether expressions have six fields, the seconds first.
  bool seconds = false;
  // Whose times `~` chooses.
  std::string hash_key = {};
  // `@every` counts from here, in both directions.
  absl::Time anchor = absl::UnixEpoch();
};

// Knows no clock; copies are cheap. What it answers depends on its text, the zone's rules and the
// argument alone.
class Schedule {
 public:
  // Never due.
  Schedule() = default;
  // The error quotes the expression and says what is wrong where.
  static absl::StatusOr<Schedule> Parse(const ScheduleText& text, absl::TimeZone zone);

  // The first occurrence strictly after, and the last one strictly before `time`, those that do not
  // fire included; none outside of the years that are known.
  std::optional<Occurrence> NextAfter(absl::Time time) const;
  std::optional<Occurrence> LastBefore(absl::Time time) const;

 private:
  // A time during which the clocks of the zone are not changed, in seconds since 1970.
  struct Span {
    // The wall clock at a second of it, and the other way round.
    absl::CivilSecond WallAt(int64_t second) const;
    int64_t SecondOf(absl::CivilSecond wall) const;

    int64_t start;
    // Not part of it.
    int64_t end;
    // What the wall clock is ahead of UTC, and by how much it was set forward at the start.
    int64_t offset;
    int64_t jump;
  };

  explicit Schedule(absl::TimeZone zone) : zone_(zone) {}

  Span SpanAt(int64_t second) const;
  // The first second of `span` from that one on, and the last one up to it, at which something is
  // due, whatever becomes of it.
  std::optional<int64_t> FirstFrom(int64_t second, const Span& span) const;
  std::optional<int64_t> LastUntil(int64_t second, const Span& span) const;
  // The first wall time of the gap before `span`, if there is a gap and something in it is missed.
  std::optional<absl::CivilSecond> FirstInGap(const Span& span) const;
  // The first of the wall times in [from, until) that do not follow elapsed time.
  std::optional<absl::CivilSecond> FirstFixed(absl::CivilSecond from,
                                              absl::CivilSecond until) const;
  // Whether something happens then as it always does.
  bool IsPlainAt(int64_t second, const Span& span) const;
  // What becomes of what is due then. REQUIRES: something is.
  Occurrence At(int64_t second, const Span& span) const;

  absl::TimeZone zone_;
  std::vector<Cron> crons_;
  // Of each `@every`, in seconds.
  std::vector<int64_t> periods_;
  int64_t anchor_ = 0;
};

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_SCHEDULE_H_
