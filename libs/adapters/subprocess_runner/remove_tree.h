#ifndef CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_REMOVE_TREE_H_
#define CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_REMOVE_TREE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace callboard::adapters {

inline constexpr uint64_t kRemovedEntriesMax = 10'000'000;

// Removes a folder and all that is in it, whatever somebody hostile left there: follows no link,
// opens what is closed to its owner, and needs few descriptors at any depth. RESOURCE_EXHAUSTED
// with more than `entries_max` entries, of which so many are gone. FAILED_PRECONDITION when
// something is mounted in there, or on it: the rest is removed, the mount and what is in it stay.
// OK when there is no such folder.
absl::Status RemoveTree(const std::string& folder, uint64_t entries_max = kRemovedEntriesMax);

// Levels of folders that KeepFilesOnly() visits.
inline constexpr int kKeptLevelsMax = 200;

// Removes from a folder, at all levels, whatever is neither a regular file nor a folder: links,
// devices, pipes, sockets. RESOURCE_EXHAUSTED with more than kKeptLevelsMax levels,
// FAILED_PRECONDITION when something is mounted in there.
absl::Status KeepFilesOnly(const std::string& folder);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_REMOVE_TREE_H_
