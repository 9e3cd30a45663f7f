// The one door through which every gRPC handler passes: Unary() and Stream(), and Bidi() of
// bidi_call.h.
//
// The door keeps the promises that all calls share. A call ends once, whatever races: an answer,
// the caller leaving, a deadline. Errors leave with their details (libs/wire/status.h). A unary
// call whose caller set no deadline, or one further off than the server allows, gets the server's;
// a stream lasts until either side ends it.
//
// Handlers run on gRPC's few reaction threads: they hand the call on and return, and whoever has
// the answer gives it later, from any thread:
//
//   return Unary<v1::QueueStatus>(context, response, [&](UnaryCall<v1::QueueStatus> call) {
//     driver_.GetQueueStatus([call](auto status) { call.Finish(wire::ToProto(status)); });
//   });
#ifndef CALLBOARD_LIBS_SERVER_CALL_H_
#define CALLBOARD_LIBS_SERVER_CALL_H_

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/bounded.h"
#include "libs/base/mutex.h"
#include "libs/server/call_deadlines.h"
#include "libs/server/call_tracer.h"
#include "libs/server/stream_budget.h"
#include "libs/wire/status.h"

namespace callboard::server {

// Who calls: everybody is the same, as long as nobody is asked who he is.
inline constexpr char kIdentity[] = "anonymous";

struct UnaryOptions {
  // The longest a call may wait for its answer.
  absl::Duration deadline_max = absl::Minutes(1);
  // Makes the call a span, under the name of its method; null when it is none.
  const CallTracer* tracer = nullptr;
  absl::string_view method = {};
};

struct StreamOptions {
  // Messages that may wait for the reader; one more ends the call.
  size_t buffer_max = 64;
  // What such a reader has to take the message that is under way, and so to learn why; then the
  // call is cut off.
  absl::Duration slow_reader_grace = absl::Seconds(5);
  // Shared with other streams; null when nothing bounds them together. Outlives the call.
  StreamBudget* budget = nullptr;
};

namespace internal {

// How long the server itself waits for the call's answer; nothing when the caller's own deadline
// comes first.
std::optional<absl::Duration> OwnDeadline(const grpc::CallbackServerContext& context,
                                          absl::Duration deadline_max);
void SetAlarm(grpc::Alarm& alarm, absl::Duration wait, std::function<void()> on_elapsed);
absl::Status DeadlineExceeded(absl::Duration deadline_max);
absl::Status CallerLeft();
absl::Status SlowReader();

template <class Message>
size_t BytesOf(const Message& message) {
  if constexpr (std::is_same_v<Message, grpc::ByteBuffer>) {
    return message.Length();
  } else {
    return message.ByteSizeLong();
  }
}

// How a call ends.
enum class Ending { kAnswered, kAbandoned };

// What to run when a call is abandoned: given before or after that happens, runs at most once.
//
// Thread-safe. Hooks run on the thread that calls, which must hold no lock; it may be any that has
// just asked something of gRPC.
class AbandonmentHook {
 public:
  void Set(std::function<void()> hook);
  // REQUIRES: called once.
  void End(Ending ending);

 private:
  base::Mutex mutex_;
  std::optional<Ending> ending_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> hook_ ABSL_GUARDED_BY(mutex_);
};

template <class Response>
class UnaryState {
 public:
  UnaryState(grpc::ServerUnaryReactor& reactor, Response& response)
      : reactor_(&reactor), response_(response) {}

  void Finish(absl::StatusOr<Response> answer) { End(std::move(answer), Ending::kAnswered); }
  void Abandon(absl::Status why) { End(std::move(why), Ending::kAbandoned); }
  void OnAbandoned(std::function<void()> hook) { hook_.Set(std::move(hook)); }

  // Before anybody has the call.
  void Trace(const CallTracer& tracer, absl::string_view method,
             const grpc::CallbackServerContext& context) {
    tracer_ = &tracer;
    method_ = method;
    span_ = tracer.Begin(TraceOf(context));
  }
  const core::SpanContext& trace() const { return span_.context; }

 private:
  void End(absl::StatusOr<Response> answer, Ending ending) {
    const absl::Status end = answer.status();
    const grpc::Status status = wire::ToGrpc(end);
    grpc::ServerUnaryReactor* reactor = nullptr;
    {
      base::MutexLock lock(mutex_);
      reactor = std::exchange(reactor_, nullptr);
      if (reactor == nullptr) return;
      if (answer.ok()) response_ = *std::move(answer);
    }
    hook_.End(ending);
    if (tracer_ != nullptr) tracer_->End(span_, method_, end);
    // The reactor lives until gRPC has sent this.
    reactor->Finish(status);
  }

  base::Mutex mutex_;
  // Null once the call has ended.
  grpc::ServerUnaryReactor* reactor_ ABSL_GUARDED_BY(mutex_);
  // gRPC's; written before the end only.
  Response& response_ ABSL_GUARDED_BY(mutex_);
  AbandonmentHook hook_;
  // Constant once somebody has the call; null when it is no span.
  const CallTracer* tracer_ = nullptr;
  absl::string_view method_;
  CallSpan span_;
};

}  // namespace internal

// A unary call that waits for its answer. Copies stand for the same call. Thread-safe; may be kept
// for longer than the call lasts.
template <class Response>
class UnaryCall {
 public:
  explicit UnaryCall(std::shared_ptr<internal::UnaryState<Response>> state)
      : state_(std::move(state)) {}

