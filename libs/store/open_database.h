// Opening the database of a store, and the checks that a store must pass before.

#ifndef CALLBOARD_LIBS_STORE_OPEN_DATABASE_H_
#define CALLBOARD_LIBS_STORE_OPEN_DATABASE_H_

#include <rocksdb/db.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/ports/event_store.h"
#include "libs/store/database.h"
#include "libs/store/store_files.h"

namespace callboard::store {

// Version of the keys and values. Only this version can be read.
inline constexpr uint32_t kFormat = 3;

// High water of a store that is being created. Nothing has been committed yet, so a missing
// database is no loss. The high water of a complete store is greater: the format is written first.
inline constexpr uint64_t kBeingCreated = 0;

struct OpenedDatabase {
  std::unique_ptr<rocksdb::DB> db;
  // Null when the database is open for reading only. Advance it after each write.
  std::unique_ptr<HighWater> high_water;
};

// Opens the database of `files`, after checking that no committed write is missing and that its
// format is `format`.
//
// When there is no database, creates one if `access` allows writing, else returns NOT_FOUND. A call
// that fails one of the checks changes nothing on disk. REQUIRES: the folder is locked.
absl::StatusOr<OpenedDatabase> OpenDatabase(const StoreFiles& files, ports::StoreAccess access,
                                            uint32_t format);

// ---- Checks of a store before it is used ----

// Returns the NOT_FOUND error for a folder without a store.
absl::Status NoStoreError(const StoreFiles& files);

// Returns OK when the folder contains any file of a store. Call it before creating anything, even
// the lock, in a folder that may have been named by mistake.
absl::Status CheckIsStore(const StoreFiles& files);

// Returns the high water, or null when there is no store. Returns StoreRefusedError() when either
// the database or the high water is missing.
absl::StatusOr<std::optional<uint64_t>> FindHighWater(const StoreFiles& files);

// Returns StoreRefusedError() when committed writes are missing: when the database ends before
// `high_water`, the sequence of the last committed write.
absl::Status CheckComplete(const ReadOnlyDatabase& database, const StoreFiles& files,
                           uint64_t high_water);

// Returns OK if the database has that format; else FAILED_PRECONDITION, reason
// ports::kStoreRefused.
absl::Status CheckFormat(rocksdb::DB& db, const StoreFiles& files, uint32_t format = kFormat);

// Adds the next step to a DATA_LOSS error; returns other statuses unchanged.
absl::Status WithAdvice(const StoreFiles& files, const absl::Status& status);

}  // namespace callboard::store

#endif  // CALLBOARD_LIBS_STORE_OPEN_DATABASE_H_
