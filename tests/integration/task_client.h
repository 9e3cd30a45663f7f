#ifndef CALLBOARD_TESTS_INTEGRATION_TASK_CLIENT_H_
#define CALLBOARD_TESTS_INTEGRATION_TASK_CLIENT_H_

#include <memory>
#include <string>

#include "callboard/v1/queue.grpc.pb.h"
#include "libs/testing/running_server.h"

namespace callboard::test {

// A client that submits tasks to a director and follows them.
class TaskClient {
 public:
  explicit TaskClient(RunningServer& director)
      : stub_(v1::QueueService::NewStub(director.NewChannel())) {}

  v1::QueueService::Stub& stub() { return *stub_; }

  // Returns the queue_id. REQUIRES: it is accepted.
  std::string Submit(const v1::SubmitTaskRequest& request);
  std::string Submit(const std::string& prompt);
  v1::Task Get(const std::string& queue_id);
  // Waits until the task is in that state; dies if it ends in another one.
  v1::Task WaitFor(const std::string& queue_id, v1::Task::State state);
  v1::Task WaitForEnd(const std::string& queue_id);
  v1::CancelTaskResponse Cancel(const std::string& queue_id);
  v1::QueueStatus Status();
  // Ends all backoffs.
  void Kick();

 private:
  const std::unique_ptr<v1::QueueService::Stub> stub_;
};

}  // namespace callboard::test

#endif  // CALLBOARD_TESTS_INTEGRATION_TASK_CLIENT_H_
