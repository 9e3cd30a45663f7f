// Records that runs write themselves. Neither director nor agents are involved, so a test can tell
// from it which runs happened when.
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

// The dispatch of a run, from CALLBOARD_FENCE: queue_id/dispatch/epoch.
struct FenceToken {
  std::string queue_id = {};
  uint64_t dispatch = 0;
  uint64_t epoch = 0;

  // Returns a token without a queue_id if `text` is not a fence token.
  static FenceToken From(absl::string_view text);
  std::string ToString() const;

  friend bool operator==(const FenceToken&, const FenceToken&) = default;
};

// A line of the record. Lines are in the order of writing.
struct RunLine {
  enum class Kind {
    kBegin,
    kEnd,
    // At its start, processes of another dispatch of the same task were alive.
    kOverlap,
  };
  Kind kind = Kind::kBegin;
  FenceToken token = {};
  // Seconds since the machine started.
  double at = 0;
  // Pid of the first process of the run.
  pid_t pid = 0;
};

// The file that the runs write. Thread-safe.
class RunRecord {
 public:
  explicit RunRecord(std::filesystem::path file) : file_(std::move(file)) {}

  // Returns a script that records its run, does `work` (another script), exits with its exit code,
  // and has its fence token as result.
  std::string Script(absl::string_view work) const;

  // Returns the lines so far.
  std::vector<RunLine> Read() const;

 private:
  const std::filesystem::path file_;
};

}  // namespace callboard::e2e

#endif  // CALLBOARD_TESTS_E2E_RUN_RECORD_H_
