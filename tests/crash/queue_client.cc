#include "tests/crash/queue_client.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <utility>

#include "callboard/v1/queue.grpc.pb.h"
#include "libs/base/error.h"
#include "libs/wire/status.h"

namespace callboard::crash {
namespace {

std::shared_ptr<grpc::Channel> NewChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  // Directors come and go on the same port: the connection state of one says nothing about the
  // next.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);
  // Not a name: gRPC resolves names again only from time to time.
  return grpc::CreateCustomChannel("ipv4:" + address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

FoundTask::State StateOf(const v1::Task& task) {
  switch (task.state()) {
    case v1::Task::STATE_PENDING:
      return FoundTask::State::kPending;
    case v1::Task::STATE_DISPATCHING:
    case v1::Task::STATE_WORKING:
      return FoundTask::State::kRunning;
    case v1::Task::STATE_COMPLETED:
      return FoundTask::State::kCompleted;
    case v1::Task::STATE_CANCELLED:
      return FoundTask::State::kCancelled;
    case v1::Task::STATE_FAILED:
      return task.reason() == v1::Task::REASON_EVICTED ? FoundTask::State::kEvicted
                                                       : FoundTask::State::kOther;
    default:
      return FoundTask::State::kOther;
  }
}

FoundTask FoundFrom(const v1::Task& task) {
  return {.queue_id = task.queue_id(),
          .request_id = task.request_id(),
          .content = task.prompt(),
          .state = StateOf(task),
          .position = task.position(),
          .dispatches = task.dispatch()};
}

}  // namespace

class QueueClient::Stub {
 public:
  explicit Stub(const std::string& address)
      : stub_(v1::QueueService::NewStub(NewChannel(address))) {}

  template <class Request, class Response>
  using Method = grpc::Status (v1::QueueService::Stub::*)(grpc::ClientContext*, const Request&,
                                                          Response*);

  template <class Request, class Response>
  absl::StatusOr<Response> Call(Method<Request, Response> method, const Request& request) {
    grpc::ClientContext context;
    Response response;
    RETURN_IF_ERROR(wire::FromGrpc((stub_.get()->*method)(&context, request, &response)));
    return response;
  }

 private:
  const std::unique_ptr<v1::QueueService::Stub> stub_;
};

QueueClient::QueueClient(const std::string& address) : stub_(std::make_unique<Stub>(address)) {}

QueueClient::~QueueClient() = default;

absl::StatusOr<QueueClient::SubmitAnswer> QueueClient::Submit(const std::string& request_id,
                                                              const std::string& content) {
  v1::SubmitTaskRequest request;
  request.set_request_id(request_id);
  request.set_prompt(content);
  ASSIGN_OR_RETURN(const v1::SubmitTaskResponse response,
                   stub_->Call(&v1::QueueService::Stub::SubmitTask, request));
  return SubmitAnswer{response.queue_id(), response.position(), response.deduplicated()};
}

absl::Status QueueClient::Cancel(const std::string& queue_id) {
  v1::CancelTaskRequest request;
  request.set_queue_id(queue_id);
  return stub_->Call(&v1::QueueService::Stub::CancelTask, request).status();
}

absl::StatusOr<std::vector<FoundTask>> QueueClient::FindAll() {
  std::vector<FoundTask> found;
  v1::ListTasksRequest request;
  do {
    ASSIGN_OR_RETURN(const v1::ListTasksResponse page,
                     stub_->Call(&v1::QueueService::Stub::ListTasks, request));
    for (const v1::Task& task : page.tasks()) {
      found.push_back(FoundFrom(task));
      // The list truncates long prompts.
      if (task.prompt_truncated()) {
        ASSIGN_OR_RETURN(found.back(), Get(task.queue_id()));
      }
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return found;
}

absl::StatusOr<std::vector<std::string>> QueueClient::ListQueue() {
  v1::ListTasksRequest request;
  request.add_states(v1::Task::STATE_PENDING);
  ASSIGN_OR_RETURN(const v1::ListTasksResponse page,
                   stub_->Call(&v1::QueueService::Stub::ListTasks, request));
  std::vector<std::string> queue;
  for (const v1::Task& task : page.tasks()) queue.push_back(task.queue_id());
  return queue;
}

absl::StatusOr<FoundTask> QueueClient::Get(const std::string& queue_id) {
  v1::GetTaskRequest request;
  request.set_queue_id(queue_id);
  request.set_view(v1::TASK_VIEW_FULL);
  ASSIGN_OR_RETURN(const v1::Task task, stub_->Call(&v1::QueueService::Stub::GetTask, request));
  return FoundFrom(task);
}

absl::StatusOr<uint64_t> QueueClient::Depth() {
  ASSIGN_OR_RETURN(
      const v1::QueueStatus status,
      stub_->Call(&v1::QueueService::Stub::GetQueueStatus, v1::GetQueueStatusRequest()));
  return status.depth();
}

absl::StatusOr<uint64_t> QueueClient::Waiting() {
  ASSIGN_OR_RETURN(
      const v1::QueueStatus status,
      stub_->Call(&v1::QueueService::Stub::GetQueueStatus, v1::GetQueueStatusRequest()));
  return status.waiting();
}

absl::Status QueueClient::CreateCheckpoint(const std::string& name) {
  v1::CreateCheckpointRequest request;
  request.set_name(name);
  return stub_->Call(&v1::QueueService::Stub::CreateCheckpoint, request).status();
}

}  // namespace callboard::crash
