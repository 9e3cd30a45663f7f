#ifndef CALLBOARD_SERVICES_DIRECTOR_DIRECTOR_WATCH_H_
#define CALLBOARD_SERVICES_DIRECTOR_DIRECTOR_WATCH_H_

#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <optional>
#include <utility>

#include "libs/base/mutex.h"
#include "libs/director/observer.h"
#include "libs/server/readiness.h"

namespace callboard {

// Shows how a director fares: in logs, in the server's health, and as
//
//   callboard_commit_seconds     from handing a batch to the disk until it is there
//   callboard_commit_batch_size  records in it
//
// Thread-safe.
class DirectorWatch final : public director::Observer {
 public:
  // Both outlive it.
  DirectorWatch(prometheus::Registry& metrics, server::Readiness& readiness);

  void OnService(director::Service service, const absl::Status& why) override;
  void OnCommit(size_t records, absl::Duration took) override;

 private:
  server::Readiness& readiness_;
  // The registry's.
  prometheus::Histogram& commit_seconds_;
  prometheus::Histogram& commit_batch_size_;
  base::Mutex mutex_;
  // What was said last, so that it is said once and not with every attempt.
  std::optional<std::pair<director::Service, absl::StatusCode>> said_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_DIRECTOR_WATCH_H_
