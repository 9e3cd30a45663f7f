// Replacing a store, so that a crash at any moment leaves one of the two complete.
//
// The new store is built in another folder, which is then renamed to `restored-<time>` in the data
// folder. The rename is the commit: from then on the new store is the valid one. The next process
// that opens the data folder moves the old files to `damaged-<time>` and the new ones into place.

#ifndef CALLBOARD_LIBS_STORE_STORE_SWAP_H_
#define CALLBOARD_LIBS_STORE_STORE_SWAP_H_

#include <filesystem>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/store/store_files.h"

namespace callboard::store {

// Called before each step that changes the disk. An error stops the work there, like a crash.
using StepHook = std::function<absl::Status()>;

// Returns the `restored-<time>` folder whose files are not all in place yet, or null.
absl::StatusOr<std::optional<std::filesystem::path>> FindInterruptedRestore(
    const StoreFiles& files);

// Moves the files of an interrupted restore into place, if there is one. Can be repeated when it
// was interrupted itself. REQUIRES: the folder is locked, and its store is not open.
absl::Status FinishSwap(const StoreFiles& files, const StepHook& before_step = nullptr);

// Replaces the store with the one in `files.restoring()`. Returns the folder that the old store was
// moved to; empty when there was none. REQUIRES: as for FinishSwap(); in addition, the content of
// `files.restoring()` is synced.
absl::StatusOr<std::filesystem::path> SwapStores(const StoreFiles& files, absl::Time now,
                                                 const StepHook& before_step);

}  // namespace callboard::store

#endif  // CALLBOARD_LIBS_STORE_STORE_SWAP_H_
