#include "libs/core/cron.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/core/hash.h"
#include "libs/core/limits.h"

namespace callboard::core {
namespace {

// The range and names of a field's values.
struct Field {
  absl::string_view name;
  int min;
  int max;
  // Number of different values. Less than max - min + 1 for days of the week, where 0 and 7 are
  // equal.
  int size;
  // Names of three letters for the values from `min` on; empty if the values have no names.
  absl::string_view names;
};

// The numbers must not change, because `~` hashes them.
enum FieldIndex { kSecond, kMinute, kHour, kDayOfMonth, kMonth, kDayOfWeek };
constexpr int kFieldCount = 6;
constexpr Field kFields[kFieldCount] = {
    {"second", 0, 59, 60, ""},
    {"minute", 0, 59, 60, ""},
    {"hour", 0, 23, 24, ""},
    {"day of month", 1, 31, 31, ""},
    {"month", 1, 12, 12, "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"},
    {"day of week", 0, 7, 7, "SUNMONTUEWEDTHUFRISAT"},
};
constexpr size_t kNameLetters = 3;
// The last day that every month has. A plain `~` chooses no later one.
constexpr int kLastDayOfAllMonths = 28;
constexpr int kDaysFromEndMax = 30;

constexpr std::pair<absl::string_view, absl::string_view> kMacros[] = {
    {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"},
    {"@weekly", "0 0 * * 0"}, {"@daily", "0 0 * * *"},    {"@midnight", "0 0 * * *"},
    {"@hourly", "0 * * * *"},
};

// The calendar repeats after 400 years. An expression without a match in these years has none at
// all.
constexpr absl::CivilSecond kCycleStart(2000);
constexpr absl::CivilSecond kCycleEnd(2400);

// Five bits that are a week apart. Shifted to the first day of a weekday in a month, they are all
// its days.
constexpr uint32_t kEverySeventhDay = 1 << 0 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28;
constexpr int kDaysPerWeek = 7;
constexpr int kBitMax = 63;

constexpr uint64_t Bit(size_t value) { return uint64_t{1} << value; }
bool Has(uint64_t set, int value) { return (set & Bit(value)) != 0; }

// Returns the member of `set` nearest to `from`, including `from`, or -1 if there is none. Here and
// below, `step` is 1 to search toward higher values and later times, and -1 for the opposite.
int NearestIn(uint64_t set, int from, int step) {
  if (from < 0 || from > kBitMax) return -1;
  if (step > 0) {
    const uint64_t beyond = set >> from << from;
    return beyond == 0 ? -1 : std::countr_zero(beyond);
  }
  const uint64_t beyond = set << (kBitMax - from) >> (kBitMax - from);
  return kBitMax - std::countl_zero(beyond);
}

int FirstOf(uint64_t set, int step) { return NearestIn(set, step > 0 ? 0 : kBitMax, step); }

// Returns true for a character that can be part of a list item.
bool IsItemCharacter(unsigned char letter) { return letter != ',' && !absl::ascii_isspace(letter); }

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", base::EscapeForError(text), "\"");
}

}  // namespace

// Parses one expression from left to right.
class Cron::Parser {
 public:
  // `text` and `dialect` outlive the parser.
  Parser(absl::string_view text, const CronDialect& dialect) : text_(text), dialect_(dialect) {}

  absl::StatusOr<Cron> Parse();

 private:
  // One item of a list: every `step`-th value of a range, or values that a hash chooses.
  struct Range {
    int low;
    int high;
    std::optional<int> step;
    bool hashed = false;
  };

  absl::Status ReadField();
  absl::Status ReadItem();
  // Reads `L` or `#n` after a day of the week. Returns false if there is neither.
  absl::StatusOr<bool> ReadWeekdayQualifier(int weekday);
  absl::StatusOr<int> ReadValue();
  // Reads a number in [min, max]. `noun` describes the number in errors if it is not a field value.
  absl::StatusOr<int> ReadNumber(int min, int max, absl::string_view noun);
  void Add(Range range);

