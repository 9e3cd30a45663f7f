// Calls to the configured director and scheduler, and streams that are resumed. Also the signals
// that interrupt a command.

#ifndef CALLBOARD_SERVICES_CLI_DIRECTOR_CLIENT_H_
#define CALLBOARD_SERVICES_CLI_DIRECTOR_CLIENT_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>
#include <signal.h>

#include <atomic>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "callboard/config/v1/cli.pb.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/base/error.h"
#include "libs/server/program.h"

namespace callboard::cli {

// A server that commands call.
struct Peer {
  // Name as in its setting: `director` for `--director.address`.
  std::string name;
  // host:port.
  std::string address;
};

// Handles SIGINT, SIGTERM and SIGHUP for a command that must clean up. By default a signal ends the
// process immediately with ExitCode::kInterrupted, as for any command. After Defer() the first
// signal only requests a stop, so that the command can clean up; a second one ends the process
// immediately.
//
// Create it before any other thread; at most one per process.
class InterruptHandler {
 public:
  InterruptHandler() : thread_({SIGTERM, SIGINT, SIGHUP}, [this](int) { OnSignal(); }) {}
  InterruptHandler(const InterruptHandler&) = delete;
  InterruptHandler& operator=(const InterruptHandler&) = delete;

  // Makes the first signal from now on request a stop of the returned token instead of ending the
  // process.
  std::stop_token Defer();

 private:
  void OnSignal();

  std::atomic<bool> deferred_ = false;
  std::stop_source stop_;
  server::SignalThread thread_;
};

template <class Stub, class Request, class Response>
using PeerMethod = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Response*);

namespace internal {

Peer DirectorPeer(const config::v1::CliConfig& config);
Peer SchedulerPeer(const config::v1::CliConfig& config);

std::shared_ptr<grpc::Channel> Connect(const Peer& peer);
// Sets the deadline of the call from the setting `timeout`.
void SetDeadline(const config::v1::CliConfig& config, grpc::ClientContext& context);
// Makes the call part of the trace that TRACEPARENT in the environment names, if it names one.
void JoinTrace(grpc::ClientContext& context);
// Returns the error of a failed call: the peer's own error, that the peer is unreachable, or that
// it is connected but did not answer in time.
absl::Status CallError(const grpc::Status& status, grpc::Channel& channel, const Peer& peer,
                       const config::v1::CliConfig& config);

template <class Stub, class Request, class Response>
absl::StatusOr<Response> Call(const Peer& peer, const config::v1::CliConfig& config,
                              PeerMethod<Stub, Request, Response> method, const Request& request) {
  grpc::ClientContext context;
  SetDeadline(config, context);
  JoinTrace(context);
  const std::shared_ptr<grpc::Channel> channel = Connect(peer);
  Stub stub(channel);
  Response response;
  const grpc::Status status = (stub.*method)(&context, request, &response);
  if (!status.ok()) return CallError(status, *channel, peer, config);
  return response;
}

}  // namespace internal

// Call a method of the configured server. The setting `timeout` limits the wait for the answer.
template <class Stub, class Request, class Response>
absl::StatusOr<Response> CallDirector(const config::v1::CliConfig& config,
                                      PeerMethod<Stub, Request, Response> method,
                                      const Request& request) {
  return internal::Call(internal::DirectorPeer(config), config, method, request);
}
template <class Stub, class Request, class Response>
absl::StatusOr<Response> CallScheduler(const config::v1::CliConfig& config,
                                       PeerMethod<Stub, Request, Response> method,
                                       const Request& request) {
  return internal::Call(internal::SchedulerPeer(config), config, method, request);
}

// The callbacks of a stream from the director.
template <class Response>
struct StreamHandler {
  // Opens the stream, or opens it again after the last message that was received.
  std::function<std::unique_ptr<grpc::ClientReader<Response>>(v1::QueueService::Stub&,
                                                              grpc::ClientContext&)>
      open;
  // Handles a message. An error ends the stream.
  std::function<absl::Status(const Response&)> on_message;
  // Called when the connection to the director is lost, unless it is back quickly. Called again
  // only after another message was received. If null, a lost connection ends the stream.
  std::function<void(const std::string& note)> on_disconnect = nullptr;
};

namespace internal {

// The connection to the director that a stream comes from, across disconnects.
class StreamSource {
 public:
  explicit StreamSource(const config::v1::CliConfig& config);

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  // Waits for the first connection, up to the setting `timeout`. Returns OK early if the address
  // refuses connections: then the first call returns the error.
  absl::Status AwaitConnection();
  absl::Status CallError(const grpc::Status& end) const;
  // Returns whether the stream can be resumed after `error`, once the director is back.
  bool CanResumeAfter(const absl::Status& error) const;
  // Waits a short time for the director to be back; returns whether it is.
  bool ReconnectsQuickly();
  // Waits for the director to be back, without a limit.
  void AwaitReconnection();
  // Returns the text for `on_disconnect`.
  std::string DisconnectNote() const;

 private:
  const config::v1::CliConfig& config_;
  const Peer director_;
  const std::shared_ptr<grpc::Channel> channel_;
  bool was_reached_ = false;
};

}  // namespace internal

// Reads a stream to its end. Resumes it when the connection is lost. Returns an error if the
// director could not be reached in the first place.
template <class Response>
absl::Status FollowStream(const config::v1::CliConfig& config,
                          const StreamHandler<Response>& handler) {
  internal::StreamSource source(config);
  v1::QueueService::Stub stub(source.channel());
  RETURN_IF_ERROR(source.AwaitConnection());
  for (bool is_disconnected = false, is_reported = false;;) {
    grpc::ClientContext context;
    internal::JoinTrace(context);
    const std::unique_ptr<grpc::ClientReader<Response>> reader = handler.open(stub, context);
    Response response;
    while (reader->Read(&response)) {
      is_disconnected = is_reported = false;
      const absl::Status handled = handler.on_message(response);
      if (handled.ok()) continue;
      context.TryCancel();
      reader->Finish();
      return handled;
    }
    const absl::Status error = source.CallError(reader->Finish());
    if (handler.on_disconnect == nullptr || !source.CanResumeAfter(error)) return error;
    const bool is_back = source.ReconnectsQuickly();
    if (!is_reported && (is_disconnected || !is_back)) {
      handler.on_disconnect(source.DisconnectNote());
      is_reported = true;
    }
    is_disconnected = true;
    if (!is_back) source.AwaitReconnection();
  }
}

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_DIRECTOR_CLIENT_H_
