#ifndef CALLBOARD_SERVICES_CLI_FOLLOW_STREAM_H_
#define CALLBOARD_SERVICES_CLI_FOLLOW_STREAM_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "callboard/config/v1/cli.pb.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/base/status_macros.h"
#include "services/cli/peer_call.h"

namespace callboard::cli {

// What is done with a stream of the director's.
template <class Response>
struct Following {
  // Opens it where the last one broke off.
  std::function<std::unique_ptr<grpc::ClientReader<Response>>(v1::QueueService::Stub&,
                                                              grpc::ClientContext&)>
      open;
  // An error ends it.
  std::function<absl::Status(const Response&)> take;
  // Told that the director is gone, once until it speaks again, and not when it is back at once.
  // Without, a break is the end.
  std::function<void(const std::string& note)> on_break = nullptr;
};

namespace internal {

// The director that a stream comes from, over all its comings and goings.
class StreamSource {
 public:
  explicit StreamSource(const config::v1::CliConfig& config);

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  // Waits as long as the settings allow, and not when it is clear that nobody is there: then the
  // first call says so.
  absl::Status AwaitConnection();
  absl::Status ErrorOf(const grpc::Status& end) const;
  // Whether the stream may go on after `error`, once the director is back.
  bool IsBreak(const absl::Status& error) const;
  // Waits a moment for that; returns whether it was enough.
  bool ReturnsAtOnce();
  // Waits for that, however long.
  void AwaitReturn();
  std::string BreakNote() const;

 private:
  const config::v1::CliConfig& config_;
  const Peer director_;
  const std::shared_ptr<grpc::Channel> channel_;
  bool was_reached_ = false;
};

}  // namespace internal

// Follows a stream to its end, and over breaks of the connection; a director that never was there
// is an error.
template <class Response>
absl::Status FollowStream(const config::v1::CliConfig& config,
                          const Following<Response>& following) {
  internal::StreamSource source(config);
  v1::QueueService::Stub stub(source.channel());
  RETURN_IF_ERROR(source.AwaitConnection());
  for (bool is_broken = false, is_told = false;;) {
    grpc::ClientContext context;
    internal::JoinTrace(context);
    const std::unique_ptr<grpc::ClientReader<Response>> reader = following.open(stub, context);
    Response response;
    while (reader->Read(&response)) {
      is_broken = is_told = false;
      const absl::Status taken = following.take(response);
      if (taken.ok()) continue;
      context.TryCancel();
      reader->Finish();
      return taken;
    }
    const absl::Status error = source.ErrorOf(reader->Finish());
    if (following.on_break == nullptr || !source.IsBreak(error)) return error;
    const bool is_back = source.ReturnsAtOnce();
    if (!is_told && (is_broken || !is_back)) {
      following.on_break(source.BreakNote());
      is_told = true;
    }
    is_broken = true;
    if (!is_back) source.AwaitReturn();
  }
}

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_FOLLOW_STREAM_H_
