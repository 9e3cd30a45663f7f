#include "libs/telemetry/otel_telemetry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace callboard::telemetry {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

OtelVariables Read(const std::map<std::string, std::string>& variables) {
  return ReadOtelVariables([&variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  });
}

std::vector<std::string> IgnoredNames(const OtelVariables& variables) {
  std::vector<std::string> names;
  for (const IgnoredVariable& ignored : variables.ignored) names.push_back(ignored.name);
  return names;
}

// Half of all traces are in a sample of one half.
const core::TraceId kInHalf({1, 0, 0, 0, 0, 0, 0, 0, 0, 0xff});
const core::TraceId kNotInHalf({1});

core::SpanContext CallerOf(const core::TraceId& trace, bool sampled) {
  return {.trace_id = trace, .span_id = core::SpanId({1}), .sampled = sampled};
}

TEST(OtelVariablesTest, WithoutVariablesDefaultsApply) {
  const OtelVariables none = Read({});
  EXPECT_FALSE(none.is_disabled);
  EXPECT_FALSE(none.has_endpoint);
  EXPECT_FALSE(none.sampler.has_value());
  EXPECT_EQ(none.batching.waiting_max, 8192u);
  EXPECT_EQ(none.batching.batch_max, 2048u);
  EXPECT_THAT(none.ignored, IsEmpty());
}

TEST(OtelVariablesTest, ParentBasedSamplersDecideOnlyForRootSpans) {
  const OtelVariables read = Read(
      {{"OTEL_TRACES_SAMPLER", "parentbased_traceidratio"}, {"OTEL_TRACES_SAMPLER_ARG", "0.5"}});
  EXPECT_TRUE(read.sampler->ShouldSample(kInHalf));
  EXPECT_FALSE(read.sampler->ShouldSample(kNotInHalf));
  EXPECT_TRUE(read.sampler->ShouldJoin(CallerOf(kNotInHalf, true)));
  EXPECT_FALSE(read.sampler->ShouldJoin(CallerOf(kInHalf, false)));
  EXPECT_TRUE(Read({{"OTEL_TRACES_SAMPLER", "parentbased_always_off"}})
                  .sampler->ShouldJoin(CallerOf(kInHalf, true)));
  EXPECT_FALSE(Read({{"OTEL_TRACES_SAMPLER", "parentbased_always_on"}})
                   .sampler->ShouldJoin(CallerOf(kInHalf, false)));
}

TEST(OtelVariablesTest, OtherSamplersIgnoreTheCallersDecision) {
  const OtelVariables ratio =
      Read({{"OTEL_TRACES_SAMPLER", "traceidratio"}, {"OTEL_TRACES_SAMPLER_ARG", "0.5"}});
  EXPECT_TRUE(ratio.sampler->ShouldJoin(CallerOf(kInHalf, false)));
  EXPECT_FALSE(ratio.sampler->ShouldJoin(CallerOf(kNotInHalf, true)));
  const OtelVariables on = Read({{"OTEL_TRACES_SAMPLER", "always_on"}});
  EXPECT_TRUE(on.sampler->ShouldSample(kNotInHalf));
  EXPECT_TRUE(on.sampler->ShouldJoin(CallerOf(kNotInHalf, false)));
  const OtelVariables off = Read({{"OTEL_TRACES_SAMPLER", "always_off"}});
  EXPECT_FALSE(off.sampler->ShouldSample(kInHalf));
  EXPECT_FALSE(off.sampler->ShouldJoin(CallerOf(kInHalf, true)));
}

TEST(OtelVariablesTest, RatioSamplerWithoutARatioKeepsAll) {
  EXPECT_EQ(Read({{"OTEL_TRACES_SAMPLER", "traceidratio"}}).sampler->ratio, 1);
  const OtelVariables wrong =
      Read({{"OTEL_TRACES_SAMPLER", "traceidratio"}, {"OTEL_TRACES_SAMPLER_ARG", "2"}});
  EXPECT_EQ(wrong.sampler->ratio, 1);
  EXPECT_THAT(IgnoredNames(wrong), ElementsAre("OTEL_TRACES_SAMPLER_ARG"));
}

TEST(OtelVariablesTest, BatchVariablesAreRead) {
  const OtelVariables read = Read({{"OTEL_BSP_MAX_QUEUE_SIZE", "4000"},
                                   {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "100"},
                                   {"OTEL_BSP_SCHEDULE_DELAY", "5000"},
                                   {"OTEL_BSP_EXPORT_TIMEOUT", "3000"}});
  EXPECT_EQ(read.batching.waiting_max, 4000u);
  EXPECT_EQ(read.batching.batch_max, 100u);
  EXPECT_EQ(read.batching.delay, absl::Seconds(5));
  EXPECT_EQ(read.batching.timeout, absl::Seconds(3));
  EXPECT_THAT(read.ignored, IsEmpty());
  EXPECT_EQ(Read({{"OTEL_BSP_MAX_QUEUE_SIZE", "10"}}).batching.batch_max, 10u)
      << "at most the size of the queue";
}

TEST(OtelVariablesTest, NumberOutOfRangeIsIgnored) {
  const OtelVariables read = Read({{"OTEL_BSP_MAX_QUEUE_SIZE", "1000000000"},
                                   {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "0"},
                                   {"OTEL_BSP_SCHEDULE_DELAY", "-1"},
                                   {"OTEL_BSP_EXPORT_TIMEOUT", "soon"}});
  EXPECT_EQ(read.batching.waiting_max, 8192u);
  EXPECT_THAT(read.ignored,
              ElementsAre(IgnoredVariable{"OTEL_BSP_MAX_QUEUE_SIZE", "1..131072"},
                          IgnoredVariable{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1..4096"},
                          IgnoredVariable{"OTEL_BSP_SCHEDULE_DELAY", "1..60000"},
                          IgnoredVariable{"OTEL_BSP_EXPORT_TIMEOUT", "1..600000"}));
}

TEST(OtelVariablesTest, UnsupportedVariablesAreListed) {
  EXPECT_THAT(
      IgnoredNames(Read({{"OTEL_TRACES_SAMPLER", "jaeger_remote"},
                         {"OTEL_EXPORTER_OTLP_CLIENT_KEY", "key.pem"},
                         {"OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "own.pem"},
                         {"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"},
                         {"OTEL_TRACES_EXPORTER", "console"},
                         {"OTEL_PROPAGATORS", "b3,baggage"}})),
      ElementsAre("OTEL_TRACES_SAMPLER", "OTEL_EXPORTER_OTLP_CLIENT_KEY",
                  "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_PROTOCOL",
                  "OTEL_TRACES_EXPORTER", "OTEL_PROPAGATORS"));
}

TEST(OtelVariablesTest, SupportedVariablesAreNotListed) {
  EXPECT_THAT(Read({{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"},
                    {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"},
                    {"OTEL_TRACES_EXPORTER", "otlp"},
                    {"OTEL_PROPAGATORS", "baggage, tracecontext"},
                    {"OTEL_TRACES_SAMPLER", "always_on"}})
                  .ignored,
              IsEmpty());
}

}  // namespace
}  // namespace callboard::telemetry
