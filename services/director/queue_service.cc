#include "services/director/queue_service.h"

#include "absl/status/statusor.h"
#include "libs/server/call.h"
#include "libs/wire/queue_status.h"

namespace callboard {

grpc::ServerUnaryReactor* QueueService::GetQueueStatus(grpc::CallbackServerContext* context,
                                                       const v1::GetQueueStatusRequest*,
                                                       v1::QueueStatus* response) {
  return server::Unary(context, response, [this](server::UnaryCall<v1::QueueStatus> call) {
    driver_.GetQueueStatus([call](const absl::StatusOr<core::QueueStatus>& status) {
      if (!status.ok()) return call.Finish(status.status());
      call.Finish(wire::ToProto(*status));
    });
  });
}

}  // namespace callboard
