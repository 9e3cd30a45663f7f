#include "libs/link/grpc_director_link.h"

#include <grpc/support/time.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/client_interceptor.h>

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "callboard/v1/agent.grpc.pb.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/base/error.h"
#include "libs/base/mutex.h"
#include "libs/core/trace.h"
#include "libs/link/client_tracing.h"
#include "libs/wire/enums.h"
#include "libs/wire/job.h"
#include "libs/wire/status.h"

namespace callboard::link {

using scheduler::AcceptedTask;
using scheduler::TaskStatus;
template <class T>
using Reply = scheduler::DirectorLink::Reply<T>;

namespace internal {
namespace {

// Number of GetTask calls that one query has in flight.
constexpr size_t kQueriesInFlightMax = 16;

void SetTrace(const core::SpanContext& trace, grpc::ClientContext& context) {
  if (trace == core::SpanContext()) return;
  context.AddMetadata(ports::kTraceparent, core::FormatTraceparent(trace));
}

// Delays after a failed attempt to connect, and the timeout of an attempt. They are short because
// scheduler::kProbeLast relies on a fast reconnect.
constexpr absl::Duration kReconnectBackoffMin = absl::Milliseconds(100);
constexpr absl::Duration kReconnectBackoffMax = absl::Milliseconds(500);
constexpr absl::Duration kConnectTimeout = absl::Seconds(1);
static_assert(kReconnectBackoffMax <= absl::Seconds(1) && kConnectTimeout <= absl::Seconds(1) &&
                  scheduler::kProbeLast <= absl::Seconds(1) &&
                  scheduler::kProbeTimeout <= absl::Seconds(1),
              "a director that is back is noticed within two seconds");

// Creates a channel to a server by name (`dns:///`). The peer of a call without a connection is
// then that name and not an IP address. WasSent() relies on this.
std::shared_ptr<grpc::Channel> NewChannel(absl::string_view address,
                                          const ports::Tracing& tracing) {
  grpc::ChannelArguments arguments;
  // Detect a server that vanished without closing the connection, and reconnect soon.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  SetReconnect(arguments);
  // The scheduler has its own retries.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      absl::StrCat("dns:///", address), grpc::InsecureChannelCredentials(), arguments,
      TracingInterceptors(address, tracing));
}

// Returns whether any byte of the call may have been sent. gRPC sets the peer of a call before it
// sends the first byte.
bool WasSent(const grpc::ClientContext& context) {
  const std::string peer = context.peer();
  return absl::StartsWith(peer, "ipv4:") || absl::StartsWith(peer, "ipv6:");
}

absl::Status ToError(const grpc::Status& status, const grpc::ClientContext& context) {
  const absl::Status error = wire::FromGrpc(status);
  // An error with a reason comes from a Callboard server, so the call was sent.
  if (error.ok() || !base::GetErrorDetails(error).reason.empty() || WasSent(context)) return error;
  return base::WithReason(absl::UnavailableError(error.message()), scheduler::kDirectorUnreachable);
}

std::optional<TaskStatus> TaskStatusFrom(const v1::Task& task) {
  const std::optional<core::LifecycleState> state =
      wire::FromProto(wire::kTaskStates, task.state());
  if (!state.has_value()) return std::nullopt;
  return TaskStatus{task.queue_id(), *state, wire::FromProto(wire::kFailureReasons, task.reason())};
}

// The state of one GetTaskStatuses(): looks up the tasks one by one and replies once. Thread-safe.
class StatusQuery {
 public:
  using Answer = absl::StatusOr<std::vector<TaskStatus>>;

  StatusQuery(std::vector<std::string> ids, Reply<std::vector<TaskStatus>> to, absl::Duration until)
      : reply(std::move(to)), deadline(until), queue_ids_(std::move(ids)) {}

  // Returns the next task to look up, or nullopt when there is none or enough calls are in flight.
  std::optional<std::string> TakeNext() {
    base::MutexLock lock(mutex_);
    if (AllStarted() || in_flight_ == kQueriesInFlightMax) return std::nullopt;
    ++in_flight_;
    return queue_ids_[next_++];
  }
  // Adds the answer of one call.
  void AddAnswer(const absl::StatusOr<v1::Task>& task) {
    base::MutexLock lock(mutex_);
    --in_flight_;
    if (!task.ok() && !absl::IsNotFound(task.status())) {
      answer_ = task.status();
    } else if (task.ok() && answer_.ok()) {
      if (const std::optional<TaskStatus> status = TaskStatusFrom(*task)) {
        answer_->push_back(*status);
      }
    }
  }
  // Returns the answer once it is complete. Returns nullopt before that and after the first time.
  std::optional<Answer> TakeAnswer() {
    base::MutexLock lock(mutex_);
    if (!AllStarted() || in_flight_ > 0 || std::exchange(answer_taken_, true)) return std::nullopt;
    return std::move(answer_);
  }

