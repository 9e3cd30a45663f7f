#include "services/cli/db_tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace callboard::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr core::QueueId kId = core::QueueId(core::Ulid(0, 1));

adapters::TaskReading Submitted() {
  core::TaskSpec spec;
  spec.prompt = "echo hello";
  spec.env = {{"KEY", "value"}};
  spec.max_attempts = 3;
  core::TaskRecord record = {
      .queue_id = kId,
      .event = {.number = 1,
                .kind = core::TaskEventKind::kAdmitted,
                .at = absl::FromUnixSeconds(100),
                .who = "anonymous"},
      .change = core::Admitted{.spec = std::make_shared<const core::TaskSpec>(spec),
                               .submitted_at = absl::FromUnixSeconds(99),
                               .sequence = 1}};
  return {.records = {record}, .damage = ""};
}

TEST(DbTasksTest, TaskIsShownInFullWithItsEvents) {
  const std::string json = TaskJson({.queue_id = kId, .position = 4}, Submitted());
  EXPECT_THAT(json, StartsWith(R"({"task":{"prompt":"echo hello",)"));
  EXPECT_THAT(json, HasSubstr(R"("queue_id":")" + core::ToString(kId)));
  EXPECT_THAT(json, HasSubstr(R"("state":"pending")"));
  EXPECT_THAT(json, HasSubstr(R"("position":4)"));
  EXPECT_THAT(json, HasSubstr(R"("env":{"KEY":"value"})"));
  EXPECT_THAT(json, HasSubstr(R"("events":[{"number":1,"kind":"SUBMITTED",)"));
  EXPECT_THAT(json, HasSubstr(R"({"number":1,"kind":"ADMITTED",)"));
  EXPECT_THAT(json, EndsWith("],\"damage\":null}\n"));
}

TEST(DbTasksTest, TaskSaysWhatOfItCannotBeRead) {
  adapters::TaskReading reading = Submitted();
  reading.damage = "record 2 is accepted while nobody was asked";
  EXPECT_THAT(TaskJson({.queue_id = kId}, reading),
              EndsWith("\"damage\":\"record 2 is accepted while nobody was asked\"}\n"));
  EXPECT_THAT(TaskText({.queue_id = kId}, reading),
              EndsWith("damaged    record 2 is accepted while nobody was asked\n"));
}

TEST(DbTasksTest, TaskForPeopleHasALineForEachEvent) {
  EXPECT_EQ(TaskText({.queue_id = kId, .position = 4}, Submitted()),
            "task       " + core::ToString(kId) +
                "\n"
                "state      pending, place 4\n"
                "prompt     \"echo hello\"\n"
                "attempts   0 of 3\n"
                "     1  1970-01-01T00:01:39.000Z  SUBMITTED        anonymous\n"
                "     1  1970-01-01T00:01:40.000Z  ADMITTED         anonymous\n");
}

}  // namespace
}  // namespace callboard::cli
