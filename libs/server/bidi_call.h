// The wrapper for handlers of bidirectional streams: Bidi(). Gives the same guarantees as call.h.
//
// Messages are read one at a time, when the handler calls Read(). Until then, flow control of gRPC
// keeps further messages with the caller.
#ifndef CALLBOARD_LIBS_SERVER_BIDI_CALL_H_
#define CALLBOARD_LIBS_SERVER_BIDI_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "libs/server/call.h"

namespace callboard::server {
namespace internal {

template <class Request, class Response>
class BidiState final : public StreamState<Response, grpc::ServerBidiReactor<Request, Response>> {
 public:
  using Reactor = grpc::ServerBidiReactor<Request, Response>;

  BidiState(grpc::CallbackServerContext& context, Reactor& reactor, const StreamOptions& options)
      : StreamState<Response, Reactor>(context, reactor, options), reactor_(reactor) {}

  void SetMessageHook(std::function<void(Request*)> hook) { on_message_ = std::move(hook); }
  void Read() {
    this->RunUnlessFinished([this] { reactor_.StartRead(&request_); });
  }
  void OnRead(bool ok) { on_message_(ok ? &request_ : nullptr); }
  // Destroys the message hook. REQUIRES: no more messages will arrive.
  void ClearMessageHook() { on_message_ = nullptr; }

 private:
  Reactor& reactor_;
  // Set before the first read, and constant until the call is done.
  std::function<void(Request*)> on_message_;
  // Owned by gRPC from Read() until the hook runs.
  Request request_;
};

}  // namespace internal

// A handle for a bidirectional stream. Copies refer to the same call. May outlive the call.
// Thread-safe.
template <class Request, class Response>
class BidiCall {
 public:
  explicit BidiCall(std::shared_ptr<internal::BidiState<Request, Response>> state)
      : state_(std::move(state)) {}

  // Sets a hook that receives each message that Read() requested, and null at the end of the
  // messages. It runs on a reaction thread. REQUIRES: Read() was not called yet.
  void SetMessageHook(std::function<void(Request*)> hook) const {
    state_->SetMessageHook(std::move(hook));
  }
  // Requests the next message. Does nothing after the end of the call. REQUIRES: the hook has
  // received the previous message, and it was not null.
  void Read() const { state_->Read(); }

  // The following methods work as in StreamCall.
  [[nodiscard]] bool Write(Response message) const { return state_->Write(std::move(message)); }
  void SetSentHook(std::function<void()> hook) const { state_->SetSentHook(std::move(hook)); }
  void Finish(absl::Status status) const {
    state_->End(std::move(status), internal::CallOutcome::kAnswered);
  }
  void SetAbandonHook(std::function<void()> hook) const { state_->SetAbandonHook(std::move(hook)); }

 private:
  // Shared by the reactor, which gRPC deletes at the end of the call, and copies of this handle.
  std::shared_ptr<internal::BidiState<Request, Response>> state_;
};

namespace internal {

template <class Request, class Response>
class BidiReactor final : public grpc::ServerBidiReactor<Request, Response> {
 public:
  BidiReactor(grpc::CallbackServerContext& context, const StreamOptions& options)
      : state_(std::make_shared<BidiState<Request, Response>>(context, *this, options)) {}

  BidiCall<Request, Response> call() const { return BidiCall<Request, Response>(state_); }

 private:
  void OnReadDone(bool ok) override { state_->OnRead(ok); }
  void OnWriteDone(bool ok) override { state_->OnWritten(ok); }
  void OnCancel() override { state_->End(CallerLeftError(), CallOutcome::kAbandoned); }
  void OnDone() override {
    state_->ClearMessageHook();
    delete this;
  }

  const std::shared_ptr<BidiState<Request, Response>> state_;
};

}  // namespace internal

// Passes a new bidirectional stream to `handler`, which must not block. Returns the reactor that
// the generated method must return.
template <class Request, class Response, class Handler>
grpc::ServerBidiReactor<Request, Response>* Bidi(grpc::CallbackServerContext* context,
                                                 Handler&& handler,
                                                 const StreamOptions& options = {}) {
  auto* reactor = new internal::BidiReactor<Request, Response>(*context, options);
  std::forward<Handler>(handler)(reactor->call());
  return reactor;
}

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_BIDI_CALL_H_
