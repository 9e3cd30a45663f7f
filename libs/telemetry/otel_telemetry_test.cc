#include "libs/telemetry/otel_telemetry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/log.h"
#include "libs/testing/files.h"
#include "libs/testing/otlp_collector.h"
#include "libs/testing/status_matchers.h"

namespace callboard::telemetry {
namespace {

using opentelemetry::proto::trace::v1::Span;
using opentelemetry::proto::trace::v1::Status;
using ports::FinishedSpan;
using ports::Telemetry;
using test::OtlpCollector;
using test::ReceivedSpan;
using test::StatusIs;
using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::SizeIs;

// More than a healthy collector needs, and less than the timeout of a call.
constexpr absl::Duration kSoon = absl::Seconds(5);

core::TraceId TestTrace(uint8_t randomness = 0xff) {
  std::array<uint8_t, 16> bytes = {0x4b, 0xf9};
  bytes[9] = randomness;
  return core::TraceId(bytes);
}

FinishedSpan TestSpan(std::string name = "queue.wait") {
  return {.name = std::move(name),
          .context = {.trace_id = TestTrace(), .span_id = core::SpanId({1, 2, 3, 4, 5, 6, 7, 8})},
          .start = absl::FromUnixSeconds(1'700'000'000),
          .end = absl::FromUnixSeconds(1'700'000'001)};
}

std::unique_ptr<Telemetry> StartOrDie(const TelemetryOptions& options) {
  absl::StatusOr<std::unique_ptr<Telemetry>> telemetry = StartTelemetry(options);
  CHECK_OK(telemetry.status());
  return *std::move(telemetry);
}

std::unique_ptr<Telemetry> StartFor(const std::string& address) {
  return StartOrDie(
      {.endpoint = address, .service_name = "tested", .flush_timeout = absl::Milliseconds(50)});
}

TEST(OtelTelemetryTest, SpanArrivesUnchanged) {
  OtlpCollector collector;
  const auto telemetry = StartFor(collector.address());
  FinishedSpan span = TestSpan("dispatch");
  span.kind = ports::SpanKind::kClient;
  span.parent = core::SpanId({8, 7, 6, 5, 4, 3, 2, 1});
  span.attributes = {{"agent", "agent-1"}, {"dispatch", 2}, {"final", true}, {"seconds", 0.5}};
  span.status = absl::AbortedError("the agent is busy");
  span.links = {{.trace_id = TestTrace(7), .span_id = core::SpanId({9})}};
  telemetry->Emit(span);

  const std::vector<ReceivedSpan> received = collector.WaitForSpans(1, kSoon);
  ASSERT_THAT(received, SizeIs(1));
  EXPECT_EQ(received[0].resource.at("service.name"), "tested");
  const Span& arrived = received[0].span;
  EXPECT_EQ(arrived.name(), "dispatch");
  EXPECT_EQ(arrived.kind(), Span::SPAN_KIND_CLIENT);
  EXPECT_EQ(arrived.trace_id(), std::string("\x4b\xf9\0\0\0\0\0\0\0\xff\0\0\0\0\0\0", 16));
  EXPECT_EQ(arrived.span_id(), "\x1\x2\x3\x4\x5\x6\x7\x8");
  EXPECT_EQ(arrived.parent_span_id(), "\x8\x7\x6\x5\x4\x3\x2\x1");
  EXPECT_EQ(arrived.start_time_unix_nano(), 1'700'000'000'000'000'000u);
  EXPECT_EQ(arrived.end_time_unix_nano(), 1'700'000'001'000'000'000u);
  ASSERT_EQ(arrived.attributes_size(), 4);
  EXPECT_EQ(arrived.attributes(0).key(), "agent");
  EXPECT_EQ(arrived.attributes(0).value().string_value(), "agent-1");
  EXPECT_EQ(arrived.attributes(1).value().int_value(), 2);
  EXPECT_TRUE(arrived.attributes(2).value().bool_value());
  EXPECT_EQ(arrived.attributes(3).value().double_value(), 0.5);
  EXPECT_EQ(arrived.status().code(), Status::STATUS_CODE_ERROR);
  EXPECT_EQ(arrived.status().message(), "the agent is busy");
  ASSERT_EQ(arrived.links_size(), 1);
  EXPECT_EQ(arrived.links(0).span_id(), std::string("\x9\0\0\0\0\0\0\0", 8));
}

TEST(OtelTelemetryTest, RootSpanHasNoParentAndSuccessNoStatus) {
  OtlpCollector collector;
  const auto telemetry = StartFor(collector.address());
  FinishedSpan span = TestSpan();
  span.end = span.start - absl::Seconds(1);
  telemetry->Emit(span);
  const std::vector<ReceivedSpan> received = collector.WaitForSpans(1, kSoon);
  ASSERT_THAT(received, SizeIs(1));
  EXPECT_EQ(received[0].span.parent_span_id(), "");
  EXPECT_FALSE(received[0].span.has_status());
  EXPECT_EQ(received[0].span.kind(), Span::SPAN_KIND_INTERNAL);
  EXPECT_EQ(received[0].span.end_time_unix_nano(), received[0].span.start_time_unix_nano())
      << "a clock that was set back must not make a span end before it began";
}

TEST(OtelTelemetryTest, FlushReturnsWhenEverythingIsDelivered) {
  OtlpCollector collector;
  const auto telemetry = StartFor(collector.address());
  // More than fit into one call.
  for (int i = 0; i < 5000; ++i) telemetry->Emit(TestSpan());
  telemetry->Flush(absl::Minutes(1));
  EXPECT_THAT(collector.WaitForSpans(0, absl::ZeroDuration()), SizeIs(5000));
}

TEST(OtelTelemetryTest, DestructorDeliversRemainingSpans) {
  OtlpCollector collector;
  auto telemetry = StartOrDie({.endpoint = collector.address(), .flush_timeout = absl::Minutes(1)});
  telemetry->Emit(TestSpan());
  telemetry.reset();
  EXPECT_THAT(collector.WaitForSpans(0, absl::ZeroDuration()), SizeIs(1));
}

TEST(OtelTelemetryTest, OnlySampledTracesAreSent) {
  OtlpCollector collector;
  const auto telemetry = StartOrDie({.endpoint = collector.address(), .sample_ratio = 0.5});
  EXPECT_FALSE(telemetry->ShouldSample(TestTrace(0x7f)));
  EXPECT_TRUE(telemetry->ShouldSample(TestTrace(0x80)));
  FinishedSpan unsampled = TestSpan("of an unsampled trace");
  unsampled.context.sampled = false;
  EXPECT_FALSE(telemetry->ShouldRecord(unsampled.context));
  EXPECT_TRUE(telemetry->ShouldRecord(TestSpan().context));
  telemetry->Emit(unsampled);
  telemetry->Emit(TestSpan("sampled"));
  telemetry->Flush(absl::Minutes(1));
  const std::vector<ReceivedSpan> received = collector.WaitForSpans(0, absl::ZeroDuration());
  ASSERT_THAT(received, SizeIs(1));
  EXPECT_EQ(received[0].span.name(), "sampled");
}

TEST(OtelTelemetryTest, WithoutAnEndpointTelemetryIsOff) {
  const auto telemetry = StartOrDie({});
  EXPECT_NE(dynamic_cast<ports::NoTelemetry*>(telemetry.get()), nullptr);
  telemetry->Emit(TestSpan());
  telemetry->Flush(absl::Minutes(1));
}

TEST(OtelTelemetryTest, InvalidEndpointIsAnError) {
  EXPECT_THAT(StartTelemetry({.endpoint = "127.0.0.1:otlp"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("telemetry.otlp_endpoint: '127.0.0.1:otlp' is not an address")));
}

// ---- Unhealthy collectors -----------------------------------------------------------------------

// A bound TCP port of 127.0.0.1 that never answers.
class SilentPort {
 public:
  SilentPort() {
    const int on = 1;
    // Lets a test start a server on the same port.
    CHECK_EQ(setsockopt(fd_, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    CHECK_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    CHECK_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~SilentPort() { close(fd_); }

  // Accepts connections from now on. Before, they are refused.
  void Listen() { CHECK_EQ(listen(fd_, 8), 0); }

  uint16_t port() const { return port_; }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  const int fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  uint16_t port_ = 0;
};

// Returns whether emitting more spans than fit into the queue, flushing and shutting down finish
// soon, although the collector at `address` accepts no spans.
bool FinishesSoon(const std::string& address) {
  const std::future<void> done = std::async(std::launch::async, [&address] {
    const auto telemetry = StartFor(address);
    for (int i = 0; i < 20'000; ++i) telemetry->Emit(TestSpan());
    telemetry->Flush(absl::Milliseconds(50));
  });
  return done.wait_for(absl::ToChronoNanoseconds(kSoon)) == std::future_status::ready;
}

TEST(OtelTelemetryTest, OnlyTheSenderThreadHasALowPriority) {
  // This must be the first gRPC call of the process, because it starts gRPC's threads.
  const SilentPort refusing;
  const auto telemetry = StartFor(refusing.address());
  telemetry->Emit(TestSpan());
  telemetry->Flush(absl::ZeroDuration());
  const int own = getpriority(PRIO_PROCESS, 0);
  int low = 0;
  bool grpc_threads_started = false;
  while (low == 0 || !grpc_threads_started) {
    low = 0;
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
      const auto id = static_cast<id_t>(std::stoul(thread.path().filename().string()));
      if (getpriority(PRIO_PROCESS, id) > own) ++low;
      grpc_threads_started |= test::FileText(thread.path() / "comm") == "nexting_thread\n";
    }
  }
  EXPECT_EQ(low, 1);
}

TEST(OtelTelemetryTest, UnreachableCollectorDoesNotBlock) {
  const SilentPort refusing;
  EXPECT_TRUE(FinishesSoon(refusing.address()));
}

TEST(OtelTelemetryTest, CollectorThatAcceptsAndStaysSilentDoesNotBlock) {
  SilentPort accepting;
  accepting.Listen();
  EXPECT_TRUE(FinishesSoon(accepting.address()));
}

TEST(OtelTelemetryTest, CollectorThatNeverAnswersDoesNotBlock) {
  OtlpCollector collector;
  collector.Hold();
  EXPECT_TRUE(FinishesSoon(collector.address()));
}

TEST(OtelTelemetryTest, CollectorThatStartsLateGetsTheSpans) {
  const SilentPort reserved;
  const auto telemetry = StartFor(reserved.address());
  telemetry->Emit(TestSpan());
  telemetry->Flush(absl::Milliseconds(50));
  OtlpCollector collector(reserved.port());
  EXPECT_THAT(collector.WaitForSpans(1, absl::Minutes(1)), SizeIs(1));
}

TEST(OtelTelemetryTest, LazySpanIsBuiltOnceAndOnlyIfSampled) {
  OtlpCollector collector;
  const auto telemetry = StartFor(collector.address());
  std::atomic<int> made = 0;
  const auto make = [&made] {
    ++made;
    return TestSpan();
  };
  core::SpanContext context = TestSpan().context;
  context.sampled = false;
  telemetry->EmitLater(context, make);
  context.sampled = true;
  telemetry->EmitLater(context, make);
  EXPECT_THAT(collector.WaitForSpans(1, absl::Minutes(1)), SizeIs(1));
  EXPECT_EQ(made, 1);
}

// Emits spans until one is lost. Returns the number of emitted spans.
size_t EmitUntilOneIsLost(Telemetry& telemetry) {
  size_t emitted = 0;
  for (; telemetry.lost() == 0; ++emitted) telemetry.Emit(TestSpan());
  return emitted;
}

TEST(OtelTelemetryTest, SpansLostToASilentCollectorAreCountedImmediately) {
  OtlpCollector collector;
  collector.Hold();
  const auto telemetry = StartFor(collector.address());
  const size_t emitted = EmitUntilOneIsLost(*telemetry);
  EXPECT_GT(emitted, 8192u);
  collector.Release();
  telemetry->Flush(absl::Minutes(1));
  telemetry->Emit(TestSpan("after the loss"));
  telemetry->Flush(absl::Minutes(1));
  const std::vector<ReceivedSpan> arrived = collector.WaitForSpans(0, absl::ZeroDuration());
  EXPECT_EQ(telemetry->lost(), 1u);
  EXPECT_EQ(arrived.size(), emitted);
  EXPECT_EQ(arrived.back().span.name(), "after the loss");
}

TEST(OtelTelemetryTest, SpansLostToAnUnreachableCollectorAreCounted) {
  const SilentPort refusing;
  const auto telemetry = StartFor(refusing.address());
  EXPECT_GT(EmitUntilOneIsLost(*telemetry), 8192u);
  // A span that is not recorded because the queue is full counts as lost.
  const uint64_t lost = telemetry->lost();
  while (telemetry->ShouldRecord(TestSpan().context)) telemetry->Emit(TestSpan());
  EXPECT_GT(telemetry->lost(), lost);
}

TEST(OtelTelemetryTest, SpanQueueIsBoundedAndDropsAreCounted) {
  std::ostringstream log;
  base::StartLogging({.sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(log)});
  OtlpCollector collector;
  collector.Hold();
  auto telemetry = StartFor(collector.address());
  constexpr size_t kEmitted = 20'000;
  for (size_t i = 0; i < kEmitted; ++i) telemetry->Emit(TestSpan());
  collector.Release();
  telemetry->Flush(absl::Minutes(1));
  const size_t arrived = collector.WaitForSpans(0, absl::ZeroDuration()).size();
  telemetry.reset();
  base::StartLogging({});

  // The queued spans and those of the pending call.
  EXPECT_THAT(arrived, AllOf(Ge(8192), Le(8192 + 2048)));
  EXPECT_THAT(log.str(), HasSubstr(absl::StrCat("spans_lost count=", kEmitted - arrived, "\n")));
}

}  // namespace
}  // namespace callboard::telemetry
