#include "libs/adapters/grpc_link/redial.h"

#include <algorithm>

#include "libs/core/stable_hash.h"

namespace callboard::adapters::internal {

absl::Duration RedialAfter(absl::string_view address, uint32_t failures, absl::Duration min,
                           absl::Duration max) {
  absl::Duration full = min;
  for (uint32_t i = 0; i < failures && full < max; ++i) full *= 2;
  full = std::min(full, max);
  const uint64_t hash = core::StableHash().Add(address).Add(failures).value();
  return full / 2 + full / 2 * (static_cast<double>(hash >> 11) * 0x1p-53);
}

}  // namespace callboard::adapters::internal
