// What can be asked of the queue as a whole.
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/core/limits.h"
#include "libs/server/call.h"
#include "libs/wire/field_checks.h"
#include "libs/wire/field_values.h"
#include "libs/wire/queue_status.h"
#include "services/director/queue_calls.h"
#include "services/director/queue_service.h"

namespace callboard {
namespace {

void Finish(const server::UnaryCall<v1::QueueStatus>& call,
            const absl::StatusOr<core::QueueStatus>& status) {
  if (!status.ok()) return call.Finish(status.status());
  call.Finish(wire::ToProto(*status));
}

}  // namespace

grpc::ServerUnaryReactor* QueueService::GetQueueStatus(grpc::CallbackServerContext* context,
                                                       const v1::GetQueueStatusRequest*,
                                                       v1::QueueStatus* response) {
  return server::Unary(context, response, [this](const server::UnaryCall<v1::QueueStatus>& call) {
    driver_.GetQueueStatus(
        [call](const absl::StatusOr<core::QueueStatus>& status) { Finish(call, status); });
  });
}

grpc::ServerUnaryReactor* QueueService::Switch(grpc::CallbackServerContext* context,
                                               v1::QueueStatus* response, const std::string& why,
                                               SwitchCommand command) {
  const auto tell = [&](const server::UnaryCall<v1::QueueStatus>& call) {
    wire::FieldChecks checks;
    const std::string reason = wire::ReadText("why", why, core::kErrorBytesMax, checks);
    if (!checks.status().ok()) return call.Finish(checks.status());
    driver_.Ask<core::QueueStatus>(
        director::Command::Need::kWrite,
        [command, reason](director::DirectorEngine& engine, director::Moment now) {
          (engine.*command)(server::kIdentity, reason, now);
          return engine.Status(now);
        },
        [call](const absl::StatusOr<core::QueueStatus>& status) { Finish(call, status); });
  };
  return server::Unary(context, response, tell);
}

grpc::ServerUnaryReactor* QueueService::PauseQueue(grpc::CallbackServerContext* context,
                                                   const v1::PauseQueueRequest* request,
                                                   v1::QueueStatus* response) {
  return Switch(context, response, request->why(), &director::DirectorEngine::Pause);
}

grpc::ServerUnaryReactor* QueueService::ResumeQueue(grpc::CallbackServerContext* context,
                                                    const v1::ResumeQueueRequest*,
                                                    v1::QueueStatus* response) {
  return server::Unary(context, response, [this](const server::UnaryCall<v1::QueueStatus>& call) {
    driver_.Ask<core::QueueStatus>(
        director::Command::Need::kWrite,
        [](director::DirectorEngine& engine, director::Moment now) {
          engine.Resume(now);
          return engine.Status(now);
        },
        [call](const absl::StatusOr<core::QueueStatus>& status) { Finish(call, status); });
  });
}

grpc::ServerUnaryReactor* QueueService::DrainQueue(grpc::CallbackServerContext* context,
                                                   const v1::DrainQueueRequest* request,
                                                   v1::QueueStatus* response) {
  return Switch(context, response, request->why(), &director::DirectorEngine::Drain);
}

grpc::ServerUnaryReactor* QueueService::KickDispatcher(grpc::CallbackServerContext* context,
                                                       const v1::KickDispatcherRequest*,
                                                       v1::KickDispatcherResponse* response) {
  const auto kick = [this](const server::UnaryCall<v1::KickDispatcherResponse>& call) {
    driver_.KickDispatcher([call](const absl::StatusOr<director::Kicked>& kicked) {
      if (!kicked.ok()) return call.Finish(kicked.status());
      v1::KickDispatcherResponse done;
      done.set_backoffs_ended(kicked->backoffs);
      done.set_suspicions_ended(kicked->suspicions);
      call.Finish(std::move(done));
    });
  };
  return server::Unary(context, response, kick);
}

grpc::ServerUnaryReactor* QueueService::CreateCheckpoint(grpc::CallbackServerContext* context,
                                                         const v1::CreateCheckpointRequest* request,
                                                         v1::CreateCheckpointResponse* response) {
  const auto create = [&](const server::UnaryCall<v1::CreateCheckpointResponse>& call) {
    const std::string name =
        request->name().empty()
            ? absl::FormatTime("%Y%m%dT%H%M%E3SZ", clock_.WallNow(), absl::UTCTimeZone())
            : request->name();
    driver_.CreateCheckpoint(name, [call](const absl::StatusOr<ports::Checkpoint>& checkpoint) {
      if (!checkpoint.ok()) return call.Finish(checkpoint.status());
      v1::CreateCheckpointResponse created;
      created.set_path(checkpoint->path);
      created.set_sequence(checkpoint->sequence);
      created.set_size_bytes(checkpoint->size_bytes);
      call.Finish(std::move(created));
    });
  };
  return server::Unary(context, response, create, kPatient);
}

}  // namespace callboard
