// Collectors of traces that are down, slow or failing: submits do not notice.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/testing/http_client.h"
#include "libs/testing/new_folder.h"
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

// Spans that the director says it has lost.
double Dropped(const crash::DirectorProcess& director) {
  constexpr char kMetric[] = "\ncallboard_spans_dropped_total ";
  const std::string page = test::HttpGet(director.http_port(), "/metrics").body;
  const size_t found = page.find(kMetric);
  return found == std::string::npos ? 0 : std::stod(page.substr(found + sizeof(kMetric) - 1));
}

enum class Spans { kWait, kAreLost };

// What becomes of submits, cancels and lists of a director with that collector, which ends in
// order.
crash::Verdict RunWith(const std::string& collector, Spans spans = Spans::kWait) {
  crash::DirectorProcess director(
      test::NewFolder(),
      {"--queue.max_size=0", absl::StrCat("--telemetry.otlp_endpoint=", collector)});
  uint64_t tick = 0;
  const crash::History history = crash::RunLoad({.clients = 1, .calls_per_client = 300},
                                                director.address(), [&tick] { return ++tick; });
  for (const Call& call : history) EXPECT_EQ(call.answer, Call::Answer::kDone);
  crash::Verdict verdict = crash::CheckHistory(history, *QueueClient(director.address()).FindAll());
  EXPECT_EQ(test::HttpGet(director.http_port(), "/readyz").status, 200);
  while (spans == Spans::kAreLost && Dropped(director) == 0) {
  }
  EXPECT_EQ(director.Stop(), 0);
  return verdict;
}

TEST(CollectorTest, CollectorThatIsDownIsNotNoticed) {
  const crash::Verdict verdict = RunWith(kNowhere);
  EXPECT_TRUE(verdict.ok()) << verdict.ToString();
}

TEST(CollectorTest, CollectorThatNeverAnswersIsNotNoticed) {
  test::OtlpCollector collector;
  collector.Hold();
  const crash::Verdict verdict = RunWith(collector.address());
  EXPECT_TRUE(verdict.ok()) << verdict.ToString();
}

TEST(CollectorTest, CollectorThatAlwaysFailsIsNotNoticedButCounted) {
  test::OtlpCollector collector;
  collector.Fail();
  const crash::Verdict verdict = RunWith(collector.address(), Spans::kAreLost);
  EXPECT_TRUE(verdict.ok()) << verdict.ToString();
}

}  // namespace
}  // namespace callboard::faults
