#include "libs/server/commit_metrics.h"

namespace callboard::server {
namespace {

using prometheus::Histogram;

// A fast disk, a slow one, and one that stalls.
const Histogram::BucketBoundaries kSeconds = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                              0.025,  0.05,    0.1,    0.25,  1,      5};
const Histogram::BucketBoundaries kBatchSizes = {1,   2,   4,   8,    16,   32,  64,
                                                 128, 256, 512, 1024, 2048, 4096};

}  // namespace

CommitMetrics::CommitMetrics(prometheus::Registry& metrics)
    : seconds_(prometheus::BuildHistogram()
                   .Name("callboard_commit_seconds")
                   .Help("From handing a batch of records to the disk until it is there.")
                   .Register(metrics)
                   .Add({}, kSeconds)),
      batch_size_(prometheus::BuildHistogram()
                      .Name("callboard_commit_batch_size")
                      .Help("Records that went to disk together.")
                      .Register(metrics)
                      .Add({}, kBatchSizes)) {}

void CommitMetrics::Count(size_t records, absl::Duration took) {
  seconds_.Observe(absl::ToDoubleSeconds(took));
  batch_size_.Observe(static_cast<double>(records));
}

}  // namespace callboard::server
