// Who may use a data folder.
#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORE_LOCK_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORE_LOCK_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/adapters/rocksdb_store/store_files.h"

namespace callboard::adapters {

// UNAVAILABLE, with the folder and this process's user, when the user may not look into the folder.
// A folder that does not exist passes.
absl::Status CheckReadable(const StoreFiles& files);

// Both fail with FAILED_PRECONDITION, reason ports::kStoreLocked, when another process has the
// folder. A lock lasts as long as the file it returns.

// Keeps everybody else out. Creates nothing but the lock.
absl::StatusOr<File> LockToWrite(const StoreFiles& files);

// Keeps those out who want to write. Nothing is returned, and nobody kept out, where there is no
// lock and none can be made: on a medium, or in a folder, that this process cannot write to, as a
// checkpoint that was stored away. A lock that is there and cannot be opened is an error, which
// says as CheckReadable() does when it is another user's.
absl::StatusOr<std::optional<File>> LockToRead(const StoreFiles& files);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORE_LOCK_H_