  const Reply<std::vector<TaskStatus>> reply;
  // On the monotonic clock.
  const absl::Duration deadline;

 private:
  bool AllStarted() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !answer_.ok() || next_ == queue_ids_.size();
  }

  const std::vector<std::string> queue_ids_;
  base::Mutex mutex_;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  bool answer_taken_ ABSL_GUARDED_BY(mutex_) = false;
  Answer answer_ ABSL_GUARDED_BY(mutex_) = std::vector<TaskStatus>();
};

template <class Request, class Response>
struct Call {
  // Reset when the call has ended. It holds a reference to the channel, and a gRPC thread must not
  // release the last one.
  std::optional<grpc::ClientContext> context = std::optional<grpc::ClientContext>(std::in_place);
  Request request;
  Response response;
};

template <class Stub, class Request, class Response>
using Method = void (Stub::*)(grpc::ClientContext*, const Request*, Response*,
                              std::function<void(grpc::Status)>);

using QueueStub = v1::QueueService::StubInterface::async_interface;
using AgentStub = v1::AgentService::StubInterface::async_interface;

}  // namespace

void SetReconnect(grpc::ChannelArguments& arguments) {
  const auto set = [&arguments](const char* name, absl::Duration time) {
    arguments.SetInt(name, static_cast<int>(absl::ToInt64Milliseconds(time)));
  };
  set(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectBackoffMin);
  set(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectBackoffMax);
  // Despite its name, this argument also limits how long an attempt to connect may take.
  set(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeout);
  // Every failed attempt resolves the address again.
  set(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kReconnectBackoffMax);
}

class DirectorLinkCore : public std::enable_shared_from_this<DirectorLinkCore> {
 public:
  DirectorLinkCore(const std::string& director_address, const ports::Tracing& tracing)
      : clock_(tracing.clock),
        tracing_(tracing),
        queue_(v1::QueueService::NewStub(NewChannel(director_address, tracing))) {}

  void Stop() {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    for (grpc::ClientContext* context : contexts_) context->TryCancel();
    while (pending_calls_ > 0) call_done_.Wait(mutex_);
    // Destroy the channels here: their destruction waits for gRPC's threads, so it must not run on
    // one.
    queue_.reset();
    agents_.clear();
  }

  void Submit(const core::JobSubmission& submission, Reply<AcceptedTask> reply) {
    auto call = std::make_shared<Call<v1::SubmitTaskRequest, v1::SubmitTaskResponse>>();
    call->request = wire::ToProto(submission);
    SetTrace(submission.trace, *call->context);
    StartCall<QueueStub, v1::SubmitTaskRequest, v1::SubmitTaskResponse>(
        *queue_->async(), &QueueStub::SubmitTask, scheduler::kCallTimeout, std::move(call),
        [reply = std::move(reply)](const absl::StatusOr<v1::SubmitTaskResponse>& answer) {
          if (!answer.ok()) return reply(answer.status());
          reply(AcceptedTask{answer->queue_id(), answer->deduplicated()});
        });
  }

  void FindTask(const std::string& request_id, Reply<AcceptedTask> reply) {
    auto call = std::make_shared<Call<v1::GetTaskRequest, v1::Task>>();
    call->request.set_request_id(request_id);
    StartCall<QueueStub, v1::GetTaskRequest, v1::Task>(
        *queue_->async(), &QueueStub::GetTask, scheduler::kCallTimeout, std::move(call),
        [reply = std::move(reply)](const absl::StatusOr<v1::Task>& task) {
          if (!task.ok()) return reply(task.status());
          reply(AcceptedTask{task->queue_id(), /*deduplicated=*/true});
        });
  }

  void GetTaskStatuses(std::vector<std::string> queue_ids, Reply<std::vector<TaskStatus>> reply) {
    ContinueQuery(std::make_shared<StatusQuery>(std::move(queue_ids), std::move(reply),
                                                clock_.MonotonicNow() + scheduler::kCallTimeout));
  }

  void StartDirect(const std::string& agent_url, const core::JobSubmission& submission,
                   Reply<AcceptedTask> reply) {
    auto call = std::make_shared<Call<v1::StartTaskRequest, v1::StartTaskResponse>>();
    call->request.set_request_id(submission.request_id);
    *call->request.mutable_task() = wire::DirectTask(submission);
    SetTrace(submission.trace, *call->context);
    StartCall<AgentStub, v1::StartTaskRequest, v1::StartTaskResponse>(
        AgentStubFor(agent_url), &AgentStub::StartTask, scheduler::kCallTimeout, std::move(call),
        [reply = std::move(reply)](const absl::StatusOr<v1::StartTaskResponse>& answer) {
          if (!answer.ok()) return reply(answer.status());
          reply(AcceptedTask{answer->task_id(), answer->deduplicated()});
        });
  }

