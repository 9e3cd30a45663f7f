#ifndef CALLBOARD_LIBS_SERVER_EXEMPLARS_H_
#define CALLBOARD_LIBS_SERVER_EXEMPLARS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/core/trace_context.h"

namespace callboard::server {

// Something that was measured, and the trace that shows how it came about.
struct Exemplar {
  core::TraceId trace_id;
  double value = 0;
  absl::Time at;
};

// The last exemplar of each bucket of histograms without labels. Thread-safe.
class Exemplars {
 public:
  // `bounds` of the buckets, in their order, as the histogram has them.
  void Add(const std::string& histogram, std::vector<double> bounds);
  // REQUIRES: the histogram was added.
  void Note(absl::string_view histogram, const Exemplar& exemplar);
  // Of the bucket with that upper bound; nothing when there is none.
  std::optional<Exemplar> Find(absl::string_view histogram, double bound) const;

 private:
  struct Buckets {
    std::vector<double> bounds;
    // One more, without a bound.
    std::vector<std::optional<Exemplar>> last;
  };

  mutable base::Mutex mutex_;
  std::map<std::string, Buckets, std::less<>> histograms_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_EXEMPLARS_H_
