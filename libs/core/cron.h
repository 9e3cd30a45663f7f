// A cron expression: the wall times it asks for, without a time zone. docs/CRON.md has the
// language.
#ifndef CALLBOARD_LIBS_CORE_CRON_H_
#define CALLBOARD_LIBS_CORE_CRON_H_

#include <array>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/civil_time.h"

namespace callboard::core {

// What beside its text decides what an expression means.
struct CronDialect {
  // Six fields, the seconds first, instead of five.
  bool seconds = false;
  // Whose times `~` chooses: the same for the same key, spread over different ones.
  absl::string_view hash_key = {};
};

// A value: for each field the set of what matches.
class Cron {
 public:
  // The error names the field, the column and what is allowed there. An expression that no date
  // satisfies, as `0 0 30 2 *`, is one. Macros are expressions; `@every` has no wall times and is
  // none.
  static absl::StatusOr<Cron> Parse(absl::string_view text, const CronDialect& dialect);

  // The first and the last wall time at or after `from` and before `until`, if there is one. The
  // effort grows with the months in between, whatever the expression.
  std::optional<absl::CivilSecond> FirstIn(absl::CivilSecond from, absl::CivilSecond until) const;
  std::optional<absl::CivilSecond> LastIn(absl::CivilSecond from, absl::CivilSecond until) const;

  // Whether the hour field is exactly `*`: then it means elapsed time more than hours of a day.
  bool every_hour() const { return every_hour_; }

 private:
  class Parser;

  Cron() = default;

  // The matching days of a month: bit n is day n.
  uint32_t DaysIn(absl::CivilMonth month) const;
  // The nearest match from `start` to `end`, both included, and on the day of `start`. `step` is 1
  // toward later times and -1 toward earlier ones.
  std::optional<absl::CivilSecond> Nearest(absl::CivilSecond start, absl::CivilSecond end,
                                           int step) const;
  std::optional<absl::CivilSecond> TimeOfDay(absl::CivilSecond start, int step) const;

  // Bit n is the value n.
  uint64_t seconds_ = 0;
  uint64_t minutes_ = 0;
  uint64_t hours_ = 0;
  uint64_t days_of_month_ = 0;
  uint64_t months_ = 0;
  // Sunday is 0.
  uint64_t weekdays_ = 0;
  // Bit n is the day n days before the last of the month.
  uint64_t days_from_end_ = 0;
  // Weekdays of which only the last, or only the first, second, … of the month counts.
  uint64_t last_weekdays_ = 0;
  std::array<uint64_t, 5> nth_weekdays_ = {};
  // Whether one of the two day fields is enough.
  bool either_day_ = false;
  bool every_hour_ = false;
};

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_CRON_H_
