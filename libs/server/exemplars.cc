#include "libs/server/exemplars.h"

#include <algorithm>
#include <utility>

#include "libs/base/check.h"

namespace callboard::server {
namespace {

// As Prometheus has it: a value on a bound is below it.
size_t BucketOf(const std::vector<double>& bounds, double value) {
  return static_cast<size_t>(std::lower_bound(bounds.begin(), bounds.end(), value) -
                             bounds.begin());
}

}  // namespace

void Exemplars::Add(const std::string& histogram, std::vector<double> bounds) {
  base::MutexLock lock(mutex_);
  const size_t buckets = bounds.size() + 1;
  histograms_[histogram] = {std::move(bounds), std::vector<std::optional<Exemplar>>(buckets)};
}

void Exemplars::Note(absl::string_view histogram, const Exemplar& exemplar) {
  base::MutexLock lock(mutex_);
  const auto found = histograms_.find(histogram);
  CHECK(found != histograms_.end()) << histogram;
  Buckets& buckets = found->second;
  buckets.last[BucketOf(buckets.bounds, exemplar.value)] = exemplar;
}

std::optional<Exemplar> Exemplars::Find(absl::string_view histogram, double bound) const {
  base::MutexLock lock(mutex_);
  const auto found = histograms_.find(histogram);
  if (found == histograms_.end()) return std::nullopt;
  return found->second.last[BucketOf(found->second.bounds, bound)];
}

}  // namespace callboard::server
