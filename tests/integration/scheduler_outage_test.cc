// Occurrences while the director is unreachable.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include "absl/strings/strip.h"
#include "callboard/v1/agent.grpc.pb.h"
#include "tests/integration/cron_fixture.h"

namespace callboard {
namespace {

using test::OutcomeOf;
using test::SecondlyJob;
using test::TimeText;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class SchedulerOutageTest : public test::CronFixture {};

TEST_F(SchedulerOutageTest, OccurrencesFollowTheirCatchUpSettingDuringAnOutage) {
  WriteJobs({});
  StartScheduler();
  const absl::Time then = Soon();
  const auto three = [&](const std::string& name, const std::string& catch_up) {
    return SecondlyJob(name, {"overlap: allow", absl::StrCat("catch_up: ", catch_up),
                              absl::StrCat("start: '", TimeText(then), "'"),
                              absl::StrCat("end: '", TimeText(then + absl::Seconds(3)), "'")});
  };
  DeclareFor(then, {three("latest", "latest"), three("none", "none"), three("all", "{all: 2}")});
  WaitForRows("latest", 2, "skipped_director_down");
  WaitForRows("none", 2, "skipped_director_down");
  WaitForRows("all", 1, "skipped_director_down");
  EXPECT_FALSE(scheduler_->Status().director_reachable());

  StartDirector();
  WaitForRows("latest", 1, "fired");
  WaitForRows("none", 1, "fired");
  WaitForRows("all", 2, "fired");
  const std::vector<std::string> last_waits = {"0 skipped_director_down", "1 skipped_director_down",
                                               "2 fired"};
  EXPECT_EQ(RowsSince(then, "latest"), last_waits);
  EXPECT_EQ(RowsSince(then, "none"), last_waits);
  EXPECT_THAT(RowsSince(then, "all"), ElementsAre("0 skipped_director_down", "1 fired", "2 fired"));
  EXPECT_THAT(CronRequests(), ElementsAre(RequestId("all", then + absl::Seconds(1)),
                                          RequestId("all", then + absl::Seconds(2)),
                                          RequestId("latest", then + absl::Seconds(2)),
                                          RequestId("none", then + absl::Seconds(2))));
  EXPECT_TRUE(scheduler_->Status().director_reachable());
}

TEST_F(SchedulerOutageTest, JobWithAnAgentUrlRunsThereDuringAnOutage) {
  test::RunningServer agent(
      "services/agent/callboard-agent",
      {absl::StrCat("--director.address=", network_.address()), "--agent.name=agent-1",
       "--agent.allow_direct", "--runner.kind=shell", "--runner.allow_shell"});
  WriteJobs({SecondlyJob("direct", {"max_runs: 1", absl::StrCat("agent_url: 'grpc://",
                                                                agent.grpc_address(), "'")}),
             SecondlyJob("without")});
  StartScheduler();
  WaitForRows("direct", 1, "fired");
  WaitForRows("without", 2, "skipped_director_down");
  std::vector<v1::Firing> fired;
  for (const v1::Firing& row : scheduler_->Firings("direct")) {
    if (OutcomeOf(row) == "fired") fired.push_back(row);
  }
  ASSERT_EQ(fired.size(), 1u);
  EXPECT_THAT(fired[0].queue_id(), IsEmpty()) << "the director does not have it";
  ASSERT_THAT(fired[0].detail(), StartsWith("started directly on the agent: "));
  EXPECT_THAT(RowsSince(absl::UnixEpoch(), "without"),
              Each(::testing::EndsWith(" skipped_director_down")));

  const auto stub = v1::AgentService::NewStub(agent.NewChannel());
  v1::AgentServiceGetTaskRequest request;
  request.set_task_id(
      std::string(absl::StripPrefix(fired[0].detail(), "started directly on the agent: ")));
  WaitUntil([&] {
    const auto run = CallOn(*stub, &v1::AgentService::Stub::GetTask, request);
    return run.ok() && run->state() == v1::AgentRun::STATE_COMPLETED;
  });
}

}  // namespace
}  // namespace callboard
