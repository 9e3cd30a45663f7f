// The door for handlers of streams in both directions: Bidi(). As call.h, whose promises it keeps.
//
// Messages are read one at a time, when whoever has the call asks for the next: what it does not
// ask for waits with the caller.
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

  void OnMessage(std::function<void(Request*)> hook) { on_message_ = std::move(hook); }
  void Read() {
    this->UnlessFinished([this] { reactor_.StartRead(&request_); });
  }
  void OnRead(bool ok) { on_message_(ok ? &request_ : nullptr); }
  // Nothing comes any more.
  void Forget() { on_message_ = nullptr; }

 private:
  Reactor& reactor_;
  // Set before the first read, and not touched until the last.
  std::function<void(Request*)> on_message_;
  // gRPC's from Read() until the hook runs.
  Request request_;
};

}  // namespace internal

// A stream in both directions. Copies stand for the same call. Thread-safe; may be kept for longer
// than the call lasts.
template <class Request, class Response>
class BidiCall {
 public:
  explicit BidiCall(std::shared_ptr<internal::BidiState<Request, Response>> state)
      : state_(std::move(state)) {}

  // `hook` gets each message that Read() asked for, on a reaction thread, and null at their end.
  // REQUIRES: nothing was read yet.
  void OnMessage(std::function<void(Request*)> hook) const { state_->OnMessage(std::move(hook)); }
  // Asks for the next message. Does nothing when the call is over. REQUIRES: the one before was
  // given to the hook, and was not the end.
  void Read() const { state_->Read(); }

  // As StreamCall's.
  [[nodiscard]] bool Write(Response message) const { return state_->Write(std::move(message)); }
  void OnSent(std::function<void()> hook) const { state_->OnSent(std::move(hook)); }
  void Finish(absl::Status status) const {
    state_->End(std::move(status), internal::Ending::kAnswered);
  }
  void OnAbandoned(std::function<void()> hook) const { state_->OnAbandoned(std::move(hook)); }

 private:
  // Shared by the reactor, which gRPC deletes when the call is over, and by whoever has the call.
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
  void OnCancel() override { state_->End(CallerLeft(), Ending::kAbandoned); }
  void OnDone() override {
    state_->Forget();
    delete this;
  }

  const std::shared_ptr<BidiState<Request, Response>> state_;
};

}  // namespace internal

// Opens a stream in both directions and gives it to `handler`, which must not block. Returns what
// the generated method has to return.
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