  // Returns true if `letter` is the next character, in either case.
  bool NextIs(char letter) const;
  // Consumes `letter` if it is the next character, in either case.
  bool Consume(char letter);
  absl::string_view ConsumeWhile(bool (*belongs)(unsigned char));
  const Field& field() const { return kFields[index_]; }
  int first_index() const { return dialect_.seconds ? kSecond : kMinute; }
  bool is_day() const { return index_ == kDayOfMonth || index_ == kDayOfWeek; }
  // Returns INVALID_ARGUMENT with `problem` and its position.
  absl::Status ErrorAt(size_t at, absl::string_view problem) const;

  const absl::string_view text_;
  const CronDialect& dialect_;
  Cron cron_;
  // Position of the next character, and index of its field.
  size_t at_ = 0;
  int index_ = 0;
};

absl::StatusOr<Cron> Cron::Parser::Parse() {
  const std::vector<absl::string_view> fields =
      absl::StrSplit(text_, absl::ByAnyChar(" \t\n\v\f\r"), absl::SkipEmpty());
  const int expected = kFieldCount - first_index();
  if (static_cast<int>(fields.size()) != expected) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(text_), " has ", fields.size(), " fields instead of ", expected, ": ",
        dialect_.seconds ? "second " : "", "minute hour day-of-month month day-of-week",
        dialect_.seconds ? "" : "; a sixth, for seconds, comes first where they are switched on"));
  }
  if (!dialect_.seconds) cron_.seconds_ = Bit(0);
  for (index_ = first_index(); index_ < kFieldCount; ++index_) RETURN_IF_ERROR(ReadField());
  const auto field_text = [&](int index) { return fields[index - first_index()]; };
  const auto open = [&](int index) { return absl::StrContains("*?", field_text(index)[0]); };
  cron_.either_day_ = !open(kDayOfMonth) && !open(kDayOfWeek);
  cron_.every_hour_ = field_text(kHour) == "*";
  if (!cron_.FirstIn(kCycleStart, kCycleEnd).has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text_), " never happens: none of its months has such a day"));
  }
  return cron_;
}

absl::Status Cron::Parser::ReadField() {
  ConsumeWhile(absl::ascii_isspace);
  do {
    RETURN_IF_ERROR(ReadItem());
  } while (Consume(','));
  if (at_ == text_.size() || absl::ascii_isspace(text_[at_])) return absl::OkStatus();
  const size_t begin = at_;
  return ErrorAt(begin,
                 absl::StrCat(Quoted(ConsumeWhile(IsItemCharacter)), " does not belong here"));
}

absl::Status Cron::Parser::ReadItem() {
  Range range{.low = field().min, .high = field().min + field().size - 1, .step = {}};
  if (index_ == kDayOfMonth && Consume('L')) {
    int before = 0;
    if (Consume('-')) {
      ASSIGN_OR_RETURN(before, ReadNumber(0, kDaysFromEndMax, "L-"));
    }
    cron_.days_from_end_ |= Bit(before);
    return absl::OkStatus();
  }
  if (Consume('~')) {
    range.hashed = true;
    if (index_ == kDayOfMonth) range.high = kLastDayOfAllMonths;
  } else if (!Consume('*') && !(is_day() && Consume('?'))) {
    ASSIGN_OR_RETURN(range.low, ReadValue());
    ASSIGN_OR_RETURN(const bool some_only, ReadWeekdayQualifier(range.low % kDaysPerWeek));
    if (some_only) return absl::OkStatus();
    range.hashed = Consume('~');
    if (range.hashed || Consume('-')) {
      ASSIGN_OR_RETURN(range.high, ReadValue());
    } else if (!NextIs('/')) {
      range.high = range.low;
    }
  }
  if (Consume('/')) {
    ASSIGN_OR_RETURN(range.step, ReadNumber(1, field().size, "a step of "));
  }
  Add(range);
  return absl::OkStatus();
}

