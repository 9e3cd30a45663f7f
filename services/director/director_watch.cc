#include "services/director/director_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/log.h"

namespace callboard {
namespace {

prometheus::Histogram& NewHistogram(prometheus::Registry& metrics, const std::string& name,
                                    const std::string& help,
                                    const prometheus::Histogram::BucketBoundaries& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(metrics).Add({}, buckets);
}

}  // namespace

DirectorWatch::DirectorWatch(prometheus::Registry& metrics, server::Readiness& readiness)
    : readiness_(readiness),
      commit_seconds_(NewHistogram(
          metrics, "callboard_commit_seconds",
          "From handing a batch of records to the disk until it is there.",
          // A fast disk, a slow one, and one that stalls.
          {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5})),
      commit_batch_size_(NewHistogram(metrics, "callboard_commit_batch_size",
                                      "Records that went to disk together.",
                                      {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096})) {}

void DirectorWatch::OnService(director::Service service, const absl::Status& why) {
  const std::string error(why.message());
  base::MutexLock lock(mutex_);
  const bool is_away = service == director::Service::kNone;
  readiness_.Set(is_away ? absl::StrCat("the store is away: ", error) : "");
  // Messages may differ by the number of a file.
  const std::pair<director::Service, absl::StatusCode> says = {service, why.code()};
  if (std::exchange(said_, says) == says) return;
  switch (service) {
    case director::Service::kNone:
      return base::LogError("store", "away",
                            {{"error", error}, {"next", "it is opened anew every second"}});
    case director::Service::kReadOnly:
      return base::LogError("store", "full",
                            {{"error", error}, {"next", "only reads, until there is space"}});
    case director::Service::kFull:
      return base::LogInfo("store", "open");
  }
}

void DirectorWatch::OnCommit(size_t records, absl::Duration took) {
  commit_seconds_.Observe(absl::ToDoubleSeconds(took));
  commit_batch_size_.Observe(static_cast<double>(records));
}

}  // namespace callboard
