#include "libs/adapters/grpc_director_link/grpc_director_link.h"

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
#include "libs/adapters/client_tracing/client_tracing.h"
#include "libs/base/error.h"
#include "libs/base/mutex.h"
#include "libs/core/trace_context.h"
#include "libs/wire/enum_pairs.h"
#include "libs/wire/status.h"
#include "libs/wire/task.h"
#include "libs/wire/task_spec.h"

namespace callboard::adapters {

using scheduler::Accepted;
using scheduler::TaskEnd;
template <class T>
using Reply = scheduler::DirectorLink::Reply<T>;

namespace internal {
namespace {

// Questions after single tasks that are under way at once.
constexpr size_t kQuestionsAtOnce = 16;

void SetTrace(const core::SpanContext& trace, grpc::ClientContext& context) {
  if (trace == core::SpanContext()) return;
  context.AddMetadata(ports::kTraceparent, core::FormatTraceparent(trace));
}

// How long a connection that was refused, or is not answered, is left alone. Short, for
// scheduler::kProbeLast.
constexpr absl::Duration kReconnectBackoffMin = absl::Milliseconds(100);
constexpr absl::Duration kReconnectBackoffMax = absl::Milliseconds(500);
constexpr absl::Duration kConnectTimeout = absl::Seconds(1);
static_assert(kReconnectBackoffMax <= absl::Seconds(1) && kConnectTimeout <= absl::Seconds(1) &&
                  scheduler::kProbeLast <= absl::Seconds(1) &&
                  scheduler::kProbeTimeout <= absl::Seconds(1),
              "a director that is back is noticed within two seconds");

}  // namespace

void SetReconnect(grpc::ChannelArguments& arguments) {
  const auto set = [&arguments](const char* name, absl::Duration time) {
    arguments.SetInt(name, static_cast<int>(absl::ToInt64Milliseconds(time)));
  };
  set(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectBackoffMin);
  set(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectBackoffMax);
  // gRPC's name for the time that a connection may take.
  set(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeout);
  // Each failed connection asks for the addresses again.
  set(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kReconnectBackoffMax);
}

namespace {

// By name, so that the peer of a call, which is an address, tells whether there was one.
std::shared_ptr<grpc::Channel> ChannelTo(absl::string_view address, const ports::Tracing& tracing) {
  grpc::ChannelArguments arguments;
  // A server that is gone without a word is noticed, and one that is back is found soon.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  SetReconnect(arguments);
  // The scheduler tries again itself, and knows when.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      absl::StrCat("dns:///", address), grpc::InsecureChannelCredentials(), arguments,
      TracingInterceptors(address, tracing));
}

// A call has a peer from before its first byte is sent.
bool WasSent(const grpc::ClientContext& context) {
  const std::string peer = context.peer();
  return absl::StartsWith(peer, "ipv4:") || absl::StartsWith(peer, "ipv6:");
}

absl::Status ErrorOf(const grpc::Status& status, const grpc::ClientContext& context) {
  const absl::Status error = wire::FromGrpc(status);
  // What a server of ours says itself carries a reason.
  if (error.ok() || !base::DetailsOf(error).reason.empty() || WasSent(context)) return error;
  return base::WithReason(absl::UnavailableError(error.message()), scheduler::kDirectorUnreachable);
}

std::optional<TaskEnd> EndFrom(const v1::Task& task) {
  const std::optional<core::TaskState> state = wire::FromProto(wire::kTaskStates, task.state());
  if (!state.has_value()) return std::nullopt;
  return TaskEnd{task.queue_id(), *state, wire::FromProto(wire::kFailureReasons, task.reason())};
}

// What is asked after one by one, and answered together, once. Thread-safe.
class Questions {
 public:
  using Answer = absl::StatusOr<std::vector<TaskEnd>>;

  Questions(std::vector<std::string> ids, Reply<std::vector<TaskEnd>> to, absl::Duration until)
      : reply(std::move(to)), deadline(until), queue_ids_(std::move(ids)) {}

