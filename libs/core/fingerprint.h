#ifndef CALLBOARD_LIBS_CORE_FINGERPRINT_H_
#define CALLBOARD_LIBS_CORE_FINGERPRINT_H_

#include <compare>
#include <cstdint>

#include "libs/core/task.h"

namespace callboard::core {

// Stands for what a submitter asked for: two submits with the same request id are the same submit
// if their fingerprints are equal.
//
// Version 1 hashes (field number of SubmitTaskRequest, value) in order of the numbers: maps sorted,
// enums by number. An absent field adds nothing, nor does a value that the .proto states as the
// default. A default that a setting supplies is not known here: an absent max_attempts adds
// nothing, and a value that is sent does (DirectorEngine::IsSameRequest() compares the two). Left
// out are request_id, policy, ticket and validate_only, which are not part of the task.
struct Fingerprint {
  uint64_t high = 0;
  uint64_t low = 0;
  // Which rules made it. 0 are those before there was a version.
  uint32_t version = 0;

  friend auto operator<=>(const Fingerprint&, const Fingerprint&) = default;
};

inline constexpr uint32_t kFingerprintVersion = 1;

// REQUIRES: version <= kFingerprintVersion.
Fingerprint FingerprintOf(const TaskSpec& spec, uint32_t version = kFingerprintVersion);

// Whether a submit of `spec`, whose fingerprint is `sent`, is the one that `known` was stored of,
// maybe by another version of the program.
bool IsSame(const Fingerprint& known, const Fingerprint& sent, const TaskSpec& spec);

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_FINGERPRINT_H_
