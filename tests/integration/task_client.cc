#include "tests/integration/task_client.h"

#include <grpcpp/client_context.h>

#include "libs/base/check.h"

namespace callboard::test {
namespace {

bool HasEnded(const v1::Task& task) {
  return task.state() == v1::Task::STATE_COMPLETED || task.state() == v1::Task::STATE_FAILED ||
         task.state() == v1::Task::STATE_CANCELLED;
}

}  // namespace

std::string TaskClient::Submit(const v1::SubmitTaskRequest& request) {
  grpc::ClientContext context;
  v1::SubmitTaskResponse response;
  const grpc::Status status = stub_->SubmitTask(&context, request, &response);
  CHECK(status.ok()) << status.error_message();
  return response.queue_id();
}

std::string TaskClient::Submit(const std::string& prompt) {
  v1::SubmitTaskRequest request;
  request.set_prompt(prompt);
  return Submit(request);
}

v1::Task TaskClient::Get(const std::string& queue_id) {
  grpc::ClientContext context;
  v1::GetTaskRequest request;
  v1::Task task;
  request.set_queue_id(queue_id);
  request.set_view(v1::TASK_VIEW_FULL);
  const grpc::Status status = stub_->GetTask(&context, request, &task);
  CHECK(status.ok()) << status.error_message();
  return task;
}

v1::Task TaskClient::WaitFor(const std::string& queue_id, v1::Task::State state) {
  while (true) {
    v1::Task task = Get(queue_id);
    if (task.state() == state) return task;
    CHECK(!HasEnded(task)) << queue_id << " ended as " << task.state() << ": " << task.last_error();
  }
}

v1::Task TaskClient::WaitForEnd(const std::string& queue_id) {
  while (true) {
    v1::Task task = Get(queue_id);
    if (HasEnded(task)) return task;
  }
}

v1::CancelTaskResponse TaskClient::Cancel(const std::string& queue_id) {
  grpc::ClientContext context;
  v1::CancelTaskRequest request;
  v1::CancelTaskResponse response;
  request.set_queue_id(queue_id);
  const grpc::Status status = stub_->CancelTask(&context, request, &response);
  CHECK(status.ok()) << status.error_message();
  return response;
}

v1::QueueStatus TaskClient::Status() {
  grpc::ClientContext context;
  v1::QueueStatus queue;
  const grpc::Status status = stub_->GetQueueStatus(&context, {}, &queue);
  CHECK(status.ok()) << status.error_message();
  return queue;
}

void TaskClient::Kick() {
  grpc::ClientContext context;
  v1::KickDispatcherResponse response;
  const grpc::Status status = stub_->KickDispatcher(&context, {}, &response);
  CHECK(status.ok()) << status.error_message();
}

}  // namespace callboard::test
