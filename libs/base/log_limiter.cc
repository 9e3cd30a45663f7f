#include "libs/base/log_limiter.h"

#include <utility>

namespace callboard::base {
namespace {

constexpr size_t kEventsMax = 1024;

}  // namespace

LogLimiter::LogLimiter(int64_t lines_per_second)
    : lines_per_second_(lines_per_second), windows_(kEventsMax) {
  CHECK_GT(lines_per_second, 0);
}

LogLimiter::Window& LogLimiter::WindowOf(const std::string& event) {
  Window* window = windows_.FindOrInsert(event);
  return window == nullptr ? overflow_ : *window;
}

std::optional<int64_t> LogLimiter::Admit(const std::string& event, absl::Time now) {
  Window& window = WindowOf(event);
  // A clock that was set back starts a window too, or the event would stay silent until it catches
  // up.
  if (now - window.start >= absl::Seconds(1) || now < window.start) {
    window.start = now;
    window.passed = 0;
  }
  if (window.passed == lines_per_second_) {
    ++window.dropped;
    return std::nullopt;
  }
  ++window.passed;
  return std::exchange(window.dropped, 0);
}

void LogLimiter::Drop(const std::string& event, int64_t lines) { WindowOf(event).dropped += lines; }

}  // namespace callboard::base
