#include "libs/wire/job.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace callboard::wire {
namespace {

core::Job NightlyJob() {
  v1::SubmitTaskRequest task;
  task.set_prompt("do it");
  task.set_thinking(false);
  task.set_source("scheduler");
  task.set_source_job("nightly");
  core::Job job = {.name = "nightly"};
  job.task = std::make_shared<const std::string>(task.SerializeAsString());
  return job;
}

TEST(JobSubmissionTest, SubmitIsTheTaskOfTheJobWithTheFieldsOfTheSubmission) {
  const core::Job job = NightlyJob();
  core::JobSubmission submission =
      core::MakeJobSubmission(job, "cron/nightly/60", core::OverlapPolicy::kQueueOne);
  submission.overlap.n = 2;
  const v1::SubmitTaskRequest submit = ToProto(submission);
  v1::SubmitTaskRequest expected;
  ASSERT_TRUE(expected.ParseFromString(*job.task));
  expected.set_request_id("cron/nightly/60");
  expected.mutable_overlap()->set_key("nightly");
  expected.mutable_overlap()->set_policy(v1::Overlap::POLICY_QUEUE_ONE);
  expected.mutable_overlap()->set_n(2);
  expected.set_policy(v1::QUEUE_POLICY_REJECT);
  EXPECT_EQ(submit.SerializeAsString(), expected.SerializeAsString());
}

TEST(JobSubmissionTest, DirectStartHasTheSameTaskWithoutAPolicy) {
  const v1::Task task = DirectTask(
      core::MakeJobSubmission(NightlyJob(), "cron/nightly/60", core::OverlapPolicy::kSkip));
  EXPECT_EQ(task.prompt(), "do it");
  EXPECT_TRUE(task.has_thinking());
  EXPECT_EQ(task.request_id(), "cron/nightly/60");
  EXPECT_EQ(task.overlap().key(), "nightly");
  EXPECT_EQ(task.policy(), v1::QUEUE_POLICY_UNSPECIFIED);
}

TEST(JobSubmissionTest, DeclaredTaskIsThatOfTheJob) {
  const v1::Task task = DeclaredTask(NightlyJob());
  EXPECT_EQ(task.prompt(), "do it");
  EXPECT_EQ(task.source(), "scheduler");
  EXPECT_EQ(task.source_job(), "nightly");
  EXPECT_EQ(task.request_id(), "");
}

}  // namespace
}  // namespace callboard::wire
