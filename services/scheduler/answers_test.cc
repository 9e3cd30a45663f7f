// Whatever bytes directors, agents and old records hold, a client can parse what the scheduler
// answers.
#include <grpcpp/support/status.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <optional>
#include <string>

#include "callboard/v1/scheduler.pb.h"
#include "libs/adapters/rocksdb_ledger/ledger_codec.h"
#include "libs/testing/any_bytes.h"
#include "libs/testing/cron_jobs.h"
#include "libs/testing/scheduler_fixture.h"
#include "libs/wire/status.h"
#include "services/scheduler/job_messages.h"

namespace callboard {
namespace {

using test::CronJob;
using test::DrawBytes;
using test::Parses;

// A job whose submits are refused with `said`: one of its schedule and one of a trigger.
class RefusedJob final : public test::SchedulerFixture {
 public:
  explicit RefusedJob(const std::string& said) {
    const absl::Status refusal =
        wire::FromGrpc(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, said));
    Start({CronJob("job", "* * * * *")});
    Advance(absl::Seconds(30));
    Answer(refusal);
    engine_->Trigger(scheduler::CallId(1), {.job = "job", .id = "t1"}, now_);
    Commit();
    Answer(refusal);
  }
  v1::ListFiringsResponse Firings() const {
    scheduler::FiringPage page;
    for (const auto& [key, row] : disk_.rows().at("job")) page.firings.push_back(row);
    return ListResponse(page);
  }
  v1::Job Job() const {
    scheduler::JobDetail detail = {.view = View("job")};
    for (const auto& [key, row] : disk_.rows().at("job")) detail.last.push_back(row);
    return ToProto(detail);
  }

 private:
  void TestBody() override {}
};

TEST(AnswersTest, EveryAnswerParsesWhateverADirectorSays) {
  EXPECT_TRUE(rc::check([] {
    const RefusedJob job(DrawBytes());
    RC_ASSERT(job.Firings().firings_size() == 2);
    RC_ASSERT(Parses(job.Firings()));
    RC_ASSERT(Parses(job.Job()));
  }));
}

TEST(AnswersTest, EveryAnswerParsesWhateverAnOldRecordHolds) {
  EXPECT_TRUE(rc::check([] {
    const std::string text = DrawBytes();
    const core::Firing row = {.job = "job",
                              .nominal = absl::FromUnixSeconds(1),
                              .decided_at = absl::FromUnixSeconds(2),
                              .queue_id = text,
                              .request_id = text,
                              .detail = text};
    const auto read = adapters::DecodeRow(
        adapters::OccurrenceKey(adapters::kRowPrefix, "job", row.nominal), adapters::Encode(row));
    RC_ASSERT(read.ok());
    RC_ASSERT(Parses(ToProto(*read)));

    scheduler::JobState state = {.job = "job", .watched = {text}, .last_queue_id = text};
    state.pause = scheduler::Pause{.by = text, .why = text};
    scheduler::Ledgered ledgered;
    RC_ASSERT(adapters::Decode("job/job", adapters::Encode(state), ledgered).ok());
    RC_ASSERT(Parses(ToProto(
        scheduler::JobView{.job = CronJob("job", "* * * * *"), .state = ledgered.jobs.at("job")})));
  }));
}

}  // namespace
}  // namespace callboard
