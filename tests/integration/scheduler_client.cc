#include "tests/integration/scheduler_client.h"

#include <grpcpp/create_channel.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"
#include "libs/base/check.h"

namespace callboard::test {

SchedulerClient::SchedulerClient(const std::string& address)
    : stub_(v1::SchedulerService::NewStub(
          grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))) {}

absl::StatusOr<v1::Job> SchedulerClient::Get(const std::string& job) {
  v1::GetJobRequest request;
  request.set_name(job);
  return Call(&Stub::GetJob, request);
}

v1::SchedulerStatus SchedulerClient::Status() {
  const auto status = Call(&Stub::GetSchedulerStatus, v1::GetSchedulerStatusRequest());
  CHECK(status.ok()) << status.status();
  return *status;
}

std::vector<v1::Firing> SchedulerClient::Firings(const std::string& job) {
  std::vector<v1::Firing> firings;
  v1::ListFiringsRequest request;
  request.set_name(job);
  request.set_page_size(1000);
  do {
    const auto page = Call(&Stub::ListFirings, request);
    CHECK(page.ok()) << page.status();
    firings.insert(firings.end(), page->firings().begin(), page->firings().end());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  std::reverse(firings.begin(), firings.end());
  return firings;
}

std::string OutcomeOf(const v1::Firing& firing) {
  const std::string name = v1::Firing::Outcome_Name(firing.outcome());
  return absl::AsciiStrToLower(absl::StripPrefix(name, "OUTCOME_"));
}

}  // namespace callboard::test
