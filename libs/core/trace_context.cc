#include "libs/core/trace_context.h"

#include <bit>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/check.h"

namespace callboard::core {
namespace {

constexpr uint8_t kSampledFlag = 1;

template <class Bytes>
std::string ToHex(const Bytes& bytes) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

// -1 for anything but a lower-case hexadecimal digit.
int DigitOf(char c) {
  if (absl::ascii_isdigit(c)) return c - '0';
  return 'a' <= c && c <= 'f' ? c - 'a' + 10 : -1;
}

// Reads lower-case hexadecimal into all of `bytes`; returns false for anything else.
template <class Bytes>
bool FromHex(absl::string_view hex, Bytes& bytes) {
  if (hex.size() != 2 * bytes.size()) return false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int high = DigitOf(hex[2 * i]);
    const int low = DigitOf(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

}  // namespace

std::optional<TraceId> ParseTraceId(absl::string_view hex) {
  std::array<uint8_t, 16> bytes;
  if (!FromHex(hex, bytes) || TraceId(bytes) == TraceId()) return std::nullopt;
  return TraceId(bytes);
}

std::string ToString(const TraceId& id) { return ToHex(id.value()); }

SpanId NewSpan(uint64_t chance) { return SpanId(std::bit_cast<std::array<uint8_t, 8>>(chance)); }

SpanContext NewTrace(const std::array<uint64_t, 3>& chance) {
  const std::array<uint64_t, 2> of_trace = {chance[0], chance[1]};
  return {.trace_id = TraceId(std::bit_cast<std::array<uint8_t, 16>>(of_trace)),
          .span_id = NewSpan(chance[2])};
}

std::optional<SpanContext> ParseTraceparent(absl::string_view traceparent) {
  // version-trace id-span id-flags; later versions may append fields, and only that.
  const std::vector<absl::string_view> fields =
      absl::StrSplit(traceparent, absl::MaxSplits('-', 4));
  if (fields.size() < 4 || fields[0] == "ff" || (fields[0] == "00" && fields.size() > 4)) {
    return std::nullopt;
  }
  std::array<uint8_t, 1> version;
  std::array<uint8_t, 8> span_id;
  std::array<uint8_t, 1> flags;
  const std::optional<TraceId> trace_id = ParseTraceId(fields[1]);
  if (!trace_id.has_value() || !FromHex(fields[0], version) || !FromHex(fields[2], span_id) ||
      !FromHex(fields[3], flags) || SpanId(span_id) == SpanId()) {
    return std::nullopt;
  }
  return SpanContext{
      .trace_id = *trace_id, .span_id = SpanId(span_id), .sampled = (flags[0] & kSampledFlag) != 0};
}

std::string FormatTraceparent(const SpanContext& context) {
  return absl::StrCat("00-", ToString(context.trace_id), "-", ToHex(context.span_id.value()),
                      context.sampled ? "-01" : "-00");
}

bool InSample(const TraceId& trace_id, double ratio) {
  CHECK(ratio >= 0 && ratio <= 1) << ratio;
  // The last seven bytes are those that W3C wants random, and that OpenTelemetry samples by.
  uint64_t randomness = 0;
  for (size_t i = 9; i < 16; ++i) randomness = randomness << 8 | trace_id.value()[i];
  return randomness >= static_cast<uint64_t>((1 - ratio) * 0x1p56);
}

}  // namespace callboard::core
