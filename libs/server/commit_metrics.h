#ifndef CALLBOARD_LIBS_SERVER_COMMIT_METRICS_H_
#define CALLBOARD_LIBS_SERVER_COMMIT_METRICS_H_

#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstddef>

#include "absl/time/time.h"

namespace callboard::server {

// How long a server's disk takes, and for how much. Thread-safe.
class CommitMetrics {
 public:
  // `metrics` outlives it.
  explicit CommitMetrics(prometheus::Registry& metrics);

  // A batch is on disk.
  void Count(size_t records, absl::Duration took);

 private:
  // The registry's.
  prometheus::Histogram& seconds_;
  prometheus::Histogram& batch_size_;
};

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_COMMIT_METRICS_H_
