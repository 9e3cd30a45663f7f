#ifndef CALLBOARD_LIBS_SERVER_READINESS_H_
#define CALLBOARD_LIBS_SERVER_READINESS_H_

#include <functional>
#include <string>

#include "libs/base/mutex.h"

namespace callboard::server {

// Whether the parts of a server can do their work. Thread-safe.
class Readiness {
 public:
  // Why they cannot; empty when they can, as in the beginning.
  void Set(std::string why_not);
  std::string why_not() const;

  // Calls `told` now and whenever this changes, one call at a time. Null ends that.
  void Watch(std::function<void(bool ready)> told);

 private:
  mutable base::Mutex mutex_;
  std::string why_not_ ABSL_GUARDED_BY(mutex_);
  std::function<void(bool ready)> told_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_READINESS_H_
