// Keeps one event from flooding the log.
#ifndef CALLBOARD_LIBS_BASE_LOG_LIMITER_H_
#define CALLBOARD_LIBS_BASE_LOG_LIMITER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "libs/base/bounded.h"

namespace callboard::base {

// Lets each event through `lines_per_second` times in any second of its own, and counts the rest.
//
// Not thread-safe. Remembers a fixed number of events; those beyond share one allowance.
class LogLimiter {
 public:
  // REQUIRES: lines_per_second > 0.
  explicit LogLimiter(int64_t lines_per_second);

  // Nothing when the line is to be dropped; else how many lines of `event` were dropped since the
  // last one that passed.
  std::optional<int64_t> Admit(const std::string& event, absl::Time now);
  // So many lines of `event` were dropped although they had passed.
  void Drop(const std::string& event, int64_t lines);

 private:
  struct Window {
    absl::Time start = absl::InfinitePast();
    int64_t passed = 0;
    int64_t dropped = 0;
  };

  Window& WindowOf(const std::string& event);

  const int64_t lines_per_second_;
  BoundedMap<std::string, Window> windows_;
  Window overflow_;
};

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_LOG_LIMITER_H_
