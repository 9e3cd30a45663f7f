#ifndef CALLBOARD_LIBS_CORE_FINGERPRINT_H_
#define CALLBOARD_LIBS_CORE_FINGERPRINT_H_

#include <array>
#include <cstdint>

#include "libs/core/task.h"

namespace callboard::core {

// Stands for what a submitter asked for: two submits with the same request id are the same submit
// if their fingerprints are equal. The same in every version that stores it.
using Fingerprint = std::array<uint64_t, 2>;

Fingerprint FingerprintOf(const TaskSpec& spec);

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_FINGERPRINT_H_
