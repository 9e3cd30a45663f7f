#ifndef CALLBOARD_LIBS_CORE_ULID_H_
#define CALLBOARD_LIBS_CORE_ULID_H_

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace callboard::core {

// 128 bits that name something for good: 48 of milliseconds since 1970, 80 of chance. Sorts by time
// to the millisecond. Written as 26 characters of Crockford's base 32, here in lower case.
class Ulid {
 public:
  Ulid() = default;
  constexpr Ulid(uint64_t high, uint64_t low) : high_(high), low_(low) {}

  // The id of a moment. Times before 1970 count as 1970; `chance` gives its lower 80 bits.
  static Ulid At(absl::Time now, std::array<uint64_t, 2> chance);

  // The same, but larger than `last` whatever the clock says: then it is close behind.
  static Ulid After(Ulid last, absl::Time now, std::array<uint64_t, 2> chance);

  // Null for what ToString() does not write.
  static std::optional<Ulid> Parse(absl::string_view text);

  std::string ToString() const;

  uint64_t high() const { return high_; }
  uint64_t low() const { return low_; }

  friend auto operator<=>(const Ulid&, const Ulid&) = default;
  template <class H>
  friend H AbslHashValue(H state, const Ulid& ulid) {
    return H::combine(std::move(state), ulid.high_, ulid.low_);
  }
  friend std::ostream& operator<<(std::ostream& out, const Ulid& ulid) {
    return out << ulid.ToString();
  }

 private:
  uint64_t high_ = 0;
  uint64_t low_ = 0;
};

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_ULID_H_
