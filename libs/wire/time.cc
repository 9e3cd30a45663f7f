#include "libs/wire/time.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace callboard::wire {
namespace {

// 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z.
constexpr int64_t kSecondsMin = -62'135'596'800;
constexpr int64_t kSecondsMax = 253'402'300'799;
// 10,000 years.
constexpr int64_t kDurationSecondsMax = 315'576'000'000;
constexpr int32_t kNanosMax = 999'999'999;

// Returns true if `text` matches `shape`, in which 0 stands for any digit.
bool HasShape(absl::string_view text, absl::string_view shape) {
  return std::equal(text.begin(), text.end(), shape.begin(), shape.end(),
                    [](char c, char expected) {
                      return expected == '0' ? absl::ascii_isdigit(c) : c == expected;
                    });
}

}  // namespace

google::protobuf::Timestamp ToProto(absl::Time time) {
  google::protobuf::Timestamp proto;
  proto.set_seconds(absl::ToUnixSeconds(time));
  proto.set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(proto.seconds()))));
  return proto;
}

std::optional<absl::Time> FromProto(const google::protobuf::Timestamp& proto) {
  if (proto.seconds() < kSecondsMin || proto.seconds() > kSecondsMax) return std::nullopt;
  if (proto.nanos() < 0 || proto.nanos() > kNanosMax) return std::nullopt;
  return absl::FromUnixSeconds(proto.seconds()) + absl::Nanoseconds(proto.nanos());
}

// Does not use Protobuf's parser, which crashes for a time that is out of range. Abseil's parser
// also accepts forms that are not RFC 3339, so the form is checked first.
std::optional<absl::Time> ParseTime(const std::string& text) {
  constexpr absl::string_view kShape = "0000-00-00T00:00:00";
  const absl::string_view offset =
      absl::string_view(text).substr(std::min(text.size(), text.find_last_of("Z+-")));
  absl::Time time;
  if (!HasShape(absl::string_view(text).substr(0, kShape.size()), kShape) ||
      !(offset == "Z" || HasShape(offset, "+00:00") || HasShape(offset, "-00:00")) ||
      !absl::ParseTime(absl::RFC3339_full, text, &time, nullptr)) {
    return std::nullopt;
  }
  return FromProto(ToProto(time));
}

google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration proto;
  proto.set_seconds(absl::ToInt64Seconds(duration));
  proto.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(duration - absl::Seconds(proto.seconds()))));
  return proto;
}

std::optional<absl::Duration> FromProto(const google::protobuf::Duration& proto) {
  const int64_t seconds = proto.seconds();
  const int32_t nanos = proto.nanos();
  if (seconds < -kDurationSecondsMax || seconds > kDurationSecondsMax) return std::nullopt;
  if (nanos < -kNanosMax || nanos > kNanosMax) return std::nullopt;
  if ((seconds > 0 && nanos < 0) || (seconds < 0 && nanos > 0)) return std::nullopt;
  const absl::Duration duration = absl::Seconds(seconds) + absl::Nanoseconds(nanos);
  if (absl::AbsDuration(duration) > absl::Seconds(kDurationSecondsMax)) return std::nullopt;
  return duration;
}

}  // namespace callboard::wire
