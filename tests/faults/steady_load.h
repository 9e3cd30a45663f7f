#ifndef CALLBOARD_TESTS_FAULTS_STEADY_LOAD_H_
#define CALLBOARD_TESTS_FAULTS_STEADY_LOAD_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "libs/base/mutex.h"
#include "tests/crash/history.h"
#include "tests/crash/queue_client.h"

namespace callboard::faults {

struct SteadyLoadOptions {
  int clients = 4;
  // Prefix of all prompts.
  std::string prompt = "echo";
  // Whether some tasks are cancelled.
  bool cancels = true;
};

// Clients that submit, cancel and list until Stop(), despite all faults: a submit without an answer
// is repeated until it has one. Thread-safe.
class SteadyLoad {
 public:
  SteadyLoad(const SteadyLoadOptions& options, const std::string& address);
  ~SteadyLoad();
  SteadyLoad(const SteadyLoad&) = delete;
  SteadyLoad& operator=(const SteadyLoad&) = delete;

  // Waits until `more` further submits are acknowledged. The timeout of the test limits the wait.
  void AwaitAcknowledged(uint64_t more);
  // Lets every client finish its call, and returns all calls.
  crash::History Stop();
  uint64_t Tick() { return ++tick_; }

 private:
  void Run(int number);
  crash::Call Submit(crash::QueueClient& client, const std::string& request_id);
  void Cancel(crash::QueueClient& client, const std::string& queue_id);
  void List(crash::QueueClient& client);
  // Waits before the next call. Returns false when the load stops.
  bool Pause();
  void Record(crash::Call call);

  const SteadyLoadOptions options_;
  const std::string address_;
  std::atomic<uint64_t> tick_ = 0;

  base::Mutex mutex_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t acknowledged_ ABSL_GUARDED_BY(mutex_) = 0;
  crash::History history_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace callboard::faults

#endif  // CALLBOARD_TESTS_FAULTS_STEADY_LOAD_H_
