// The wrapper of every gRPC handler: Unary() and Stream(), and Bidi() in bidi_call.h.
//
// It guarantees what all calls have in common. A call ends exactly once, even if an answer, a
// cancellation and a deadline race. Errors are sent with their details (libs/wire/status.h). A
// unary call without a deadline, or with a longer one than the server allows, gets the server's
// deadline. A stream lasts until either side ends it.
//
// Handlers run on gRPC's few reaction threads and must not block. A handler passes the call on and
// returns; the answer may be given later, from any thread:
//
//   return Unary<v1::Task>(context, response, [&](UnaryCall<v1::Task> call) {
//     driver_.GetTask(id, [call](auto task) { call.Finish(wire::ToProto(task)); });
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
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/bounded.h"
#include "libs/base/mutex.h"
#include "libs/core/trace.h"
#include "libs/ports/telemetry.h"
#include "libs/server/stream_budget.h"
#include "libs/server/workarounds/call_deadlines.h"
#include "libs/wire/alarm.h"
#include "libs/wire/status.h"

namespace callboard::server {

// The started span of a call.
struct CallSpan {
  // The parent of spans for the work of this call: the call's span or, without telemetry, the
  // caller's span. Empty if there is neither.
  core::SpanContext context = {};
  // The caller's span.
  std::optional<core::SpanContext> parent = {};
  absl::Time began = {};
};

// Returns the caller's span from the `traceparent` in the call's metadata.
std::optional<core::SpanContext> ExtractSpanContext(const grpc::CallbackServerContext& context);

// Records calls as spans. Thread-safe. The telemetry outlives it.
class CallTracer {
 public:
  explicit CallTracer(const ports::Tracing& tracing) : tracing_(tracing) {}

  // Starts a span in the caller's trace, or as the root of a new trace.
  CallSpan Begin(const std::optional<core::SpanContext>& parent) const;
  // Ends a span. `method` is its name, for example callboard.v1.QueueService/SubmitTask.
  void End(const CallSpan& span, absl::string_view method, const absl::Status& status) const;

 private:
  const ports::Tracing tracing_;
};

// Placeholder identity until authentication exists.
inline constexpr char kIdentity[] = "anonymous";

struct UnaryOptions {
  // The longest time that a call may wait for its answer.
  absl::Duration deadline_max = absl::Minutes(1);
  // Records the call as a span named `method`. Null records none.
  const CallTracer* tracer = nullptr;
  absl::string_view method = {};
};

struct StreamOptions {
  // Messages that may wait for the reader. One more ends the call.
  size_t buffer_max = 64;
  // After that, the time for the slow reader to read the current message, and so to receive the
  // error. Then the call is cancelled without it.
  absl::Duration slow_reader_grace = absl::Seconds(5);
  // Bounds the memory of all streams that share it. May be null. Outlives the call.
  StreamBudget* budget = nullptr;
};

namespace internal {

// Returns the deadline that the server sets for the call; nullopt if the caller's is earlier.
std::optional<absl::Duration> ServerDeadline(const grpc::CallbackServerContext& context,
                                             absl::Duration deadline_max);

absl::Status DeadlineError(absl::Duration deadline_max);
absl::Status CallerLeftError();
absl::Status SlowReaderError();

template <class Message>
size_t MessageBytes(const Message& message) {
  if constexpr (std::is_same_v<Message, grpc::ByteBuffer>) {
    return message.Length();
  } else {
    return message.ByteSizeLong();
  }
}

// Whether a call was answered, or abandoned: cancelled, past its deadline or too slow.
enum class CallOutcome { kAnswered, kAbandoned };

// Holds a hook to run when a call is abandoned. The hook may be set before or after that, and runs
// at most once.
//
// Thread-safe. The hook runs inside Set() or End(), on the calling thread, which must hold no lock.
// That can be any thread that uses the call.
class AbandonHook {
 public:
  void Set(std::function<void()> hook);
  // REQUIRES: called once.
  void End(CallOutcome outcome);

 private:
  base::Mutex mutex_;
  std::optional<CallOutcome> outcome_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> hook_ ABSL_GUARDED_BY(mutex_);
};

template <class Response>
class UnaryState {
 public:
  UnaryState(grpc::ServerUnaryReactor& reactor, Response& response)
      : reactor_(&reactor), response_(response) {}

  void Finish(absl::StatusOr<Response> answer) { End(std::move(answer), CallOutcome::kAnswered); }
  void Abandon(absl::Status why) { End(std::move(why), CallOutcome::kAbandoned); }
  void SetAbandonHook(std::function<void()> hook) { hook_.Set(std::move(hook)); }

  // REQUIRES: called before the handler.
  void StartSpan(const CallTracer& tracer, absl::string_view method,
                 const grpc::CallbackServerContext& context) {
    tracer_ = &tracer;
    method_ = method;
    span_ = tracer.Begin(ExtractSpanContext(context));
  }
  const core::SpanContext& trace() const { return span_.context; }

