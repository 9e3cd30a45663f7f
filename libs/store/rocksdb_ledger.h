// The ledger of a scheduler in RocksDB, and the keys and values of its records, which
// docs/FORMAT.md describes.

#ifndef CALLBOARD_LIBS_STORE_ROCKSDB_LEDGER_H_
#define CALLBOARD_LIBS_STORE_ROCKSDB_LEDGER_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/files.h"
#include "libs/core/job.h"
#include "libs/scheduler/ledger.h"
#include "libs/store/store_files.h"

namespace callboard::store {

// ---- Keys and values ----

// Prefixes of the keys of each kind of record.
inline constexpr absl::string_view kJobPrefix = "job/";
inline constexpr absl::string_view kIntentPrefix = "intent/";
inline constexpr absl::string_view kBackfillPrefix = "backfill/";
inline constexpr absl::string_view kRowPrefix = "row/";

// The parts of the key of an intent or a row. The trigger is set only in rows of triggers.
struct OccurrenceId {
  std::string job = {};
  absl::Time nominal = {};
  std::string trigger = {};

  friend bool operator==(const OccurrenceId&, const OccurrenceId&) = default;
};

// Returns the key of an occurrence. Keys sort by job, then by time, then by trigger.
// REQUIRES: `job` contains no NUL, and `nominal` is a whole second.
std::string OccurrenceKey(absl::string_view prefix, absl::string_view job, absl::Time nominal,
                          absl::string_view trigger = "");
// Returns a key after all keys of the job and before those of the next job.
std::string KeyAfterJob(absl::string_view prefix, absl::string_view job);
// Returns null for a key that OccurrenceKey() cannot have written.
std::optional<OccurrenceId> ParseOccurrenceKey(absl::string_view prefix, absl::string_view key);

std::string Encode(const core::Firing& row);
std::string Encode(const scheduler::JobState& state);
std::string Encode(const scheduler::Intent& intent);
std::string Encode(const scheduler::Backfill& backfill);

// Decodes a row. Returns StoreRefusedError(), which names the key, when this version does not
// understand it.
absl::StatusOr<core::Firing> DecodeRow(absl::string_view key, absl::string_view value);
// Decodes a record of any other kind and adds it to `contents`. Fails like DecodeRow().
// REQUIRES: the key is not the key of a row.
absl::Status Decode(absl::string_view key, absl::string_view value,
                    scheduler::LedgerContents& contents);

// Version of the keys and values. Only this version can be read.
inline constexpr uint32_t kLedgerFormat = 2;

// ---- The ledger ----

// Opens the ledger in RocksDB. Holds the lock of the data folder: while the object lives, no other
// process can open the ledger.
class RocksDbLedgerOpener final : public scheduler::LedgerOpener {
 public:
  // Locks the data folder, whose files docs/FORMAT.md describes. Returns FAILED_PRECONDITION,
  // reason ports::kStoreLocked, when another process holds the lock. Creates no file other than the
  // lock. REQUIRES: `data_dir` exists.
  static absl::StatusOr<std::unique_ptr<RocksDbLedgerOpener>> Lock(
      const std::filesystem::path& data_dir);

  // Opens the ledger. When there is no ledger, creates one, or returns NOT_FOUND when this object
  // has opened the ledger before. Returns UNAVAILABLE when the lock file was removed.
  //
  // These errors have the reason ports::kStoreRefused and leave the disk unchanged: DATA_LOSS when
  // committed data is missing or damaged; FAILED_PRECONDITION when a newer version wrote the
  // ledger.
  absl::StatusOr<std::unique_ptr<scheduler::Ledger>> Open() override;

 private:
  RocksDbLedgerOpener(StoreFiles files, base::Descriptor lock);

  const StoreFiles files_;
  const base::Descriptor lock_;
  bool has_opened_ = false;
};

}  // namespace callboard::store

#endif  // CALLBOARD_LIBS_STORE_ROCKSDB_LEDGER_H_
