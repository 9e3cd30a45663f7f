#include "tests/api/settings_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "libs/testing/files.h"

namespace callboard {
namespace {

using ::testing::HasSubstr;

TEST(SettingsPageTest, PageInDocsIsCurrent) {
  EXPECT_EQ(test::FileText("docs/SETTINGS.md"), SettingsPage())
      << "run: bazel run //tests/api:write_settings_page > docs/SETTINGS.md";
}

TEST(SettingsPageTest, EverySettingOfTheDesignExists) {
  for (const char* name : {"config",
                           "data_dir",
                           "grpc.listen",
                           "http.listen",
                           "port_file",
                           "director.address",
                           "scheduler.address",
                           "queue.max_size",
                           "queue.policy",
                           "queue.max_attempts",
                           "queue.dispatch_timeout",
                           "queue.max_waiters",
                           "queue.max_waiting_bytes",
                           "queue.scheduler_share",
                           "queue.allow_evict",
                           "lease.heartbeat",
                           "lease.self_fence",
                           "lease.redispatch_after",
                           "lease.kill_grace",
                           "retention.age",
                           "retention.count",
                           "fleet.agents",
                           "agent.name",
                           "agent.advertise",
                           "agent.allow_direct",
                           "agent.drain_timeout",
                           "lanes",
                           "runner.kind",
                           "runner.argv",
                           "runner.allow_shell",
                           "jobs_file",
                           "telemetry.otlp_endpoint",
                           "log.level",
                           "log.format",
                           "dashboard.enabled",
                           "flow.enabled",
                           "flow.cpu_tokens",
                           "flow.io_tokens",
                           "flow.memory_tokens",
                           "flow.low_resource",
                           "flow.starvation_ms",
                           "flow.lanes.<name>.priority",
                           "flow.lanes.<name>.max_pending",
                           "insecure_listen"}) {
    EXPECT_THAT(SettingsPage(), HasSubstr(absl::StrCat("| `", name, "` |")));
  }
}

}  // namespace
}  // namespace callboard
