#include "libs/core/trace.h"

#include <bit>
#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/check.h"
#include "libs/core/hash.h"

namespace callboard::core {
namespace {

constexpr uint8_t kSampledFlag = 1;

template <class Bytes>
std::string ToHex(const Bytes& bytes) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

// Returns -1 for anything but a lower-case hex digit.
int HexDigit(char c) {
  if (absl::ascii_isdigit(c)) return c - '0';
  return 'a' <= c && c <= 'f' ? c - 'a' + 10 : -1;
}

// Fills `bytes` from lower-case hex digits. Returns false for any other text.
template <class Bytes>
bool FromHex(absl::string_view hex, Bytes& bytes) {
  if (hex.size() != 2 * bytes.size()) return false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int high = HexDigit(hex[2 * i]);
    const int low = HexDigit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

// The numbers must not change, or spans in progress would end with different ids.
enum class Kind : uint64_t {
  kSubmit = 1,
  kWait = 2,
  kDispatch = 3,
  kDispatchTrace = 4,
  kFire = 5,
  kCancel = 6,
};

StableHash HashSpan(Kind kind, QueueId id, DispatchNumber dispatch) {
  return StableHash()
      .Add(static_cast<uint64_t>(kind))
      .Add(id.value().high())
      .Add(id.value().low())
      .Add(dispatch.value());
}

}  // namespace

std::optional<TraceId> ParseTraceId(absl::string_view hex) {
  std::array<uint8_t, 16> bytes;
  if (!FromHex(hex, bytes) || TraceId(bytes) == TraceId()) return std::nullopt;
  return TraceId(bytes);
}

std::string ToString(const TraceId& id) { return ToHex(id.value()); }

SpanId NewSpan(uint64_t random) { return SpanId(std::bit_cast<std::array<uint8_t, 8>>(random)); }

SpanContext NewTrace(const std::array<uint64_t, 3>& random) {
  const std::array<uint64_t, 2> trace_bits = {random[0], random[1]};
  return {.trace_id = TraceId(std::bit_cast<std::array<uint8_t, 16>>(trace_bits)),
          .span_id = NewSpan(random[2])};
}

std::optional<SpanContext> ParseTraceparent(absl::string_view traceparent) {
  // The fields are version, trace id, span id and flags. Later versions may only append fields.
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

bool IsSampled(const TraceId& trace_id, double ratio) {
  CHECK(ratio >= 0 && ratio <= 1) << ratio;
  // W3C requires the last seven bytes to be random, and OpenTelemetry samples by them.
  uint64_t randomness = 0;
  for (size_t i = 9; i < 16; ++i) randomness = randomness << 8 | trace_id.value()[i];
  return randomness >= static_cast<uint64_t>((1 - ratio) * 0x1p56);
}

SpanContext SubmitSpan(QueueId id) {
  const StableHash hash = HashSpan(Kind::kSubmit, id, DispatchNumber());
  SpanContext submit = NewTrace({hash.value(), hash.second_value(), hash.value()});
  submit.sampled = false;
  return submit;
}

SpanId WaitSpanId(QueueId id, DispatchNumber before) {
  return NewSpan(HashSpan(Kind::kWait, id, before).value());
}

SpanId DispatchSpanId(QueueId id, DispatchNumber dispatch) {
  return NewSpan(HashSpan(Kind::kDispatch, id, dispatch).value());
}

TraceId DispatchTraceId(QueueId id, DispatchNumber dispatch) {
  const StableHash hash = HashSpan(Kind::kDispatchTrace, id, dispatch);
  return NewTrace({hash.value(), hash.second_value(), 0}).trace_id;
}

SpanId CancelSpanId(const SpanId& submit) {
  StableHash hash;
  hash.Add(static_cast<uint64_t>(Kind::kCancel));
  for (const uint8_t byte : submit.value()) hash.Add(byte);
  return NewSpan(hash.value());
}

TraceId FireTraceId(absl::string_view director, absl::string_view request_id) {
  const StableHash hash =
      StableHash().Add(static_cast<uint64_t>(Kind::kFire)).Add(director).Add(request_id);
  return NewTrace({hash.value(), hash.second_value(), 0}).trace_id;
}

}  // namespace callboard::core