  // The span that the work it asks for is part of; none when it is not traced.
  const core::SpanContext& trace() const { return state_->trace(); }

  // Answers. Does nothing when the call has ended.
  void Finish(absl::StatusOr<Response> answer) const { state_->Finish(std::move(answer)); }

  // Runs `hook` once if the caller leaves, or a deadline passes, before the answer; at once if that
  // has happened. One hook per call.
  void OnAbandoned(std::function<void()> hook) const { state_->OnAbandoned(std::move(hook)); }

 private:
  // Shared by the reactor, which gRPC deletes when the call is over, and by whoever will answer.
  std::shared_ptr<internal::UnaryState<Response>> state_;
};

namespace internal {

template <class Response>
class UnaryReactor final : public grpc::ServerUnaryReactor {
 public:
  explicit UnaryReactor(Response& response)
      : state_(std::make_shared<UnaryState<Response>>(*this, response)) {}

  void LimitTo(absl::Duration deadline_max, absl::Duration wait) {
    deadline_.emplace(wait, [weak = std::weak_ptr(state_), deadline_max] {
      if (auto state = weak.lock()) state->Abandon(DeadlineExceeded(deadline_max));
    });
  }
  void Trace(const CallTracer& tracer, absl::string_view method,
             const grpc::CallbackServerContext& context) {
    state_->Trace(tracer, method, context);
  }
  UnaryCall<Response> call() const { return UnaryCall<Response>(state_); }

 private:
  void OnCancel() override { state_->Abandon(CallerLeft()); }
  void OnDone() override { delete this; }
  // Neither needs a thread of its own, which gRPC would wake up at the end of every call.
  bool InternalInlineable() override { return true; }

  const std::shared_ptr<UnaryState<Response>> state_;
  std::optional<CallDeadline> deadline_;
};

}  // namespace internal

// Opens a unary call and gives it to `handler`, which must not block. Returns what the generated
// method has to return.
template <class Response, class Handler>
grpc::ServerUnaryReactor* Unary(grpc::CallbackServerContext* context, Response* response,
                                Handler&& handler, const UnaryOptions& options = {}) {
  auto* reactor = new internal::UnaryReactor<Response>(*response);
  if (options.tracer != nullptr) reactor->Trace(*options.tracer, options.method, *context);
  if (const auto wait = internal::OwnDeadline(*context, options.deadline_max)) {
    reactor->LimitTo(options.deadline_max, *wait);
  }
  std::forward<Handler>(handler)(reactor->call());
  return reactor;
}

namespace internal {

// What a call that writes messages does, through a reactor of either kind.
template <class Message, class Reactor = grpc::ServerWriteReactor<Message>>
class StreamState : public std::enable_shared_from_this<StreamState<Message, Reactor>> {
 public:
  StreamState(grpc::CallbackServerContext& context, Reactor& reactor, const StreamOptions& options)
      : options_(options), context_(context), reactor_(reactor), buffer_(options.buffer_max) {}

  bool Write(Message message) {
    Step step = Step::kWait;
    bool taken = false;
    {
      base::MutexLock lock(mutex_);
      if (end_.has_value()) return false;
      taken = buffer_.TryPush(std::move(message));
      if (taken) {
        step = NextStep();
      } else {
        SetCutOff();
      }
    }
    if (!taken) End(SlowReader(), Ending::kAbandoned);
    Perform(step);
    return taken;
  }

  void CutOff() {
    {
      base::MutexLock lock(mutex_);
      if (end_.has_value()) return;
      SetCutOff();
    }
    End(SlowReader(), Ending::kAbandoned);
  }

  void End(absl::Status status, Ending ending) {
    Step step;
    bool first = false;
    // It may hold the last that keeps its owner alive.
    std::function<void()> dropped;
    {
      base::MutexLock lock(mutex_);
      // A caller that leaves cuts off even an end that waits for its messages to be written.
      if (ending == Ending::kAbandoned) buffer_.TakeAll();
      first = !end_.has_value();
      if (first) {
        end_ = std::move(status);
        dropped = std::exchange(on_sent_, nullptr);
      }
      step = NextStep();
    }
    if (first) hook_.End(ending);
    Perform(step);
  }

  void OnWritten(bool ok) {
    if (options_.budget != nullptr) options_.budget->Release(held_);
    // A stream may be idle for days.
    current_ = Message();
    {
      base::MutexLock lock(mutex_);
      writing_ = false;
    }
    if (!ok) return End(CallerLeft(), Ending::kAbandoned);
    Step step;
    std::function<void()> sent;
    {
      base::MutexLock lock(mutex_);
      step = NextStep();
      if (step == Step::kWait && !end_.has_value()) sent = on_sent_;
    }
    Perform(step);
    if (sent) sent();
  }

