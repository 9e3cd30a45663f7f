// How a store that a director refuses becomes one that it opens.
#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_RESTORE_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_RESTORE_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/adapters/rocksdb_store/store_survey.h"
#include "libs/adapters/rocksdb_store/store_swap.h"

namespace callboard::adapters {

// Both fail with FAILED_PRECONDITION, reason ports::kStoreLocked, when a director uses the folder.
// One that is interrupted leaves the old store or the new one to the next opening.
struct RestoreOptions {
  std::filesystem::path data_dir;
  // Names what is set aside.
  absl::Time now;
  Progress progress = nullptr;
  // For tests.
  BeforeStep before = nullptr;
};

struct Restored {
  uint64_t tasks = 0;
  // The last write that is in it.
  uint64_t sequence = 0;
  // Where the old store is now; empty when there was none.
  std::filesystem::path aside;
};

// Puts a copy of the checkpoint in place of the store; makes the folder if it is missing. DATA_LOSS
// when the checkpoint is damaged, NOT_FOUND when it is none; then nothing has changed.
absl::StatusOr<Restored> RestoreCheckpoint(const RestoreOptions& options,
                                           const std::filesystem::path& checkpoint);

struct AcceptedLoss {
  // What was damaged or missing; none when the store was whole, and was left as it is.
  std::vector<std::string> findings;
  // What was committed after this one is lost,
  uint64_t sequence = 0;
  // up to this one; null when that is not known.
  std::optional<uint64_t> high_water;
  uint64_t tasks = 0;
  // Where the damaged store is now; empty when it stayed where it was.
  std::filesystem::path aside;
};

// Makes of what can be read of a damaged store one that a director opens: where only the end of the
// log is lost by forgetting that there was more, else by copying what is left. DATA_LOSS when
// nothing can be read.
absl::StatusOr<AcceptedLoss> AcceptLoss(const RestoreOptions& options);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_RESTORE_H_