 private:
  // Starts a call. `then` is not run if the link is stopped first.
  template <class Stub, class Request, class Response>
  void StartCall(Stub& stub, Method<Stub, Request, Response> method, absl::Duration timeout,
                 std::shared_ptr<Call<Request, Response>> call,
                 std::function<void(absl::StatusOr<Response>)> then) {
    {
      base::MutexLock lock(mutex_);
      if (stopping_) return;
      contexts_.insert(&*call->context);
      ++pending_calls_;
    }
    call->context->set_deadline(
        gpr_time_from_millis(absl::ToInt64Milliseconds(timeout), GPR_TIMESPAN));
    (stub.*method)(&*call->context, &call->request, &call->response,
                   [self = shared_from_this(), call, then](const grpc::Status& status) {
                     absl::StatusOr<Response> answer = std::move(call->response);
                     if (!status.ok()) answer = ToError(status, *call->context);
                     const bool is_wanted = self->RemoveContext(*call->context);
                     call->context.reset();
                     if (is_wanted) then(std::move(answer));
                     self->OnCallDone();
                   });
  }

  // Returns false if the link is stopping, so that the call must not be answered.
  bool RemoveContext(grpc::ClientContext& context) {
    base::MutexLock lock(mutex_);
    contexts_.erase(&context);
    return !stopping_;
  }

  void OnCallDone() {
    base::MutexLock lock(mutex_);
    --pending_calls_;
    call_done_.NotifyAll();
  }

  // Starts as many calls as the limit allows. Replies when all have been answered.
  void ContinueQuery(const std::shared_ptr<StatusQuery>& query) {
    while (const std::optional<std::string> id = query->TakeNext()) {
      auto call = std::make_shared<Call<v1::GetTaskRequest, v1::Task>>();
      call->request.set_queue_id(*id);
      StartCall<QueueStub, v1::GetTaskRequest, v1::Task>(
          *queue_->async(), &QueueStub::GetTask, query->deadline - clock_.MonotonicNow(),
          std::move(call), [this, query](const absl::StatusOr<v1::Task>& task) {
            query->AddAnswer(task);
            ContinueQuery(query);
          });
    }
    if (auto answer = query->TakeAnswer()) query->reply(*std::move(answer));
  }

  AgentStub& AgentStubFor(absl::string_view agent_url) {
    absl::ConsumePrefix(&agent_url, "grpc://");
    base::MutexLock lock(mutex_);
    std::unique_ptr<v1::AgentService::Stub>& stub = agents_[std::string(agent_url)];
    if (stub == nullptr) stub = v1::AgentService::NewStub(NewChannel(agent_url, tracing_));
    return *stub->async();
  }

  const ports::Clock& clock_;
  const ports::Tracing tracing_;
  // Both exist until Stop(), after which no call is started.
  std::unique_ptr<v1::QueueService::Stub> queue_;
  std::map<std::string, std::unique_ptr<v1::AgentService::Stub>> agents_ ABSL_GUARDED_BY(mutex_);

  base::Mutex mutex_;
  base::CondVar call_done_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Contexts of calls that can be cancelled.
  std::set<grpc::ClientContext*> contexts_ ABSL_GUARDED_BY(mutex_);
  // Calls whose callback has not finished.
  size_t pending_calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace internal

GrpcDirectorLink::GrpcDirectorLink(const std::string& director_address,
                                   const ports::Tracing& tracing)
    : core_(std::make_shared<internal::DirectorLinkCore>(director_address, tracing)) {}

GrpcDirectorLink::~GrpcDirectorLink() { core_->Stop(); }

void GrpcDirectorLink::Submit(const core::JobSubmission& submission, Reply<AcceptedTask> reply) {
  core_->Submit(submission, std::move(reply));
}

void GrpcDirectorLink::FindTask(const std::string& request_id, Reply<AcceptedTask> reply) {
  core_->FindTask(request_id, std::move(reply));
}

void GrpcDirectorLink::GetTaskStatuses(std::vector<std::string> queue_ids,
                                       Reply<std::vector<TaskStatus>> reply) {
  core_->GetTaskStatuses(std::move(queue_ids), std::move(reply));
}

void GrpcDirectorLink::StartDirect(const std::string& agent_url,
                                   const core::JobSubmission& submission,
                                   Reply<AcceptedTask> reply) {
  core_->StartDirect(agent_url, submission, std::move(reply));
}

}  // namespace callboard::link
