// Cron expressions over wall times, without a time zone. docs/CRON.md describes the language.
#ifndef CALLBOARD_LIBS_CORE_CRON_H_
#define CALLBOARD_LIBS_CORE_CRON_H_

#include <array>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/civil_time.h"

namespace callboard::core {

// Options that change the meaning of an expression.
struct CronDialect {
  // Expressions have six fields, seconds first, instead of five.
  bool seconds = false;
  // Selects the values of `~`: equal keys get equal values, different keys are spread.
  absl::string_view hash_key = {};
};

// A parsed expression: for each field, the set of matching values. An immutable value type.
class Cron {
 public:
  // Parses an expression or a macro. Returns INVALID_ARGUMENT, naming the field, the column and the
  // allowed values, for a syntax error, and for an expression that no date satisfies, such as
  // `0 0 30 2 *`. `@every` has no wall times and is not accepted here.
  static absl::StatusOr<Cron> Parse(absl::string_view text, const CronDialect& dialect);

  // Return the first and the last matching wall time in [from, until), if there is one. The cost is
  // linear in the number of months between, for every expression.
  std::optional<absl::CivilSecond> FirstIn(absl::CivilSecond from, absl::CivilSecond until) const;
  std::optional<absl::CivilSecond> LastIn(absl::CivilSecond from, absl::CivilSecond until) const;

  // Returns true if the hour field is exactly `*`. Such an expression follows elapsed time when
  // clocks are changed (docs/CRON.md).
  bool every_hour() const { return every_hour_; }

 private:
  class Parser;

  Cron() = default;

  // Returns the matching days of a month: bit n is day n.
  uint32_t DaysIn(absl::CivilMonth month) const;
  // Return the match nearest to `start`: Nearest() up to and including `end`, TimeOfDay() on the
  // day of `start`. `step` is 1 to search forward and -1 to search backward.
  std::optional<absl::CivilSecond> Nearest(absl::CivilSecond start, absl::CivilSecond end,
                                           int step) const;
  std::optional<absl::CivilSecond> TimeOfDay(absl::CivilSecond start, int step) const;

  // Sets of matching values: bit n is the value n.
  uint64_t seconds_ = 0;
  uint64_t minutes_ = 0;
  uint64_t hours_ = 0;
  uint64_t days_of_month_ = 0;
  uint64_t months_ = 0;
  // Sunday is 0.
  uint64_t weekdays_ = 0;
  // Bit n is the day that is n days before the last day of the month.
  uint64_t days_from_end_ = 0;
  // Weekdays that match only on their last, or only on their n-th, occurrence in the month.
  uint64_t last_weekdays_ = 0;
  std::array<uint64_t, 5> nth_weekdays_ = {};
  // True if a day matches when either of the two day fields matches.
  bool either_day_ = false;
  bool every_hour_ = false;
};

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_CRON_H_
