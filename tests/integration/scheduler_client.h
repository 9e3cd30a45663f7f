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

// A client of a running scheduler. Thread-safe.
class SchedulerClient {
 public:
  using Stub = v1::SchedulerService::Stub;

  // `address`: host:port.
  explicit SchedulerClient(const std::string& address);

  template <class Request, class Response>
  grpc::Status RawCall(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                    Response*),
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
    const grpc::Status status = RawCall(method, request, response);
    if (!status.ok()) return wire::FromGrpc(status);
    return response;
  }

  absl::StatusOr<v1::Job> Get(const std::string& job);
  v1::SchedulerStatus Status();
  // Returns the rows of a job, or of all jobs if it is empty, oldest first.
  std::vector<v1::Firing> Firings(const std::string& job = "");

 private:
  const std::unique_ptr<Stub> stub_;
};

// Returns the outcome as in the log: `skipped_queue_full`.
std::string OutcomeOf(const v1::Firing& firing);

}  // namespace callboard::test

#endif  // CALLBOARD_TESTS_INTEGRATION_SCHEDULER_CLIENT_H_
