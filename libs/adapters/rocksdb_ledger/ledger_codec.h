// What a ledger keeps, as it lies in RocksDB: one key and one value each. docs/FORMAT.md describes
// both.
#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_LEDGER_LEDGER_CODEC_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_LEDGER_LEDGER_CODEC_H_

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/core/firing.h"
#include "libs/scheduler/ledger.h"

namespace callboard::adapters {

// What the keys of each kind begin with.
inline constexpr absl::string_view kJobPrefix = "job/";
inline constexpr absl::string_view kIntentPrefix = "intent/";
inline constexpr absl::string_view kBackfillPrefix = "backfill/";
inline constexpr absl::string_view kRowPrefix = "row/";

// What the key of an occurrence or of a row says. The trigger is empty but in rows of triggers.
struct OccurrenceName {
  std::string job = {};
  absl::Time nominal = {};
  std::string trigger = {};

  friend bool operator==(const OccurrenceName&, const OccurrenceName&) = default;
};

// Sorts by job, then by time, then by trigger. REQUIRES: the job has no NUL in it, and the time is
// a whole second.
std::string OccurrenceKey(absl::string_view prefix, absl::string_view job, absl::Time nominal,
                          absl::string_view trigger = "");
// Behind all keys of the job, and before those of the next.
std::string KeyAfterJob(absl::string_view prefix, absl::string_view job);
// Null for a key that OccurrenceKey() does not write.
std::optional<OccurrenceName> ParseOccurrenceKey(absl::string_view prefix, absl::string_view key);

std::string Encode(const core::Firing& row);
std::string Encode(const scheduler::JobState& state);
std::string Encode(const scheduler::Intent& intent);
std::string Encode(const scheduler::Backfill& backfill);

// StoreRefused(), naming the key, for what this version does not understand.
absl::StatusOr<core::Firing> DecodeRow(absl::string_view key, absl::string_view value);
// Puts what the key stands for where it belongs. REQUIRES: it is not a row's.
absl::Status Decode(absl::string_view key, absl::string_view value, scheduler::Ledgered& ledgered);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_LEDGER_LEDGER_CODEC_H_
