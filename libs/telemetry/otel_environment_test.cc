// Tests how StartTelemetry() uses environment variables. Each case runs this program again as a
// child process with the variables of the case.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/telemetry/otel_telemetry.h"
#include "libs/testing/files.h"
#include "libs/testing/otlp_collector.h"
#include "libs/testing/process.h"

namespace callboard::telemetry {
namespace {

using test::OtlpCollector;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Optional;
using ::testing::Pair;
using ::testing::SizeIs;

// Runs in the child: emits one span with the settings `endpoint`, `service_name` and, unless it is
// empty, `sample_ratio`.
void EmitOneSpan(const std::string& endpoint, const std::string& service_name,
                 const std::string& sample_ratio) {
  std::optional<double> ratio;
  if (!sample_ratio.empty()) ratio = std::stod(sample_ratio);
  const auto telemetry = StartTelemetry({.endpoint = endpoint,
                                         .service_name = service_name,
                                         .binary_name = "callboard-tested",
                                         .sample_ratio = ratio,
                                         .flush_timeout = absl::Seconds(30)});
  CHECK_OK(telemetry.status());
  const core::TraceId trace_id({1});
  (*telemetry)
      ->Emit({.name = "fire",
              .context = {.trace_id = trace_id,
                          .span_id = core::SpanId({1}),
                          .sampled = (*telemetry)->ShouldSample(trace_id)},
              .start = absl::UnixEpoch(),
              .end = absl::UnixEpoch()});
}

struct Settings {
  std::string endpoint = {};
  std::string service_name = {};
  std::string sample_ratio = {};
};

class OtelEnvironmentTest : public ::testing::Test {
 protected:
  // Runs the child until it exits and returns its output.
  std::string Emit(const std::vector<std::string>& environment, const Settings& settings = {}) {
    std::vector<std::string> command = {"/usr/bin/env"};
    command.insert(command.end(), environment.begin(), environment.end());
    command.insert(command.end(),
                   {std::filesystem::read_symlink("/proc/self/exe"), "emit", settings.endpoint,
                    settings.service_name, settings.sample_ratio});
    test::Process child(command);
    EXPECT_THAT(child.WaitForExit(absl::Minutes(1)), Optional(0));
    return child.Output();
  }
  // Returns the resource of the only span, or nothing unless exactly one span arrived.
  std::map<std::string, std::string> SenderResource() {
    const auto spans = collector_.WaitForSpans(0, absl::ZeroDuration());
    return spans.size() == 1 ? spans[0].resource : std::map<std::string, std::string>();
  }