absl::StatusOr<bool> Cron::Parser::ReadWeekdayQualifier(int weekday) {
  if (index_ != kDayOfWeek) return false;
  if (Consume('L')) {
    cron_.last_weekdays_ |= Bit(weekday);
    return true;
  }
  if (!Consume('#')) return false;
  const int weeks = static_cast<int>(cron_.nth_weekdays_.size());
  ASSIGN_OR_RETURN(const int nth, ReadNumber(1, weeks, "#"));
  cron_.nth_weekdays_[nth - 1] |= Bit(weekday);
  return true;
}

absl::StatusOr<int> Cron::Parser::ReadValue() {
  const std::string name = absl::AsciiStrToUpper(text_.substr(at_, kNameLetters));
  for (size_t i = 0; i < field().names.size(); i += kNameLetters) {
    if (field().names.substr(i, kNameLetters) != name) continue;
    at_ += kNameLetters;
    return field().min + static_cast<int>(i / kNameLetters);
  }
  return ReadNumber(field().min, field().max, "");
}

absl::StatusOr<int> Cron::Parser::ReadNumber(int min, int max, absl::string_view noun) {
  const size_t begin = at_;
  const absl::string_view digits = ConsumeWhile(absl::ascii_isdigit);
  int number = 0;
  if (absl::SimpleAtoi(digits, &number) && number >= min && number <= max) return number;
  std::string allowed = absl::StrCat(min, "-", max);
  if (const absl::string_view names = field().names; noun.empty() && !names.empty()) {
    absl::StrAppend(&allowed, " or ", names.substr(0, kNameLetters), "-",
                    names.substr(names.size() - kNameLetters));
  }
  if (!digits.empty()) {
    return ErrorAt(begin, absl::StrCat(noun, base::EscapeForError(digits), " is not in ", allowed));
  }
  const absl::string_view word = ConsumeWhile(IsItemCharacter);
  return ErrorAt(begin, word.empty() ? absl::StrCat(allowed, " is missing")
                                     : absl::StrCat(Quoted(word), " is not in ", allowed));
}

void Cron::Parser::Add(Range range) {
  // 7 means Sunday, like 0. A range that begins with Sunday begins with 0.
  if (range.low == kDaysPerWeek && index_ == kDayOfWeek) {
    range.low = 0;
    range.high %= kDaysPerWeek;
  }
  if (range.high < range.low) range.high += field().size;
  if (range.hashed) {
    const int count = range.high - range.low + 1;
    const uint64_t hash = StableHash().Add(dialect_.hash_key).Add(index_).value();
    range.low += static_cast<int>(hash % std::min(count, range.step.value_or(count)));
    if (!range.step.has_value()) range.high = range.low;
  }
  uint64_t* const sets[kFieldCount] = {&cron_.seconds_,       &cron_.minutes_, &cron_.hours_,
                                       &cron_.days_of_month_, &cron_.months_,  &cron_.weekdays_};
  for (int value = range.low; value <= range.high; value += range.step.value_or(1)) {
    *sets[index_] |= Bit(field().min + (value - field().min) % field().size);
  }
}

bool Cron::Parser::NextIs(char letter) const {
  return at_ < text_.size() && absl::ascii_toupper(text_[at_]) == letter;
}

bool Cron::Parser::Consume(char letter) {
  if (!NextIs(letter)) return false;
  ++at_;
  return true;
}

