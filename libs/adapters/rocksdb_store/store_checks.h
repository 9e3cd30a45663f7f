// What is looked at before a store is trusted.
#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORE_CHECKS_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORE_CHECKS_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/adapters/rocksdb_store/database.h"
#include "libs/adapters/rocksdb_store/store_files.h"

namespace callboard::adapters {

// The version of keys and values that is written. All up to it are read.
inline constexpr uint32_t kFormat = 2;

// What the high water says while a store is being created: nothing has been committed yet, so a
// missing database is no loss. A finished one has at least its format in it.
inline constexpr uint64_t kBeingCreated = 0;

// NOT_FOUND.
absl::Status NoStoreIn(const StoreFiles& files);

// OK when there is something of a store. Asked before anything, as a lock, is made in a folder that
// may have been named by mistake.
absl::Status CheckIsStore(const StoreFiles& files);

// What the high water says; null when there is no store. StoreRefused() when half of it is missing.
absl::StatusOr<std::optional<uint64_t>> FindHighWater(const StoreFiles& files);

// Whether all is there that was committed. `high_water` is what was written last.
absl::Status CheckComplete(const ReadOnlyDatabase& database, const StoreFiles& files,
                           uint64_t high_water);

// FAILED_PRECONDITION, reason ports::kStoreRefused, for one that a newer version wrote. `newest`:
// the last that this version knows.
absl::StatusOr<uint32_t> ReadFormat(rocksdb::DB& db, const StoreFiles& files,
                                    uint32_t newest = kFormat);

// To what was lost, adds what to do about it.
absl::Status WithAdvice(const StoreFiles& files, const absl::Status& status);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORE_CHECKS_H_
