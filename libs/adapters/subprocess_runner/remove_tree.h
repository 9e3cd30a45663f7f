#ifndef CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_REMOVE_TREE_H_
#define CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_REMOVE_TREE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace callboard::adapters {

inline constexpr uint64_t kRemovedEntriesMax = 10'000'000;

// Removes a folder and all that is in it, whatever somebody hostile left there: follows no link,
// opens what is closed to its owner, and needs two descriptors at any depth. RESOURCE_EXHAUSTED
// with more than `entries_max` entries, of which so many are gone. OK when there is no such folder.
absl::Status RemoveTree(const std::string& folder, uint64_t entries_max = kRemovedEntriesMax);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_REMOVE_TREE_H_
