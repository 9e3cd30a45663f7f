#include "tests/e2e/cluster_client.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "callboard/v1/fleet.grpc.pb.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/base/check.h"
#include "libs/wire/status.h"
#include "tests/crash/load.h"
#include "tests/e2e/eventually.h"

namespace callboard::e2e {
namespace {

using crash::Call;

// An answer takes milliseconds; a longer wait means that the director is stopped or cut off.
constexpr absl::Duration kAnswerWithin = absl::Seconds(3);
// Longer than any operation that succeeds at all.
constexpr absl::Duration kTimeout = absl::Minutes(2);
constexpr int kPageSize = 1000;

std::shared_ptr<grpc::Channel> NewChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // A restarted director must not wait for its callers.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

v1::GetTaskRequest WholeTask(const std::string& queue_id) {
  v1::GetTaskRequest request;
  request.set_queue_id(queue_id);
  request.set_view(v1::TASK_VIEW_FULL);
  return request;
}

}  // namespace

bool HasEnded(const v1::Task& task) {
  return task.state() == v1::Task::STATE_COMPLETED || task.state() == v1::Task::STATE_FAILED ||
         task.state() == v1::Task::STATE_CANCELLED;
}

class ClusterClient::Stubs {
 public:
  using Queue = v1::QueueService::Stub;
  using Fleet = v1::FleetService::Stub;

  explicit Stubs(const std::string& address)
      : channel_(NewChannel(address)),
        queue_(v1::QueueService::NewStub(channel_)),
        fleet_(v1::FleetService::NewStub(channel_)) {}

  template <class Stub, class Request, class Response>
  absl::StatusOr<Response> Try(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                            Response*),
                               const Request& request) {
    grpc::ClientContext context;
    context.set_deadline(
        gpr_time_from_millis(absl::ToInt64Milliseconds(kAnswerWithin), GPR_TIMESPAN));
    Response response;
    const grpc::Status status = (StubFor<Stub>().*method)(&context, request, &response);
    if (!status.ok()) return wire::FromGrpc(status);
    return response;
  }

  template <class Stub, class Request, class Response>
  Response Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                const Request& request) {
    absl::StatusOr<Response> response;
    CHECK(WaitUntilTrue(kTimeout, [&] {
      response = Try(method, request);
      return response.ok();
    })) << response.status().ToString();
    return *std::move(response);
  }

 private:
  template <class Stub>
  Stub& StubFor() {
    if constexpr (std::is_same_v<Stub, Queue>) {
      return *queue_;
    } else {
      return *fleet_;
    }
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<Queue> queue_;
  const std::unique_ptr<Fleet> fleet_;
};

ClusterClient::ClusterClient(const std::string& address)
    : stubs_(std::make_unique<Stubs>(address)) {}

ClusterClient::~ClusterClient() = default;

// ---- Calls that are recorded in the history -----------------------------------------------------

absl::StatusOr<std::string> ClusterClient::TrySubmit(const v1::SubmitTaskRequest& request) {
  CHECK(!request.request_id().empty());
  Call call = {.request_id = request.request_id(), .content = request.prompt()};
  {
    base::MutexLock lock(mutex_);
    call.invoked = ++tick_;
  }
  const absl::StatusOr<v1::SubmitTaskResponse> response =
      stubs_->Try(&Stubs::Queue::SubmitTask, request);
  call.answer = crash::AnswerFrom(response.status());
  if (response.ok()) {
    call.queue_id = response->queue_id();
    call.position = response->position();
    call.deduplicated = response->deduplicated();
  }
  base::MutexLock lock(mutex_);
  if (call.answer != Call::Answer::kUnknown) call.answered = ++tick_;
  history_.push_back(std::move(call));
  if (!response.ok()) return response.status();
  return response->queue_id();
}

std::string ClusterClient::Submit(const v1::SubmitTaskRequest& request) {
  absl::StatusOr<std::string> queue_id;
  CHECK(WaitUntilTrue(kTimeout, [&] {
    queue_id = TrySubmit(request);
    return queue_id.ok();
  })) << queue_id.status().ToString();
  return *std::move(queue_id);
}

absl::StatusOr<v1::CancelTaskResponse> ClusterClient::TryCancel(const std::string& queue_id) {
  v1::CancelTaskRequest request;
  request.set_queue_id(queue_id);
  Call call = {.kind = Call::Kind::kCancel, .queue_id = queue_id};
  {
    base::MutexLock lock(mutex_);
    call.invoked = ++tick_;
  }
  absl::StatusOr<v1::CancelTaskResponse> response = stubs_->Try(&Stubs::Queue::CancelTask, request);
  call.answer = crash::AnswerFrom(response.status());
  base::MutexLock lock(mutex_);
  if (call.answer != Call::Answer::kUnknown) call.answered = ++tick_;
  history_.push_back(std::move(call));
  return response;
}

