#ifndef CALLBOARD_SERVICES_DIRECTOR_QUEUE_SERVICE_H_
#define CALLBOARD_SERVICES_DIRECTOR_QUEUE_SERVICE_H_

#include "callboard/v1/queue.grpc.pb.h"
#include "libs/director/driver.h"

namespace callboard {

// QueueService over the director's driver: translates, calls, translates.
class QueueService final : public v1::QueueService::CallbackService {
 public:
  // `driver` outlives the service.
  explicit QueueService(director::DirectorDriver& driver) : driver_(driver) {}

  grpc::ServerUnaryReactor* GetQueueStatus(grpc::CallbackServerContext* context,
                                           const v1::GetQueueStatusRequest* request,
                                           v1::QueueStatus* response) override;

 private:
  director::DirectorDriver& driver_;
};

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_QUEUE_SERVICE_H_
