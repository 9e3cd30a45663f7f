#include "libs/adapters/grpc_link/redial.h"

#include <algorithm>

#include "libs/core/backoff.h"
#include "libs/core/stable_hash.h"

namespace callboard::adapters::internal {

absl::Duration RedialAfter(absl::string_view address, uint32_t failures, absl::Duration min,
                           absl::Duration max) {
  const uint64_t hash = core::StableHash().Add(address).Add(failures).value();
  return core::Spread(core::Grown(min, 2, failures, max), hash);
}

absl::Duration LongestRedial(size_t waiting, uint32_t per_second, absl::Duration max) {
  return std::max(max, absl::Seconds(1) * static_cast<double>(waiting) / per_second);
}

bool FirstDials::Take(absl::Duration now) {
  const absl::Duration until = std::max(made_until_, now - absl::Seconds(1)) + period_;
  if (until > now) return false;
  made_until_ = until;
  return true;
}

uint32_t FailuresAfter(const DialledSession& session, uint32_t failures, absl::Duration max) {
  const absl::Duration enough = session.did_work ? std::min(max, kWorkTakes) : max;
  return session.opened && session.stood >= enough ? 0 : failures + 1;
}

}  // namespace callboard::adapters::internal
