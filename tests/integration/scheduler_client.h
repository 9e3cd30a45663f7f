#ifndef CALLBOARD_TESTS_INTEGRATION_SCHEDULER_CLIENT_H_
#define CALLBOARD_TESTS_INTEGRATION_SCHEDULER_CLIENT_H_

#include <grpc/support/time.h>
#include <grpcpp/client_context.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "callboard/v1/scheduler.grpc.pb.h"
#include "libs/wire/status.h"

namespace callboard::test {

inline constexpr char kScheduler[] = "services/scheduler/callboard-scheduler";

// Somebody who asks a scheduler, which is there. Thread-safe.
class SchedulerClient {
 public:
  using Stub = v1::SchedulerService::Stub;

  // `address`: host:port.
  explicit SchedulerClient(const std::string& address);

  template <class Request, class Response>
  grpc::Status Ask(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                   const Request& request, Response& response) {
    grpc::ClientContext context;
    context.set_deadline(gpr_time_from_seconds(30, GPR_TIMESPAN));
    return (stub_.get()->*method)(&context, request, &response);
  }
  template <class Request, class Response>
  absl::StatusOr<Response> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const Request& request) {
    Response response;
    const grpc::Status status = Ask(method, request, response);
    if (!status.ok()) return wire::FromGrpc(status);
    return response;
  }

  absl::StatusOr<v1::Job> Get(const std::string& job);
  v1::SchedulerStatus Status();
  // All rows of a job, or of all when it is empty; the oldest first.
  std::vector<v1::Firing> Firings(const std::string& job = "");

 private:
  const std::unique_ptr<Stub> stub_;
};

// As the log has it: `skipped_queue_full`.
std::string OutcomeOf(const v1::Firing& firing);

}  // namespace callboard::test

#endif  // CALLBOARD_TESTS_INTEGRATION_SCHEDULER_CLIENT_H_
