#ifndef CALLBOARD_TESTS_E2E_CLUSTER_CLIENT_H_
#define CALLBOARD_TESTS_E2E_CLUSTER_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "callboard/v1/fleet.pb.h"
#include "callboard/v1/queue.pb.h"
#include "libs/base/mutex.h"
#include "tests/crash/history.h"
#include "tests/e2e/run_checker.h"

namespace callboard::e2e {

// A client of a director that may be gone at any time. Every call has a short timeout. Thread-safe.
class ClusterClient {
 public:
  // `address` is the address of all processes of the director.
  explicit ClusterClient(const std::string& address);
  ~ClusterClient();

  // ---- Calls that are recorded in the history ----

  // Submits once; returns the id of the task if it was accepted. REQUIRES: the request has a
  // request id.
  absl::StatusOr<std::string> TrySubmit(const v1::SubmitTaskRequest& request);
  // Repeats the submit until it is accepted.
  std::string Submit(const v1::SubmitTaskRequest& request);
  absl::StatusOr<v1::CancelTaskResponse> TryCancel(const std::string& queue_id);
  v1::CancelTaskResponse Cancel(const std::string& queue_id);
  crash::History history() const;

  // ---- Calls that are retried until they are answered ----

  v1::Task Get(const std::string& queue_id);
  // Calls once; returns nothing if there is no answer.
  std::optional<v1::Task> TryGet(const std::string& queue_id);
  std::vector<v1::TaskEvent> Events(const std::string& queue_id);
  // Returns all tasks with their events.
  std::vector<ObservedTask> FindAll();
  v1::QueueStatus Status();
  std::vector<v1::Agent> Agents();
  // Ends all backoffs and suspicions.
  void Kick();
  // Ends all cordons.
  void Undrain();
  void Pause();
  void Resume();

  // Waits until `is_right` holds for the task; dies if it never does.
  v1::Task WaitUntil(const std::string& queue_id,
                     const std::function<bool(const v1::Task&)>& is_right);
  v1::Task WaitFor(const std::string& queue_id, v1::Task::State state);
  v1::Task WaitForEnd(const std::string& queue_id);
  // Waits until `count` agents accept tasks.
  void WaitForAgents(size_t count);

 private:
  class Stubs;
  const std::unique_ptr<Stubs> stubs_;
  mutable base::Mutex mutex_;
  uint64_t tick_ ABSL_GUARDED_BY(mutex_) = 0;
  crash::History history_ ABSL_GUARDED_BY(mutex_);
};

bool HasEnded(const v1::Task& task);

}  // namespace callboard::e2e

#endif  // CALLBOARD_TESTS_E2E_CLUSTER_CLIENT_H_