 private:
  void End(absl::StatusOr<Response> answer, CallOutcome outcome) {
    const absl::Status end = answer.status();
    const grpc::Status status = wire::ToGrpc(end);
    grpc::ServerUnaryReactor* reactor = nullptr;
    {
      base::MutexLock lock(mutex_);
      reactor = std::exchange(reactor_, nullptr);
      if (reactor == nullptr) return;
      if (answer.ok()) response_ = *std::move(answer);
    }
    hook_.End(outcome);
    if (tracer_ != nullptr) tracer_->End(span_, method_, end);
    // The reactor lives until gRPC has sent this.
    reactor->Finish(status);
  }

  base::Mutex mutex_;
  // Null once the call has ended.
  grpc::ServerUnaryReactor* reactor_ ABSL_GUARDED_BY(mutex_);
  // Owned by gRPC; written only before the end of the call.
  Response& response_ ABSL_GUARDED_BY(mutex_);
  AbandonHook hook_;
  // Constant once the handler has the call. Null if the call is not traced.
  const CallTracer* tracer_ = nullptr;
  absl::string_view method_;
  CallSpan span_;
};

}  // namespace internal

// A handle for a unary call that waits for its answer. Copies refer to the same call. Thread-safe.
// May outlive the call.
template <class Response>
class UnaryCall {
 public:
  explicit UnaryCall(std::shared_ptr<internal::UnaryState<Response>> state)
      : state_(std::move(state)) {}

  // Returns the span context for the work of this call; empty if the call is not traced.
  const core::SpanContext& trace() const { return state_->trace(); }

  // Answers the call. Does nothing if the call has ended.
  void Finish(absl::StatusOr<Response> answer) const { state_->Finish(std::move(answer)); }

  // Sets a hook that runs once if the call is cancelled, or its deadline passes, before the answer.
  // Runs it immediately if that has happened already. One hook per call.
  void SetAbandonHook(std::function<void()> hook) const { state_->SetAbandonHook(std::move(hook)); }

 private:
  // Shared by the reactor, which gRPC deletes at the end of the call, and copies of this handle.
  std::shared_ptr<internal::UnaryState<Response>> state_;
};

namespace internal {

template <class Response>
class UnaryReactor final : public grpc::ServerUnaryReactor {
 public:
  explicit UnaryReactor(Response& response)
      : state_(std::make_shared<UnaryState<Response>>(*this, response)) {}

  void SetDeadline(absl::Duration deadline_max, absl::Duration wait) {
    deadline_.emplace(wait, [weak = std::weak_ptr(state_), deadline_max] {
      if (auto state = weak.lock()) state->Abandon(DeadlineError(deadline_max));
    });
  }
  void StartSpan(const CallTracer& tracer, absl::string_view method,
                 const grpc::CallbackServerContext& context) {
    state_->StartSpan(tracer, method, context);
  }
  UnaryCall<Response> call() const { return UnaryCall<Response>(state_); }

 private:
  void OnCancel() override { state_->Abandon(CallerLeftError()); }
  void OnDone() override { delete this; }
  // Lets gRPC run OnCancel() and OnDone(), which are short, on the thread that it is on. Otherwise
  // it would wake up another thread at the end of every call.
  bool InternalInlineable() override { return true; }

