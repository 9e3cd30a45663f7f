// Tests that clients can parse every answer of the scheduler, whatever bytes are in the director's
// errors and in old records.
#include <grpcpp/support/status.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <optional>
#include <string>

#include "callboard/v1/scheduler.pb.h"
#include "libs/store/rocksdb_ledger.h"
#include "libs/testing/cron_jobs.h"
#include "libs/testing/files.h"
#include "libs/testing/scheduler_fixture.h"
#include "libs/wire/status.h"
#include "services/scheduler/job_messages.h"

namespace callboard {
namespace {

using test::CronJob;
using test::DrawBytes;
using test::Parses;

// A job with two submits, one scheduled and one triggered, that are rejected with `message`.
class RejectedJob final : public test::SchedulerFixture {
 public:
  explicit RejectedJob(const std::string& message) {
    const absl::Status error =
        wire::FromGrpc(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, message));
    Start({CronJob("job", "* * * * *")});
    Advance(absl::Seconds(30));
    Answer(error);
    engine_->Trigger(scheduler::TriggerCallId(1), {.job = "job", .id = "t1"}, now_);
    Commit();
    Answer(error);
  }
  v1::ListFiringsResponse Firings() const {
    scheduler::FiringPage page;
    for (const auto& [key, row] : disk_.rows().at("job")) page.firings.push_back(row);
    return ListResponse(page);
  }
  v1::Job Job() const {
    scheduler::JobDetail detail = {.view = View("job")};
    for (const auto& [key, row] : disk_.rows().at("job")) detail.last_firings.push_back(row);
    return ToProto(detail);
  }

 private:
  void TestBody() override {}
};

TEST(ResponseEncodingTest, ResponsesAreValidUtf8ForAnyDirectorError) {
  EXPECT_TRUE(rc::check([] {
    const RejectedJob job(DrawBytes());
    RC_ASSERT(job.Firings().firings_size() == 2);
    RC_ASSERT(Parses(job.Firings()));
    RC_ASSERT(Parses(job.Job()));
  }));
}

TEST(ResponseEncodingTest, ResponsesAreValidUtf8ForAnyOldRecord) {
  EXPECT_TRUE(rc::check([] {
    const std::string text = DrawBytes();
    const core::Firing row = {.job = "job",
                              .nominal = absl::FromUnixSeconds(1),
                              .decided_at = absl::FromUnixSeconds(2),
                              .queue_id = text,
                              .request_id = text,
                              .detail = text};
    const auto read = store::DecodeRow(store::OccurrenceKey(store::kRowPrefix, "job", row.nominal),
                                       store::Encode(row));
    RC_ASSERT(read.ok());
    RC_ASSERT(Parses(ToProto(*read)));

    scheduler::JobState state = {.job = "job", .tracked_tasks = {text}, .last_queue_id = text};
    state.pause = scheduler::Pause{.by = text, .why = text};
    scheduler::LedgerContents contents;
    RC_ASSERT(store::Decode("job/job", store::Encode(state), contents).ok());
    RC_ASSERT(Parses(ToProto(
        scheduler::JobView{.job = CronJob("job", "* * * * *"), .state = contents.jobs.at("job")})));
  }));
}

}  // namespace
}  // namespace callboard
