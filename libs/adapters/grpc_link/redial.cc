#include "libs/adapters/grpc_link/redial.h"

#include "libs/core/backoff.h"
#include "libs/core/stable_hash.h"

namespace callboard::adapters::internal {

absl::Duration RedialAfter(absl::string_view address, uint32_t failures, absl::Duration min,
                           absl::Duration max) {
  const uint64_t hash = core::StableHash().Add(address).Add(failures).value();
  return core::Spread(core::Grown(min, 2, failures, max), hash);
}

}  // namespace callboard::adapters::internal