  // The next to ask after; null when there is none, or enough are under way.
  std::optional<std::string> TakeNext() {
    base::MutexLock lock(mutex_);
    if (IsAsked() || open_ == kQuestionsAtOnce) return std::nullopt;
    ++open_;
    return queue_ids_[next_++];
  }
  // What one of them was answered.
  void Note(const absl::StatusOr<v1::Task>& task) {
    base::MutexLock lock(mutex_);
    --open_;
    if (!task.ok() && !absl::IsNotFound(task.status())) {
      answer_ = task.status();
    } else if (task.ok() && answer_.ok()) {
      if (const std::optional<TaskEnd> end = EndFrom(*task)) answer_->push_back(*end);
    }
  }
  // Null while there is more to come, and from the second time on.
  std::optional<Answer> TakeAnswer() {
    base::MutexLock lock(mutex_);
    if (!IsAsked() || open_ > 0 || std::exchange(is_answered_, true)) return std::nullopt;
    return std::move(answer_);
  }

  const Reply<std::vector<TaskEnd>> reply;
  // By the monotonic clock.
  const absl::Duration deadline;

 private:
  bool IsAsked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !answer_.ok() || next_ == queue_ids_.size();
  }

  const std::vector<std::string> queue_ids_;
  base::Mutex mutex_;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t open_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_answered_ ABSL_GUARDED_BY(mutex_) = false;
  Answer answer_ ABSL_GUARDED_BY(mutex_) = std::vector<TaskEnd>();
};

template <class Request, class Response>
struct Call {
  // Until it is over. Holds the channel, which a thread of gRPC may not be the last to let go of.
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

class DirectorLinkCore : public std::enable_shared_from_this<DirectorLinkCore> {
 public:
  DirectorLinkCore(const std::string& director_address, const ports::Tracing& tracing)
      : clock_(tracing.clock),
        tracing_(tracing),
        queue_(v1::QueueService::NewStub(ChannelTo(director_address, tracing))) {}

  void Stop() {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    for (grpc::ClientContext* context : contexts_) context->TryCancel();
    while (calls_ > 0) ended_.Wait(mutex_);
    // Channels end here, not on a thread of gRPC: gRPC waits for those then.
    queue_.reset();
    agents_.clear();
  }

  void Submit(const core::Submission& submission, Reply<Accepted> reply) {
    auto call = std::make_shared<Call<v1::SubmitTaskRequest, v1::SubmitTaskResponse>>();
    call->request = wire::ToProto(submission);
    SetTrace(submission.trace, *call->context);
    Begin<QueueStub, v1::SubmitTaskRequest, v1::SubmitTaskResponse>(
        *queue_->async(), &QueueStub::SubmitTask, scheduler::kCallTimeout, std::move(call),
        [reply = std::move(reply)](const absl::StatusOr<v1::SubmitTaskResponse>& answer) {
          if (!answer.ok()) return reply(answer.status());
          reply(Accepted{answer->queue_id(), answer->deduplicated()});
        });
  }

  void AskEnds(std::vector<std::string> queue_ids, Reply<std::vector<TaskEnd>> reply) {
    AskOn(std::make_shared<Questions>(std::move(queue_ids), std::move(reply),
                                      clock_.MonotonicNow() + scheduler::kCallTimeout));
  }

  void StartDirect(const std::string& agent_url, const core::Submission& submission,
                   Reply<Accepted> reply) {
    auto call = std::make_shared<Call<v1::StartTaskRequest, v1::StartTaskResponse>>();
    call->request.set_request_id(submission.spec.request_id);
    wire::WriteSpec(submission.spec, *call->request.mutable_task());
    SetTrace(submission.trace, *call->context);
    Begin<AgentStub, v1::StartTaskRequest, v1::StartTaskResponse>(
        AgentAt(agent_url), &AgentStub::StartTask, scheduler::kCallTimeout, std::move(call),
        [reply = std::move(reply)](const absl::StatusOr<v1::StartTaskResponse>& answer) {
          if (!answer.ok()) return reply(answer.status());
          reply(Accepted{answer->task_id(), answer->deduplicated()});
        });
  }

