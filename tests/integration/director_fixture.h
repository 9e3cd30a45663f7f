// The fixture for tests of a director's services over gRPC.
#ifndef CALLBOARD_TESTS_INTEGRATION_DIRECTOR_FIXTURE_H_
#define CALLBOARD_TESTS_INTEGRATION_DIRECTOR_FIXTURE_H_

#include <gmock/gmock.h>
#include <grpc/support/time.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "callboard/v1/queue.grpc.pb.h"
#include "libs/testing/files.h"
#include "libs/testing/running_server.h"
#include "libs/testing/status_matchers.h"
#include "libs/wire/status.h"

namespace callboard::test {

inline constexpr char kDirector[] = "services/director/callboard-director";

// A director on a folder that survives restarts, and a client.
class DirectorFixture : public testing::Test {
 protected:
  void Start(std::vector<std::string> flags = {}) {
    flags.push_back("--data_dir=" + folder_.string());
    director_ = std::make_unique<RunningServer>(kDirector, flags);
    stub_ = v1::QueueService::NewStub(director_->NewChannel());
  }
  // Kills the director without notice, as a machine failure does.
  void Kill() {
    director_->process().Signal(SIGKILL);
    ASSERT_EQ(director_->process().WaitForExit(absl::Minutes(1)), 128 + SIGKILL);
  }

  template <class Stub, class Request, class Response>
  static absl::StatusOr<Response> CallOn(
      Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
      const Request& request, absl::Duration deadline = absl::Seconds(30)) {
    grpc::ClientContext context;
    context.set_deadline(gpr_time_from_millis(absl::ToInt64Milliseconds(deadline), GPR_TIMESPAN));
    Response response;
    const grpc::Status status = (stub.*method)(&context, request, &response);
    if (!status.ok()) return wire::FromGrpc(status);
    return response;
  }
  template <class Request, class Response>
  absl::StatusOr<Response> Call(grpc::Status (v1::QueueService::Stub::*method)(grpc::ClientContext*,
                                                                               const Request&,
                                                                               Response*),
                                const Request& request,
                                absl::Duration deadline = absl::Seconds(30)) {
    return CallOn(*stub_, method, request, deadline);
  }
  static v1::SubmitTaskRequest Prompt(const std::string& prompt, const std::string& id = "") {
    v1::SubmitTaskRequest request;
    request.set_prompt(prompt);
    request.set_request_id(id);
    return request;
  }
  absl::StatusOr<v1::SubmitTaskResponse> Submit(const v1::SubmitTaskRequest& request,
                                                absl::Duration deadline = absl::Seconds(30)) {
    return Call(&v1::QueueService::Stub::SubmitTask, request, deadline);
  }
  absl::StatusOr<v1::Task> Get(const std::string& id, v1::TaskView view = v1::TASK_VIEW_BASIC) {
    v1::GetTaskRequest request;
    request.set_queue_id(id);
    request.set_view(view);
    return Call(&v1::QueueService::Stub::GetTask, request);
  }
  absl::StatusOr<v1::CancelTaskResponse> Cancel(const std::string& id) {
    v1::CancelTaskRequest request;
    request.set_queue_id(id);
    request.set_why("no longer needed");
    return Call(&v1::QueueService::Stub::CancelTask, request);
  }
  absl::StatusOr<v1::ReserveSlotResponse> Reserve(const v1::ReserveSlotRequest& request = {},
                                                  absl::Duration deadline = absl::Seconds(30)) {
    return Call(&v1::QueueService::Stub::ReserveSlot, request, deadline);
  }
  std::vector<std::string> List(v1::ListTasksRequest request = {}) {
    std::vector<std::string> ids;
    do {
      const auto page = Call(&v1::QueueService::Stub::ListTasks, request);
      EXPECT_THAT(page, IsOk());
      for (const v1::Task& task : page->tasks()) ids.push_back(task.queue_id());
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    return ids;
  }
  v1::QueueStatus Status() {
    return *Call(&v1::QueueService::Stub::GetQueueStatus, v1::GetQueueStatusRequest());
  }

  const std::filesystem::path folder_ = NewFolder();
  std::unique_ptr<RunningServer> director_;
  std::unique_ptr<v1::QueueService::Stub> stub_;
};

}  // namespace callboard::test

#endif  // CALLBOARD_TESTS_INTEGRATION_DIRECTOR_FIXTURE_H_
