// How one store takes the place of another, whatever happens meanwhile.
//
// A store that is complete, in a folder `restored-<time>` of the data folder, is the store from the
// moment the folder has this name: whoever opens the data folder first puts its files in place, and
// those that were there into `damaged-<time>`.
#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORE_SWAP_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORE_SWAP_H_

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/adapters/rocksdb_store/store_files.h"

namespace callboard::adapters {

// Called before each step that changes the disk; an error ends the work there, as a crash would.
using BeforeStep = std::function<absl::Status()>;

// The new store that waits to be put in place; null when there is none.
absl::StatusOr<std::optional<std::filesystem::path>> FindReadyStore(const StoreFiles& files);

// Puts a store that waits in place, if there is one. May be called again after it was cut short.
// REQUIRES: the folder is locked, and its store not open.
absl::Status FinishSwap(const StoreFiles& files, const BeforeStep& before = nullptr);

// Puts the store in `files.restoring()` in place. Returns the folder with the old one; empty when
// there was none. REQUIRES: as for FinishSwap(); what is in `files.restoring()` survives a crash.
absl::StatusOr<std::filesystem::path> Swap(const StoreFiles& files, absl::Time now,
                                           const BeforeStep& before);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORE_SWAP_H_
