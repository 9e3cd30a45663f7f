#include "libs/adapters/otel/otel_variables.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace callboard::adapters {
namespace {

// What a wait of a process may cost in memory, and what a collector takes in one call.
constexpr uint32_t kWaitingLimit = 131'072;
constexpr uint32_t kBatchLimit = 4'096;
constexpr uint32_t kDelayLimitMilliseconds = 60'000;
constexpr uint32_t kTimeoutLimitMilliseconds = 600'000;

class Reader {
 public:
  explicit Reader(absl::FunctionRef<std::string(const char*)> value) : value_(value) {}

  OtelVariables Read() {
    all_.is_disabled = absl::EqualsIgnoreCase(value_("OTEL_SDK_DISABLED"), "true");
    all_.has_endpoint = value_("OTEL_TRACES_EXPORTER") != "none" &&
                        !(value_("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").empty() &&
                          value_("OTEL_EXPORTER_OTLP_ENDPOINT").empty());
    ReadSampler();
    ReadBatching();
    FindIgnored();
    return std::move(all_);
  }

 private:
  void Ignore(const char* name, std::string wanted) {
    all_.ignored.push_back({name, std::move(wanted)});
  }

  void ReadSampler() {
    const std::string name = value_("OTEL_TRACES_SAMPLER");
    if (name.empty()) return;
    absl::string_view kind = name;
    Sampler sampler = {.follows_callers = absl::ConsumePrefix(&kind, "parentbased_")};
    if (kind == "always_off") {
      sampler.ratio = 0;
    } else if (kind == "traceidratio") {
      sampler.ratio = Ratio();
    } else if (kind != "always_on") {
      return Ignore("OTEL_TRACES_SAMPLER",
                    "always_on, always_off or traceidratio, with or without parentbased_");
    }
    all_.sampler = sampler;
  }

  double Ratio() {
    const std::string text = value_("OTEL_TRACES_SAMPLER_ARG");
    double ratio = 1;
    if (text.empty() || (absl::SimpleAtod(text, &ratio) && ratio >= 0 && ratio <= 1)) return ratio;
    Ignore("OTEL_TRACES_SAMPLER_ARG", "0..1");
    return 1;
  }

  // A number from 1 to `limit`; nothing when it is not set, or no such number.
  std::optional<uint32_t> Number(const char* name, uint32_t limit) {
    const std::string text = value_(name);
    if (text.empty()) return std::nullopt;
    uint32_t number = 0;
    if (absl::SimpleAtoi(text, &number) && number >= 1 && number <= limit) return number;
    Ignore(name, absl::StrCat("1..", limit));
    return std::nullopt;
  }

  void ReadBatching() {
    Batching& batching = all_.batching;
    if (const auto spans = Number("OTEL_BSP_MAX_QUEUE_SIZE", kWaitingLimit)) {
      batching.waiting_max = *spans;
    }
    if (const auto spans = Number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", kBatchLimit)) {
      batching.batch_max = *spans;
    }
    // No batch could ever be full.
    batching.batch_max = std::min(batching.batch_max, batching.waiting_max);
    if (const auto delay = Number("OTEL_BSP_SCHEDULE_DELAY", kDelayLimitMilliseconds)) {
      batching.delay = absl::Milliseconds(*delay);
    }
    if (const auto timeout = Number("OTEL_BSP_EXPORT_TIMEOUT", kTimeoutLimitMilliseconds)) {
      batching.timeout = absl::Milliseconds(*timeout);
    }
  }

  void FindIgnored() {
    for (const char* name :
         {"OTEL_EXPORTER_OTLP_CLIENT_KEY", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
          "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE"}) {
      if (!value_(name).empty()) Ignore(name, "none: clients have no certificate");
    }
    // That of traces wins over that of all signals.
    const char* const of_traces = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
    const char* const protocol =
        value_(of_traces).empty() ? "OTEL_EXPORTER_OTLP_PROTOCOL" : of_traces;
    if (const std::string name = value_(protocol); !name.empty() && name != "grpc") {
      Ignore(protocol, "grpc");
    }
    const std::string exporter = value_("OTEL_TRACES_EXPORTER");
    if (!exporter.empty() && exporter != "otlp" && exporter != "none") {
      Ignore("OTEL_TRACES_EXPORTER", "otlp or none");
    }
    const std::string propagators = value_("OTEL_PROPAGATORS");
    if (!propagators.empty() && !HasTraceContext(propagators)) {
      Ignore("OTEL_PROPAGATORS", "tracecontext");
    }
  }

  static bool HasTraceContext(absl::string_view propagators) {
    const std::vector<absl::string_view> all = absl::StrSplit(propagators, ',');
    return std::any_of(all.begin(), all.end(), [](absl::string_view name) {
      return absl::StripAsciiWhitespace(name) == "tracecontext";
    });
  }

  const absl::FunctionRef<std::string(const char*)> value_;
  OtelVariables all_;
};

}  // namespace

OtelVariables ReadOtelVariables(absl::FunctionRef<std::string(const char* name)> value) {
  return Reader(value).Read();
}

}  // namespace callboard::adapters