absl::string_view Cron::Parser::ConsumeWhile(bool (*belongs)(unsigned char)) {
  const size_t begin = at_;
  while (at_ < text_.size() && belongs(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

absl::Status Cron::Parser::ErrorAt(size_t at, absl::string_view problem) const {
  return absl::InvalidArgumentError(absl::StrCat(field().name, ": ", problem, " (field ",
                                                 index_ - first_index() + 1, ", column ", at + 1,
                                                 " of ", Quoted(text_), ")"));
}

absl::StatusOr<Cron> Cron::Parse(absl::string_view text, const CronDialect& dialect) {
  if (text.size() > kCronBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("a cron expression has ", text.size(),
                                                   " bytes; ", kCronBytesMax, " are allowed"));
  }
  const absl::string_view macro = absl::StripAsciiWhitespace(text);
  if (!absl::StartsWith(macro, "@")) return Parser(text, dialect).Parse();
  std::vector<absl::string_view> known;
  for (const auto& [name, expression] : kMacros) {
    if (absl::EqualsIgnoreCase(macro, name)) return Parser(expression, {}).Parse();
    known.push_back(name);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      Quoted(text), " is not one of ", absl::StrJoin(known, ", "), ", @every <duration>"));
}

std::optional<absl::CivilSecond> Cron::FirstIn(absl::CivilSecond from,
                                               absl::CivilSecond until) const {
  return Nearest(from, until - 1, 1);
}

std::optional<absl::CivilSecond> Cron::LastIn(absl::CivilSecond from,
                                              absl::CivilSecond until) const {
  return Nearest(until - 1, from, -1);
}

uint32_t Cron::DaysIn(absl::CivilMonth month) const {
  if (!Has(months_, month.month())) return 0;
  const absl::CivilDay first(month);
  const int length = static_cast<int>(absl::CivilDay(month + 1) - first);
  const uint32_t all = (uint32_t{2} << length) - 2;
  uint32_t by_date = days_of_month_ & all;
  for (int before = 0; before < length; ++before) {
    if (Has(days_from_end_, before)) by_date |= Bit(length - before);
  }
  // Abseil's week begins with Monday.
  const int first_weekday = static_cast<int>(absl::GetWeekday(first)) + 1;
  uint32_t by_weekday = 0;
  for (int weekday = 0; weekday < kDaysPerWeek; ++weekday) {
    const int day = 1 + (weekday - first_weekday + kDaysPerWeek) % kDaysPerWeek;
    const uint32_t days = kEverySeventhDay << day & all;
    if (Has(weekdays_, weekday)) by_weekday |= days;
    if (Has(last_weekdays_, weekday)) by_weekday |= std::bit_floor(days);
    for (size_t week = 0; week < nth_weekdays_.size(); ++week) {
      if (Has(nth_weekdays_[week], weekday)) by_weekday |= Bit(day + kDaysPerWeek * week) & all;
    }
  }
  return either_day_ ? by_date | by_weekday : by_date & by_weekday;
}

std::optional<absl::CivilSecond> Cron::TimeOfDay(absl::CivilSecond start, int step) const {
  const auto at = [&](int hour, int minute, int second) {
    return absl::CivilSecond(start.year(), start.month(), start.day(), hour, minute, second);
  };
  if (Has(hours_, start.hour())) {
    if (Has(minutes_, start.minute())) {
      const int second = NearestIn(seconds_, start.second(), step);
      if (second >= 0) return at(start.hour(), start.minute(), second);
    }
    const int minute = NearestIn(minutes_, start.minute() + step, step);
    if (minute >= 0) return at(start.hour(), minute, FirstOf(seconds_, step));
  }
  const int hour = NearestIn(hours_, start.hour() + step, step);
  if (hour < 0) return std::nullopt;
  return at(hour, FirstOf(minutes_, step), FirstOf(seconds_, step));
}

std::optional<absl::CivilSecond> Cron::Nearest(absl::CivilSecond start, absl::CivilSecond end,
                                               int step) const {
  const absl::CivilMonth end_month(end);
  for (absl::CivilMonth month(start); (end_month - month) * step >= 0; month += step) {
    const uint32_t days = DaysIn(month);
    const bool whole = month != absl::CivilMonth(start);
    for (int day = whole ? FirstOf(days, step) : NearestIn(days, start.day(), step); day >= 0;
         day = NearestIn(days, day + step, step)) {
      const absl::CivilDay date(month.year(), month.month(), day);
      const absl::CivilSecond midnight(step > 0 ? date : date + 1);
      const absl::CivilSecond from = date == absl::CivilDay(start) ? start
                                     : step > 0                    ? midnight
                                                                   : midnight - 1;
      const std::optional<absl::CivilSecond> time = TimeOfDay(from, step);
      if (time.has_value()) return (end - *time) * step >= 0 ? time : std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace callboard::core
