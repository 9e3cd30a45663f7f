#ifndef CALLBOARD_LIBS_ADAPTERS_SYSTEM_MACHINE_SYSTEM_MACHINE_H_
#define CALLBOARD_LIBS_ADAPTERS_SYSTEM_MACHINE_SYSTEM_MACHINE_H_

#include <filesystem>

#include "libs/flow/limits.h"

namespace callboard::adapters {

// What this process may use: the machine, or what its container leaves of it.
flow::Machine ThisMachine();

// `machine`, with the limits that control groups (version 2 or 1) mounted at `folder` set.
flow::Machine WithinGroup(flow::Machine machine, const std::filesystem::path& folder);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SYSTEM_MACHINE_SYSTEM_MACHINE_H_