  void OnSent(std::function<void()> hook) {
    base::MutexLock lock(mutex_);
    if (!end_.has_value()) on_sent_ = std::move(hook);
  }

  void OnAbandoned(std::function<void()> hook) { hook_.Set(std::move(hook)); }

 protected:
  // Runs `start`, which begins something else with the reactor, unless the end is on its way.
  template <class Start>
  void UnlessFinished(Start start) {
    base::MutexLock lock(mutex_);
    if (!finished_) start();
  }

 private:
  enum class Step { kWait, kWrite, kFinish };

  // Ends the call in a while even if its reader does not take what is under way.
  void SetCutOff() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    alarm_.emplace();
    SetAlarm(*alarm_, options_.slow_reader_grace, [weak = this->weak_from_this()] {
      auto state = weak.lock();
      if (state == nullptr) return;
      base::MutexLock lock(state->mutex_);
      // The context lives until the end is sent.
      if (!state->finished_) state->context_.TryCancel();
    });
  }

  // Ends the call now. Its reader is not told why: it would have to read.
  void Drop() {
    base::MutexLock lock(mutex_);
    // The context lives until the end is sent.
    if (!finished_) context_.TryCancel();
  }

  // One operation at a time: whoever gets a step other than kWait is the one to perform it.
  Step NextStep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || finished_) return Step::kWait;
    if (!buffer_.empty()) {
      current_ = buffer_.Pop();
      writing_ = true;
      return Step::kWrite;
    }
    if (!end_.has_value()) return Step::kWait;
    finished_ = true;
    return Step::kFinish;
  }

  void Perform(Step step) {
    switch (step) {
      case Step::kWait:
        return;
      case Step::kWrite:
        if (options_.budget != nullptr) {
          held_ = options_.budget->Hold(BytesOf(current_), [weak = this->weak_from_this()] {
            if (auto state = weak.lock()) state->Drop();
          });
        }
        return reactor_.StartWrite(&current_);
      case Step::kFinish:
        return reactor_.Finish(wire::ToGrpc(*end_));
    }
  }

  const StreamOptions options_;
  // gRPC's; both live until Finish(), which is the last that is asked of them.
  grpc::CallbackServerContext& context_;
  Reactor& reactor_;

  base::Mutex mutex_;
  std::optional<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);
  base::BoundedQueue<Message> buffer_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_sent_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  AbandonmentHook hook_;
  // Belongs to whoever performs a step: set before it, untouched until the next.
  Message current_;
  // Of `current_`, in the budget.
  uint64_t held_ = 0;
  std::optional<absl::Status> end_;
};

}  // namespace internal

// A server stream. Copies stand for the same call. Thread-safe; may be kept for longer than the
// call lasts.
template <class Message>
class StreamCall {
 public:
  explicit StreamCall(std::shared_ptr<internal::StreamState<Message>> state)
      : state_(std::move(state)) {}

  // Sends `message` after those before it. Returns false when the call is over: also when the
  // reader is so slow that the buffer is full, which ends it with RESOURCE_EXHAUSTED/SLOW_READER.
  [[nodiscard]] bool Write(Message message) const { return state_->Write(std::move(message)); }

  // Runs `hook` each time that all that was written is sent, until the end: so that whoever has
  // much to say can wait for its reader. REQUIRES: nothing was written yet.
  void OnSent(std::function<void()> hook) const { state_->OnSent(std::move(hook)); }

  // Ends the stream because its reader is too slow, as a Write() into a full buffer does.
  void CutOff() const { state_->CutOff(); }

  // Ends the stream once everything is sent.
  void Finish(absl::Status status) const {
    state_->End(std::move(status), internal::Ending::kAnswered);
  }

  // As UnaryCall::OnAbandoned().
  void OnAbandoned(std::function<void()> hook) const { state_->OnAbandoned(std::move(hook)); }

 private:
  // Shared by the reactor, which gRPC deletes when the call is over, and by whoever writes.
  std::shared_ptr<internal::StreamState<Message>> state_;
};

namespace internal {

template <class Message>
class StreamReactor final : public grpc::ServerWriteReactor<Message> {
 public:
  StreamReactor(grpc::CallbackServerContext& context, const StreamOptions& options)
      : state_(std::make_shared<StreamState<Message>>(context, *this, options)) {}

  StreamCall<Message> call() const { return StreamCall<Message>(state_); }

 private:
  void OnWriteDone(bool ok) override { state_->OnWritten(ok); }
  void OnCancel() override { state_->End(CallerLeft(), Ending::kAbandoned); }
  void OnDone() override { delete this; }

  const std::shared_ptr<StreamState<Message>> state_;
};

}  // namespace internal

// Opens a server stream and gives it to `handler`, which must not block. Returns what the generated
// method has to return.
template <class Message, class Handler>
grpc::ServerWriteReactor<Message>* Stream(grpc::CallbackServerContext* context, Handler&& handler,
                                          const StreamOptions& options = {}) {
  auto* reactor = new internal::StreamReactor<Message>(*context, options);
  std::forward<Handler>(handler)(reactor->call());
  return reactor;
}

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_CALL_H_
