#ifndef CALLBOARD_SERVICES_DIRECTOR_QUEUE_SERVICE_H_
#define CALLBOARD_SERVICES_DIRECTOR_QUEUE_SERVICE_H_

#include "callboard/v1/queue.grpc.pb.h"
#include "libs/adapters/output_files/output_keeper.h"
#include "libs/director/driver.h"
#include "libs/director/observer.h"
#include "libs/ports/clock.h"
#include "libs/server/call_tracer.h"
#include "libs/server/stream_budget.h"

namespace callboard {

// v1::QueueService::CallbackService, but SubmitTasks gets its messages unparsed (SubmitTasksCall).
struct QueueServiceMethods {
  using Base = v1::QueueService;
  using Service = Base::WithCallbackMethod_SubmitTask<Base::WithRawCallbackMethod_SubmitTasks<
      Base::WithCallbackMethod_ReserveSlot<Base::WithCallbackMethod_GetTask<
          Base::WithCallbackMethod_ListTasks<Base::WithCallbackMethod_ListSessions<
              Base::WithCallbackMethod_CancelTask<Base::WithCallbackMethod_WatchTasks<
                  Base::WithCallbackMethod_TailTaskLogs<Base::WithCallbackMethod_ListTaskEvents<
                      Base::WithCallbackMethod_ExplainTask<Base::WithCallbackMethod_RedriveTasks<
                          Base::WithCallbackMethod_GetQueueStatus<
                              Base::WithCallbackMethod_PauseQueue<
                                  Base::WithCallbackMethod_ResumeQueue<
                                      Base::WithCallbackMethod_DrainQueue<
                                          Base::WithCallbackMethod_KickDispatcher<
                                              Base::WithCallbackMethod_CreateCheckpoint<
                                                  Base::Service>>>>>>>>>>>>>>>>>>;
};

// QueueService over the director's driver: translates, calls, translates.
class QueueService final : public QueueServiceMethods::Service {
 public:
  // All outlive the service.
  QueueService(director::DirectorDriver& driver, director::Observer& observer,
               adapters::OutputKeeper& outputs, const ports::Clock& clock,
               const server::CallTracer& tracer)
      : driver_(driver), observer_(observer), outputs_(outputs), clock_(clock), tracer_(tracer) {}

  grpc::ServerUnaryReactor* SubmitTask(grpc::CallbackServerContext* context,
                                       const v1::SubmitTaskRequest* request,
                                       v1::SubmitTaskResponse* response) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* SubmitTasks(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* ReserveSlot(grpc::CallbackServerContext* context,
                                        const v1::ReserveSlotRequest* request,
                                        v1::ReserveSlotResponse* response) override;
  grpc::ServerUnaryReactor* GetTask(grpc::CallbackServerContext* context,
                                    const v1::GetTaskRequest* request, v1::Task* response) override;
  grpc::ServerUnaryReactor* ListTasks(grpc::CallbackServerContext* context,
                                      const v1::ListTasksRequest* request,
                                      v1::ListTasksResponse* response) override;
  grpc::ServerUnaryReactor* ListSessions(grpc::CallbackServerContext* context,
                                         const v1::ListSessionsRequest* request,
                                         v1::ListSessionsResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchTasksResponse>* WatchTasks(
      grpc::CallbackServerContext* context, const v1::WatchTasksRequest* request) override;
  grpc::ServerWriteReactor<v1::TailTaskLogsResponse>* TailTaskLogs(
      grpc::CallbackServerContext* context, const v1::TailTaskLogsRequest* request) override;
  grpc::ServerUnaryReactor* ListTaskEvents(grpc::CallbackServerContext* context,
                                           const v1::ListTaskEventsRequest* request,
                                           v1::ListTaskEventsResponse* response) override;
  grpc::ServerUnaryReactor* ExplainTask(grpc::CallbackServerContext* context,
                                        const v1::ExplainTaskRequest* request,
                                        v1::ExplainTaskResponse* response) override;
  grpc::ServerUnaryReactor* CancelTask(grpc::CallbackServerContext* context,
                                       const v1::CancelTaskRequest* request,
                                       v1::CancelTaskResponse* response) override;
  grpc::ServerUnaryReactor* RedriveTasks(grpc::CallbackServerContext* context,
                                         const v1::RedriveTasksRequest* request,
                                         v1::RedriveTasksResponse* response) override;
  grpc::ServerUnaryReactor* GetQueueStatus(grpc::CallbackServerContext* context,
                                           const v1::GetQueueStatusRequest* request,
                                           v1::QueueStatus* response) override;
  grpc::ServerUnaryReactor* PauseQueue(grpc::CallbackServerContext* context,
                                       const v1::PauseQueueRequest* request,
                                       v1::QueueStatus* response) override;
  grpc::ServerUnaryReactor* ResumeQueue(grpc::CallbackServerContext* context,
                                        const v1::ResumeQueueRequest* request,
                                        v1::QueueStatus* response) override;
  grpc::ServerUnaryReactor* DrainQueue(grpc::CallbackServerContext* context,
                                       const v1::DrainQueueRequest* request,
                                       v1::QueueStatus* response) override;
  grpc::ServerUnaryReactor* KickDispatcher(grpc::CallbackServerContext* context,
                                           const v1::KickDispatcherRequest* request,
                                           v1::KickDispatcherResponse* response) override;
  grpc::ServerUnaryReactor* CreateCheckpoint(grpc::CallbackServerContext* context,
                                             const v1::CreateCheckpointRequest* request,
                                             v1::CreateCheckpointResponse* response) override;

 private:
  // Who asks for a switch of the queue is told to the engine, with the reason.
  using SwitchCommand = void (director::DirectorEngine::*)(const std::string& who,
                                                           const std::string& why,
                                                           director::Moment);
  // Tells the engine, and answers the status after it.
  grpc::ServerUnaryReactor* Switch(grpc::CallbackServerContext* context, v1::QueueStatus* response,
                                   const std::string& why, SwitchCommand command);

  director::DirectorDriver& driver_;
  // Of submits that are refused.
  director::Observer& observer_;
  adapters::OutputKeeper& outputs_;
  const ports::Clock& clock_;
  const server::CallTracer& tracer_;
  // Of all streams together.
  server::StreamBudget budget_{clock_};
};

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_QUEUE_SERVICE_H_
