// Checkpoints of a store, restores from them, and repairs of a store that a director refuses to
// open.

#ifndef CALLBOARD_LIBS_STORE_RESTORE_H_
#define CALLBOARD_LIBS_STORE_RESTORE_H_

#include <rocksdb/db.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/ports/event_store.h"
#include "libs/store/store_files.h"
#include "libs/store/store_folder.h"
#include "libs/store/store_swap.h"

namespace callboard::store {

// Copies the database into a new data folder `name` under `files.checkpoints()`, completely or not
// at all. Removes the remains of a call that was interrupted.
//
// Returns ALREADY_EXISTS when there is a checkpoint of this name, and INVALID_ARGUMENT when `name`
// is not a valid file name, begins with a dot, or is longer than 128 bytes.
// REQUIRES: no other call for the same files is running.
absl::StatusOr<ports::Checkpoint> CreateCheckpoint(rocksdb::DB& db, const StoreFiles& files,
                                                   const std::string& name);

// ---- Restoring and repairing ----

// Options of RestoreCheckpoint() and AcceptLoss(). Both return FAILED_PRECONDITION, reason
// ports::kStoreLocked, when a director uses the folder. After an interrupted call, the next opening
// finds either the old store or the new one, complete.
struct RestoreOptions {
  std::filesystem::path data_dir;
  // Part of the name of the folder that the old store is moved to.
  absl::Time now;
  ProgressCallback progress = nullptr;
  // For tests.
  StepHook before_step = nullptr;
};

struct RestoreResult {
  uint64_t tasks = 0;
  // The last write in the restored store.
  uint64_t sequence = 0;
  // Folder that the old store was moved to; empty when there was none.
  std::filesystem::path aside;
};

// Replaces the store with a copy of the checkpoint; creates the data folder if it is missing.
// Returns DATA_LOSS when the checkpoint is damaged, and NOT_FOUND when `checkpoint` holds no store;
// both leave the data folder unchanged.
absl::StatusOr<RestoreResult> RestoreCheckpoint(const RestoreOptions& options,
                                                const std::filesystem::path& checkpoint);

struct AcceptLossResult {
  // Descriptions of all damage. Empty when the store was undamaged; then it was not changed.
  std::vector<std::string> findings;
  // Writes after `sequence`, up to and including `high_water`, are lost. `high_water` is null when
  // it is not known.
  uint64_t sequence = 0;
  std::optional<uint64_t> high_water;
  // Number of tasks that were kept.
  uint64_t tasks = 0;
  // Folder that the damaged store was moved to; empty when it was repaired in place.
  std::filesystem::path aside;
};

// Repairs a damaged store so that a director opens it, and gives up everything that cannot be read.
// When only the end of the log is lost, lowers the high water; else copies all readable records to
// a new store. Returns DATA_LOSS when nothing can be read.
absl::StatusOr<AcceptLossResult> AcceptLoss(const RestoreOptions& options);

}  // namespace callboard::store

#endif  // CALLBOARD_LIBS_STORE_RESTORE_H_