  const std::shared_ptr<UnaryState<Response>> state_;
  std::optional<CallDeadline> deadline_;
};

}  // namespace internal

// Passes a new unary call to `handler`, which must not block. Returns the reactor that the
// generated method must return.
template <class Response, class Handler>
grpc::ServerUnaryReactor* Unary(grpc::CallbackServerContext* context, Response* response,
                                Handler&& handler, const UnaryOptions& options = {}) {
  auto* reactor = new internal::UnaryReactor<Response>(*response);
  if (options.tracer != nullptr) reactor->StartSpan(*options.tracer, options.method, *context);
  if (const auto wait = internal::ServerDeadline(*context, options.deadline_max)) {
    reactor->SetDeadline(options.deadline_max, *wait);
  }
  std::forward<Handler>(handler)(reactor->call());
  return reactor;
}

namespace internal {

// The state of a call that writes messages: a server stream, or the write side of a bidirectional
// stream. Buffers messages and runs one gRPC operation at a time. Thread-safe.
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
        StartCutOff();
      }
    }
    if (!taken) End(SlowReaderError(), CallOutcome::kAbandoned);
    Perform(step);
    return taken;
  }

  void CutOff() {
    {
      base::MutexLock lock(mutex_);
      if (end_.has_value()) return;
      StartCutOff();
    }
    End(SlowReaderError(), CallOutcome::kAbandoned);
  }

  void End(absl::Status status, CallOutcome outcome) {
    Step step;
    bool first = false;
    // Destroyed without mutex_ held: it may hold the last reference to its owner.
    std::function<void()> dropped;
    {
      base::MutexLock lock(mutex_);
      // An abandoned call does not wait for its buffered messages, even if it was finished before.
      if (outcome == CallOutcome::kAbandoned) buffer_.TakeAll();
      first = !end_.has_value();
      if (first) {
        end_ = std::move(status);
        dropped = std::exchange(on_sent_, nullptr);
      }
      step = NextStep();
    }
    if (first) hook_.End(outcome);
    Perform(step);
  }

  void OnWritten(bool ok) {
    if (options_.budget != nullptr) options_.budget->Release(budget_entry_);
    // Frees the memory of the message: a stream may be idle for days.
    current_ = Message();
    {
      base::MutexLock lock(mutex_);
      writing_ = false;
    }
    if (!ok) return End(CallerLeftError(), CallOutcome::kAbandoned);
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

  void SetSentHook(std::function<void()> hook) {
    base::MutexLock lock(mutex_);
    if (!end_.has_value()) on_sent_ = std::move(hook);
  }

  void SetAbandonHook(std::function<void()> hook) { hook_.Set(std::move(hook)); }

 protected:
  // Runs `start`, which starts another operation of the reactor, unless Finish() was called on it.
  template <class Start>
  void RunUnlessFinished(Start start) {
    base::MutexLock lock(mutex_);
    if (!finished_) start();
  }

 private:
  enum class Step { kWait, kWrite, kFinish };

  // Starts the timer that cancels the call if its reader does not read the current message.
  void StartCutOff() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    alarm_.emplace();
    wire::SetAlarm(*alarm_, options_.slow_reader_grace, [weak = this->weak_from_this()] {
      auto state = weak.lock();
      if (state == nullptr) return;
      base::MutexLock lock(state->mutex_);
      // The context lives until Finish().
      if (!state->finished_) state->context_.TryCancel();
    });
  }

  // Cancels the call now. Its reader does not get an error, because it would have to read first.
  void CancelNow() {
    base::MutexLock lock(mutex_);
    // The context lives until Finish().
    if (!finished_) context_.TryCancel();
  }

  // Returns the next operation of the reactor, which runs one at a time. A caller that gets a step
  // other than kWait must pass it to Perform().
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
          budget_entry_ =
              options_.budget->Hold(MessageBytes(current_), [weak = this->weak_from_this()] {
                if (auto state = weak.lock()) state->CancelNow();
              });
        }
        return reactor_.StartWrite(&current_);
      case Step::kFinish:
        return reactor_.Finish(wire::ToGrpc(*end_));
    }
  }

  const StreamOptions options_;
  // Owned by gRPC. Both live until Finish(), which is the last call on them.
  grpc::CallbackServerContext& context_;
  Reactor& reactor_;

  base::Mutex mutex_;
  std::optional<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);
  base::BoundedQueue<Message> buffer_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_sent_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  AbandonHook hook_;
  // Owned by the operation in progress: set before it starts, constant until it ends.
  Message current_;
  // The entry of `current_` in the budget.
  uint64_t budget_entry_ = 0;
  std::optional<absl::Status> end_;
};

}  // namespace internal

// A handle for a server stream. Copies refer to the same call. Thread-safe. May outlive the call.
template <class Message>
class StreamCall {
 public:
  explicit StreamCall(std::shared_ptr<internal::StreamState<Message>> state)
      : state_(std::move(state)) {}

  // Sends `message` after all earlier ones. Returns false if the call has ended. If the buffer is
  // full, ends the call with RESOURCE_EXHAUSTED/SLOW_READER and returns false.
  [[nodiscard]] bool Write(Message message) const { return state_->Write(std::move(message)); }

  // Sets a hook that runs each time all written messages have been sent, until the end of the call.
  // With it a writer of many messages can wait for the reader. REQUIRES: nothing was written yet.
  void SetSentHook(std::function<void()> hook) const { state_->SetSentHook(std::move(hook)); }

  // Ends the stream with SLOW_READER, as a Write() into a full buffer does.
  void CutOff() const { state_->CutOff(); }

  // Ends the stream with `status` after all messages have been sent.
  void Finish(absl::Status status) const {
    state_->End(std::move(status), internal::CallOutcome::kAnswered);
  }

  // Works as UnaryCall::SetAbandonHook().
  void SetAbandonHook(std::function<void()> hook) const { state_->SetAbandonHook(std::move(hook)); }

 private:
  // Shared by the reactor, which gRPC deletes at the end of the call, and copies of this handle.
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
  void OnCancel() override { state_->End(CallerLeftError(), CallOutcome::kAbandoned); }
  void OnDone() override { delete this; }

  const std::shared_ptr<StreamState<Message>> state_;
};

}  // namespace internal

// Passes a new server stream to `handler`, which must not block. Returns the reactor that the
// generated method must return.
template <class Message, class Handler>
grpc::ServerWriteReactor<Message>* Stream(grpc::CallbackServerContext* context, Handler&& handler,
                                          const StreamOptions& options = {}) {
  auto* reactor = new internal::StreamReactor<Message>(*context, options);
  std::forward<Handler>(handler)(reactor->call());
  return reactor;
}

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_CALL_H_