v1::CancelTaskResponse ClusterClient::Cancel(const std::string& queue_id) {
  absl::StatusOr<v1::CancelTaskResponse> response;
  CHECK(WaitUntilTrue(kTimeout, [&] {
    response = TryCancel(queue_id);
    return response.ok();
  })) << response.status().ToString();
  return *std::move(response);
}

crash::History ClusterClient::history() const {
  base::MutexLock lock(mutex_);
  return history_;
}

// ---- Calls that are retried until they are answered --------------------------------------------

v1::Task ClusterClient::Get(const std::string& queue_id) {
  return stubs_->Call(&Stubs::Queue::GetTask, WholeTask(queue_id));
}

std::optional<v1::Task> ClusterClient::TryGet(const std::string& queue_id) {
  absl::StatusOr<v1::Task> task = stubs_->Try(&Stubs::Queue::GetTask, WholeTask(queue_id));
  return task.ok() ? std::make_optional(*std::move(task)) : std::nullopt;
}

std::vector<v1::TaskEvent> ClusterClient::Events(const std::string& queue_id) {
  std::vector<v1::TaskEvent> events;
  v1::ListTaskEventsRequest request;
  request.set_queue_id(queue_id);
  request.set_page_size(kPageSize);
  do {
    const v1::ListTaskEventsResponse page = stubs_->Call(&Stubs::Queue::ListTaskEvents, request);
    events.insert(events.end(), page.events().begin(), page.events().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return events;
}

std::vector<ObservedTask> ClusterClient::FindAll() {
  std::vector<ObservedTask> all;
  v1::ListTasksRequest request;
  request.set_page_size(kPageSize);
  do {
    const v1::ListTasksResponse page = stubs_->Call(&Stubs::Queue::ListTasks, request);
    for (const v1::Task& task : page.tasks()) {
      // Lists truncate large fields.
      all.push_back({Get(task.queue_id()), Events(task.queue_id())});
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return all;
}

v1::QueueStatus ClusterClient::Status() {
  return stubs_->Call(&Stubs::Queue::GetQueueStatus, v1::GetQueueStatusRequest());
}

std::vector<v1::Agent> ClusterClient::Agents() {
  const v1::ListAgentsResponse response =
      stubs_->Call(&Stubs::Fleet::ListAgents, v1::ListAgentsRequest());
  return {response.agents().begin(), response.agents().end()};
}

void ClusterClient::Kick() {
  stubs_->Call(&Stubs::Queue::KickDispatcher, v1::KickDispatcherRequest());
}

void ClusterClient::Undrain() {
  for (const v1::Agent& agent : Agents()) {
    if (agent.state() != v1::Agent::STATE_CORDONED) continue;
    v1::UndrainAgentRequest request;
    request.set_name(agent.name());
    stubs_->Call(&Stubs::Fleet::UndrainAgent, request);
  }
}

void ClusterClient::Pause() { stubs_->Call(&Stubs::Queue::PauseQueue, v1::PauseQueueRequest()); }

void ClusterClient::Resume() { stubs_->Call(&Stubs::Queue::ResumeQueue, v1::ResumeQueueRequest()); }

v1::Task ClusterClient::WaitUntil(const std::string& queue_id,
                                  const std::function<bool(const v1::Task&)>& is_right) {
  v1::Task task;
  CHECK(WaitUntilTrue(kTimeout,
                      [&] {
                        task = Get(queue_id);
                        return is_right(task);
                      }))
      << queue_id << " is " << v1::Task::State_Name(task.state()) << ", dispatch "
      << task.dispatch() << ": " << task.last_error();
  return task;
}

v1::Task ClusterClient::WaitFor(const std::string& queue_id, v1::Task::State state) {
  return WaitUntil(queue_id, [state](const v1::Task& task) { return task.state() == state; });
}

v1::Task ClusterClient::WaitForEnd(const std::string& queue_id) {
  return WaitUntil(queue_id, HasEnded);
}

void ClusterClient::WaitForAgents(size_t count) {
  CHECK(WaitUntilTrue(kTimeout,
                      [&] {
                        const std::vector<v1::Agent> agents = Agents();
                        const auto ready =
                            std::count_if(agents.begin(), agents.end(), [](const v1::Agent& agent) {
                              return agent.state() == v1::Agent::STATE_IDLE ||
                                     agent.state() == v1::Agent::STATE_BUSY;
                            });
                        return static_cast<size_t>(ready) >= count;
                      }))
      << count << " agents";
}

}  // namespace callboard::e2e
