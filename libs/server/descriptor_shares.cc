#include "libs/server/descriptor_shares.h"

#include <sys/resource.h>

#include <algorithm>

#include "libs/base/check.h"

namespace callboard::server {
namespace {

// Kept back: RocksDB may have 128 tables open, and there are agents to dial.
constexpr rlim_t kKept = 256;

// Where there is no limit.
constexpr rlim_t kMost = 1 << 20;

}  // namespace

DescriptorShares ShareDescriptors() {
  rlimit limit = {};
  CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit raised = limit;
  raised.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  const rlim_t all = std::min(limit.rlim_cur, kMost);
  const rlim_t kept = std::min(kKept, all / 4);
  return {.grpc = static_cast<int>(all - 2 * kept), .http = static_cast<int>(all - kept)};
}

}  // namespace callboard::server