 private:
  // Nobody hears of it when the link ends first.
  template <class Stub, class Request, class Response>
  void Begin(Stub& stub, Method<Stub, Request, Response> method, absl::Duration timeout,
             std::shared_ptr<Call<Request, Response>> call,
             std::function<void(absl::StatusOr<Response>)> then) {
    {
      base::MutexLock lock(mutex_);
      if (stopping_) return;
      contexts_.insert(&*call->context);
      ++calls_;
    }
    call->context->set_deadline(
        gpr_time_from_millis(absl::ToInt64Milliseconds(timeout), GPR_TIMESPAN));
    (stub.*method)(&*call->context, &call->request, &call->response,
                   [self = shared_from_this(), call, then](const grpc::Status& status) {
                     absl::StatusOr<Response> answer = std::move(call->response);
                     if (!status.ok()) answer = ErrorOf(status, *call->context);
                     const bool is_heard = self->Forget(*call->context);
                     call->context.reset();
                     if (is_heard) then(std::move(answer));
                     self->OnCallDone();
                   });
  }

  // Whether somebody still wants to know how the call ended.
  bool Forget(grpc::ClientContext& context) {
    base::MutexLock lock(mutex_);
    contexts_.erase(&context);
    return !stopping_;
  }

  void OnCallDone() {
    base::MutexLock lock(mutex_);
    --calls_;
    ended_.NotifyAll();
  }

  // Asks after as many more of them as may be under way; answers when there are none.
  void AskOn(const std::shared_ptr<Questions>& questions) {
    while (const std::optional<std::string> id = questions->TakeNext()) {
      auto call = std::make_shared<Call<v1::GetTaskRequest, v1::Task>>();
      call->request.set_queue_id(*id);
      Begin<QueueStub, v1::GetTaskRequest, v1::Task>(
          *queue_->async(), &QueueStub::GetTask, questions->deadline - clock_.MonotonicNow(),
          std::move(call), [this, questions](const absl::StatusOr<v1::Task>& task) {
            questions->Note(task);
            AskOn(questions);
          });
    }
    if (auto answer = questions->TakeAnswer()) questions->reply(*std::move(answer));
  }

  AgentStub& AgentAt(absl::string_view agent_url) {
    absl::ConsumePrefix(&agent_url, "grpc://");
    base::MutexLock lock(mutex_);
    std::unique_ptr<v1::AgentService::Stub>& stub = agents_[std::string(agent_url)];
    if (stub == nullptr) stub = v1::AgentService::NewStub(ChannelTo(agent_url, tracing_));
    return *stub->async();
  }

  const ports::Clock& clock_;
  const ports::Tracing tracing_;
  // Both until Stop(), which nothing is begun after.
  std::unique_ptr<v1::QueueService::Stub> queue_;
  std::map<std::string, std::unique_ptr<v1::AgentService::Stub>> agents_ ABSL_GUARDED_BY(mutex_);

  base::Mutex mutex_;
  base::CondVar ended_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Of calls that can be cancelled; and all that are not done with.
  std::set<grpc::ClientContext*> contexts_ ABSL_GUARDED_BY(mutex_);
  size_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace internal

GrpcDirectorLink::GrpcDirectorLink(const std::string& director_address,
                                   const ports::Tracing& tracing)
    : core_(std::make_shared<internal::DirectorLinkCore>(director_address, tracing)) {}

GrpcDirectorLink::~GrpcDirectorLink() { core_->Stop(); }

void GrpcDirectorLink::Submit(const core::Submission& submission, Reply<Accepted> reply) {
  core_->Submit(submission, std::move(reply));
}

void GrpcDirectorLink::AskEnds(std::vector<std::string> queue_ids,
                               Reply<std::vector<TaskEnd>> reply) {
  core_->AskEnds(std::move(queue_ids), std::move(reply));
}

void GrpcDirectorLink::StartDirect(const std::string& agent_url, const core::Submission& submission,
                                   Reply<Accepted> reply) {
  core_->StartDirect(agent_url, submission, std::move(reply));
}

}  // namespace callboard::adapters
