#ifndef CALLBOARD_LIBS_CORE_FINGERPRINT_H_
#define CALLBOARD_LIBS_CORE_FINGERPRINT_H_

#include <compare>
#include <cstdint>

#include "libs/core/task.h"

namespace callboard::core {

// A hash of the contents of a submit. Two submits with the same request id are the same submit if
// their fingerprints are equal.
//
// Version 1 hashes pairs (field number of SubmitTaskRequest, value) in ascending order of the
// numbers; maps are sorted, and enums are hashed by number. Absent fields and the defaults that the
// .proto documents add nothing. Defaults from settings are unknown here: an absent max_attempts
// adds nothing, and an explicit value does; callers that know the default compare both forms.
// request_id, policy, ticket and validate_only are not part of the task and are left out.
struct Fingerprint {
  uint64_t high = 0;
  uint64_t low = 0;
  // Version of the hash rules. 0 means the rules before versions were introduced.
  uint32_t version = 0;

  friend auto operator<=>(const Fingerprint&, const Fingerprint&) = default;
};

inline constexpr uint32_t kFingerprintVersion = 1;

// Computes the fingerprint of `spec` by the rules of `version`.
// REQUIRES: version <= kFingerprintVersion.
Fingerprint ComputeFingerprint(const TaskSpec& spec, uint32_t version = kFingerprintVersion);

// Returns true if a submit of `spec`, with fingerprint `sent`, is the submit whose fingerprint is
// `known`. Another version of this program may have stored `known`.
bool IsSameSubmit(const Fingerprint& known, const Fingerprint& sent, const TaskSpec& spec);

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_FINGERPRINT_H_
