#ifndef CALLBOARD_TESTS_CRASH_QUEUE_CLIENT_H_
#define CALLBOARD_TESTS_CRASH_QUEUE_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/crash/history.h"

namespace callboard::crash {

// A client of a director with a separate connection. Calls block until their answer. Thread-safe.
class QueueClient {
 public:
  explicit QueueClient(const std::string& address);
  ~QueueClient();

  struct SubmitAnswer {
    std::string queue_id;
    uint64_t position = 0;
    bool deduplicated = false;
  };
  absl::StatusOr<SubmitAnswer> Submit(const std::string& request_id, const std::string& content);
  absl::Status Cancel(const std::string& queue_id);
  // Returns all tasks, page by page, with their content: the pending ones in queue order.
  absl::StatusOr<std::vector<FoundTask>> FindAll();
  // Returns the ids of the pending tasks of the first page.
  absl::StatusOr<std::vector<std::string>> ListQueue();
  absl::StatusOr<FoundTask> Get(const std::string& queue_id);
  absl::StatusOr<uint64_t> Depth();
  // Returns the number of callers that wait for admission.
  absl::StatusOr<uint64_t> Waiting();
  absl::Status CreateCheckpoint(const std::string& name);

 private:
  class Stub;
  const std::unique_ptr<Stub> stub_;
};

}  // namespace callboard::crash

#endif  // CALLBOARD_TESTS_CRASH_QUEUE_CLIENT_H_
