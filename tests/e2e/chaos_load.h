#ifndef CALLBOARD_TESTS_E2E_CHAOS_LOAD_H_
#define CALLBOARD_TESTS_E2E_CHAOS_LOAD_H_

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "libs/base/mutex.h"
#include "libs/testing/fake_environment.h"
#include "tests/e2e/cluster.h"

namespace callboard::e2e {

// Clients that submit all kinds of tasks, repeat submits, and cancel, whatever the answers, until
// they are stopped. The seed determines the calls, not the times of their answers.
class ChaosLoad {
 public:
  ChaosLoad(Cluster& cluster, uint64_t seed);
  ~ChaosLoad();

  // Stops the clients; returns when every request of theirs is accepted. REQUIRES: the director is
  // reachable.
  void Finish();

 private:
  void Run(int number, test::FakeRandom random);
  // Waits before the next call; returns false if there is none.
  bool Wait(absl::Duration time);
  v1::SubmitTaskRequest RandomTask(const std::string& request_id, test::FakeRandom& random) const;
  void Submit(const v1::SubmitTaskRequest& request);
  void Stop();

  Cluster& cluster_;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<v1::SubmitTaskRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> accepted_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace callboard::e2e

#endif  // CALLBOARD_TESTS_E2E_CHAOS_LOAD_H_
