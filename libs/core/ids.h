// Identifiers of tasks and of their dispatches, and the ULIDs that they are made of.

#ifndef CALLBOARD_LIBS_CORE_IDS_H_
#define CALLBOARD_LIBS_CORE_IDS_H_

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/value_types.h"

namespace callboard::core {

// A universally unique, sortable identifier (ULID) of 128 bits: 48 bits of milliseconds since 1970
// and 80 random bits. Ulids sort by time, to the millisecond. Written as 26 characters of
// Crockford's base 32, here in lower case.
class Ulid {
 public:
  Ulid() = default;
  constexpr Ulid(uint64_t high, uint64_t low) : high_(high), low_(low) {}

  // Makes an id of the time `now`. Times before 1970 count as 1970. `random` is the source of the
  // lower 80 bits.
  static Ulid At(absl::Time now, std::array<uint64_t, 2> random);

  // Like At(), but always returns an id larger than `last`. If `now` is not later than the time of
  // `last`, the id is a random small step above `last`.
  static Ulid After(Ulid last, absl::Time now, std::array<uint64_t, 2> random);

  // Returns null for a text that ToString() does not produce.
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

// Identifies a task; written `queue-<ulid>`. Never reused.
using QueueId = base::StrongId<struct QueueIdTag, Ulid>;

std::string ToString(QueueId id);
// Returns null for a text that ToString() does not produce.
std::optional<QueueId> ParseQueueId(absl::string_view text);

// Counts the dispatches of a task, from 1.
using DispatchNumber = base::StrongId<struct DispatchNumberTag, uint64_t>;

// Formats the id of one dispatch: `task-<ulid>-<dispatch>`.
std::string TaskIdText(QueueId id, DispatchNumber dispatch);
// Returns null for a text that TaskIdText() does not produce.
std::optional<std::pair<QueueId, DispatchNumber>> ParseTaskId(absl::string_view text);

// Identifies one dispatch by one director. A message with a fence token applies to that dispatch
// only, so messages about an outdated dispatch can be recognized.
struct FenceToken {
  QueueId queue_id;
  DispatchNumber dispatch;
  // Increases whenever the director starts or reopens its store.
  uint64_t director_epoch = 0;

  friend auto operator<=>(const FenceToken&, const FenceToken&) = default;
};

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_IDS_H_