  OtlpCollector collector_;
  const std::string endpoint_ =
      absl::StrCat("OTEL_EXPORTER_OTLP_ENDPOINT=http://", collector_.address());
};

TEST_F(OtelEnvironmentTest, ProvidesEndpointAndResourceWithoutSettings) {
  Emit({endpoint_, "OTEL_SERVICE_NAME=named", "OTEL_RESOURCE_ATTRIBUTES=zone=a,rack=7"});
  EXPECT_THAT(SenderResource(),
              IsSupersetOf({Pair("service.name", "named"), Pair("zone", "a"), Pair("rack", "7"),
                            Pair("service.version", "0.1.0")}));
}

TEST_F(OtelEnvironmentTest, TracesEndpointOverridesTheGeneralEndpoint) {
  const std::string traces =
      absl::StrCat("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://", collector_.address());
  Emit({traces});
  Emit({traces, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"});
  EXPECT_THAT(collector_.WaitForSpans(0, absl::ZeroDuration()), SizeIs(2));
}

TEST_F(OtelEnvironmentTest, UnnamedServiceGetsTheBinaryName) {
  Emit({endpoint_});
  EXPECT_EQ(SenderResource()["service.name"], "callboard-tested");
}

TEST_F(OtelEnvironmentTest, SettingsOverrideVariables) {
  Emit({"OTEL_EXPORTER_OTLP_ENDPOINT=https://127.0.0.1:1", "OTEL_TRACES_EXPORTER=none",
        "OTEL_SERVICE_NAME=named"},
       {.endpoint = collector_.address(), .service_name = "set"});
  EXPECT_EQ(SenderResource()["service.name"], "set");
}

TEST_F(OtelEnvironmentTest, CanDisableTelemetry) {
  Emit({endpoint_, "OTEL_TRACES_EXPORTER=none"});
  Emit({"OTEL_SDK_DISABLED=true"}, {.endpoint = collector_.address()});
  EXPECT_THAT(collector_.WaitForSpans(0, absl::ZeroDuration()), IsEmpty());
}

TEST_F(OtelEnvironmentTest, TlsCollectorIsVerifiedAndReceivesTheHeaders) {
  const std::filesystem::path folder = test::NewFolder();
  const std::string key = folder / "key.pem";
  const std::string certificate = folder / "certificate.pem";
  test::Process openssl({"/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                         "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                         "/CN=collector", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key,
                         "-out", certificate});
  ASSERT_THAT(openssl.WaitForExit(absl::Minutes(1)), Optional(0)) << openssl.Output();
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs = {{test::FileText(key), test::FileText(certificate)}};
  OtlpCollector secure(0, grpc::SslServerCredentials(options));
  Emit({absl::StrCat("OTEL_EXPORTER_OTLP_ENDPOINT=https://", secure.address()),
        absl::StrCat("OTEL_EXPORTER_OTLP_CERTIFICATE=", certificate),
        "OTEL_EXPORTER_OTLP_HEADERS=x-tenant=a,x-token=b"});
  const auto spans = secure.WaitForSpans(1, absl::Seconds(30));
  ASSERT_THAT(spans, SizeIs(1));
  EXPECT_THAT(spans[0].headers, IsSupersetOf({Pair("x-tenant", "a"), Pair("x-token", "b")}));
}

TEST_F(OtelEnvironmentTest, SamplerVariableSetsTheSampledShare) {
  Emit({endpoint_, "OTEL_TRACES_SAMPLER=always_off"});
  Emit({endpoint_, "OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=0"});
  EXPECT_THAT(collector_.WaitForSpans(0, absl::ZeroDuration()), IsEmpty());
  Emit({endpoint_, "OTEL_TRACES_SAMPLER=always_on"});
  const std::string output = Emit({endpoint_, "OTEL_TRACES_SAMPLER=traceidratio",  //
                                   "OTEL_TRACES_SAMPLER_ARG=2"});
  EXPECT_THAT(output, HasSubstr(" WARN telemetry=variable_ignored "
                                "variable=OTEL_TRACES_SAMPLER_ARG wanted=0..1"));
  EXPECT_EQ(collector_.WaitForSpans(2, absl::Seconds(10)).size(), 2u);
}

TEST_F(OtelEnvironmentTest, SampleRatioSettingOverridesTheSampler) {
  Emit({endpoint_, "OTEL_TRACES_SAMPLER=always_off"}, {.sample_ratio = "1"});
  EXPECT_THAT(collector_.WaitForSpans(0, absl::ZeroDuration()), SizeIs(1));
  Emit({endpoint_, "OTEL_TRACES_SAMPLER=always_on"}, {.sample_ratio = "0"});
  EXPECT_THAT(collector_.WaitForSpans(0, absl::ZeroDuration()), SizeIs(1));
}

TEST_F(OtelEnvironmentTest, UnsupportedValueIsLoggedAndIgnored) {
  const std::string output = Emit({endpoint_, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"});
  EXPECT_THAT(output, HasSubstr(" WARN telemetry=variable_ignored "
                                "variable=OTEL_EXPORTER_OTLP_PROTOCOL wanted=grpc"));
  EXPECT_THAT(collector_.WaitForSpans(0, absl::ZeroDuration()), SizeIs(1));
  EXPECT_EQ(Emit({"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"}), "") << "nothing is sent anyway";
}

TEST_F(OtelEnvironmentTest, BatchTimeoutLimitsTheCall) {
  collector_.Hold();
  const std::string output =
      Emit({endpoint_, "OTEL_EXPORTER_OTLP_TIMEOUT=60s", "OTEL_BSP_EXPORT_TIMEOUT=50"});
  EXPECT_THAT(output, HasSubstr(" WARN telemetry=export_failed "));
  EXPECT_THAT(output, HasSubstr("Deadline Exceeded"))
      << "and not cancelled by the end of the program";
}

TEST_F(OtelEnvironmentTest, SdkWarningsAreLogged) {
  const std::string output = Emit({endpoint_, "OTEL_EXPORTER_OTLP_TIMEOUT=soon"});
  EXPECT_THAT(output, HasSubstr(" WARN telemetry=sdk_message "));
  EXPECT_THAT(output, HasSubstr("OTEL_EXPORTER_OTLP_TIMEOUT"));
}

}  // namespace
}  // namespace callboard::telemetry

int main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[1]) == "emit") {
    callboard::telemetry::EmitOneSpan(argv[2], argv[3], argv[4]);
    return 0;
  }
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
