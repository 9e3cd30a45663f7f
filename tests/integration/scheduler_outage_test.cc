// Occurrences whose director is not there.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include "absl/strings/strip.h"
#include "callboard/v1/agent.grpc.pb.h"
#include "tests/integration/cron_fixture.h"

namespace callboard {
namespace {

using test::OutcomeOf;
using test::Secondly;
using test::TimeText;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class SchedulerOutageTest : public test::CronFixture {};

TEST_F(SchedulerOutageTest, EachOccurrenceWithoutADirectorIsSkippedOrWaitsAsItsJobSays) {
  WriteJobs({});
  StartScheduler();
  const absl::Time then = Soon();
  const auto three = [&](const std::string& name, const std::string& catch_up) {
    return Secondly(name, {"overlap: allow", absl::StrCat("catch_up: ", catch_up),
                           absl::StrCat("start: '", TimeText(then), "'"),
                           absl::StrCat("end: '", TimeText(then + absl::Seconds(3)), "'")});
  };
  DeclareFor(then, {three("latest", "latest"), three("none", "none"), three("all", "{all: 2}")});
  AwaitRows("latest", 2, "skipped_director_down");
  AwaitRows("none", 2, "skipped_director_down");
  AwaitRows("all", 1, "skipped_director_down");
  EXPECT_FALSE(scheduler_->Status().director_reachable());

  StartDirector();
  AwaitRows("latest", 1, "fired");
  AwaitRows("none", 1, "fired");
  AwaitRows("all", 2, "fired");
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

TEST_F(SchedulerOutageTest, JobWithAnAgentRunsThereWhenTheDirectorWasNeverReached) {
  test::RunningServer agent(
      "services/agent/callboard-agent",
      {absl::StrCat("--director.address=", network_.address()), "--agent.name=agent-1",
       "--agent.allow_direct", "--runner.kind=shell", "--runner.allow_shell"});
  WriteJobs({Secondly("direct", {"max_runs: 1",
                                 absl::StrCat("agent_url: 'grpc://", agent.grpc_address(), "'")}),
             Secondly("without")});
  StartScheduler();
  AwaitRows("direct", 1, "fired");
  AwaitRows("without", 2, "skipped_director_down");
  std::vector<v1::Firing> fired;
  for (const v1::Firing& row : scheduler_->Firings("direct")) {
    if (OutcomeOf(row) == "fired") fired.push_back(row);
  }
  ASSERT_EQ(fired.size(), 1u);
  EXPECT_THAT(fired[0].queue_id(), IsEmpty()) << "no director has it";
  ASSERT_THAT(fired[0].detail(), StartsWith("direct, past the queue: "));
  EXPECT_THAT(RowsSince(absl::UnixEpoch(), "without"),
              Each(::testing::EndsWith(" skipped_director_down")));

  const auto stub = v1::AgentService::NewStub(agent.NewChannel());
  v1::AgentServiceGetTaskRequest request;
  request.set_task_id(
      std::string(absl::StripPrefix(fired[0].detail(), "direct, past the queue: ")));
  Await([&] {
    const auto run = CallOn(*stub, &v1::AgentService::Stub::GetTask, request);
    return run.ok() && run->state() == v1::AgentRun::STATE_COMPLETED;
  });
}

}  // namespace
}  // namespace callboard
