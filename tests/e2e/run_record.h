// What the runs of tasks say of themselves. The director and its agents have no part in it: whoever
// believes neither of them can tell from it what ran when.
#ifndef CALLBOARD_TESTS_E2E_RUN_RECORD_H_
#define CALLBOARD_TESTS_E2E_RUN_RECORD_H_

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace callboard::e2e {

// Which dispatch a run is of: what CALLBOARD_FENCE names, queue_id/dispatch/epoch.
struct Fence {
  std::string queue_id = {};
  uint64_t dispatch = 0;
  uint64_t epoch = 0;

  // A fence without a queue_id when `text` is none.
  static Fence From(absl::string_view text);
  std::string ToString() const;

  friend bool operator==(const Fence&, const Fence&) = default;
};

// A line of the record. Lines are in the order in which they were written.
struct RunLine {
  enum class Kind {
    kBegin,
    kEnd,
    // When it began, processes of another dispatch of the same task were alive.
    kOverlap,
  };
  Kind kind = Kind::kBegin;
  Fence fence = {};
  // Seconds since the machine started.
  double at = 0;
  // The first process of the run.
  pid_t pid = 0;
};

// The file that the runs write. Thread-safe.
class RunRecord {
 public:
  explicit RunRecord(std::filesystem::path file) : file_(std::move(file)) {}

  // A script that records its run, does `work`, another script, in between, exits as that does, and
  // whose result is its fence.
  std::string Script(absl::string_view work) const;

  // What is there by now.
  std::vector<RunLine> Read() const;

 private:
  const std::filesystem::path file_;
};

}  // namespace callboard::e2e

#endif  // CALLBOARD_TESTS_E2E_RUN_RECORD_H_
