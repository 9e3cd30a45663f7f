// Trace collectors that are down, slow or failing do not affect submits.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/testing/files.h"
#include "libs/testing/http_client.h"
#include "libs/testing/otlp_collector.h"
#include "tests/crash/director_process.h"
#include "tests/crash/history_checker.h"
#include "tests/crash/load.h"
#include "tests/crash/queue_client.h"
#include "tests/faults/shell_agent.h"

namespace callboard::faults {
namespace {

using crash::Call;
using crash::QueueClient;

// Returns the number of spans that the director reports as lost.
double Dropped(const crash::DirectorProcess& director) {
  constexpr char kMetric[] = "\ncallboard_spans_dropped_total ";
  const std::string page = test::HttpGet(director.http_port(), "/metrics").body;
  const size_t found = page.find(kMetric);
  return found == std::string::npos ? 0 : std::stod(page.substr(found + sizeof(kMetric) - 1));
}

enum class Spans { kWait, kAreLost };

// Runs submits, cancels and lists against a director with that collector, and stops it with
// SIGTERM.
crash::CheckResult RunWith(const std::string& collector, Spans spans = Spans::kWait) {
  crash::DirectorProcess director(
      test::NewFolder(),
      {"--queue.max_size=0", absl::StrCat("--telemetry.otlp_endpoint=", collector)});
  uint64_t tick = 0;
  const crash::History history = crash::RunLoad({.clients = 1, .calls_per_client = 300},
                                                director.address(), [&tick] { return ++tick; });
  for (const Call& call : history) EXPECT_EQ(call.answer, Call::Answer::kDone);
  crash::CheckResult check_result =
      crash::CheckHistory(history, *QueueClient(director.address()).FindAll());
  EXPECT_EQ(test::HttpGet(director.http_port(), "/readyz").status, 200);
  while (spans == Spans::kAreLost && Dropped(director) == 0) {
  }
  EXPECT_EQ(director.Stop(), 0);
  return check_result;
}

TEST(CollectorTest, UnreachableCollectorHasNoEffect) {
  const crash::CheckResult check_result = RunWith(kNowhere);
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
}

TEST(CollectorTest, SilentCollectorHasNoEffect) {
  test::OtlpCollector collector;
  collector.Hold();
  const crash::CheckResult check_result = RunWith(collector.address());
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
}

TEST(CollectorTest, FailingCollectorIsOnlyCounted) {
  test::OtlpCollector collector;
  collector.Fail();
  const crash::CheckResult check_result = RunWith(collector.address(), Spans::kAreLost);
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
}

}  // namespace
}  // namespace callboard::faults
