#include "libs/wire/time.h"

#include <cstdint>

namespace callboard::wire {
namespace {

// 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z.
constexpr int64_t kSecondsMin = -62'135'596'800;
constexpr int64_t kSecondsMax = 253'402'300'799;
// 10,000 years.
constexpr int64_t kDurationSecondsMax = 315'576'000'000;
constexpr int32_t kNanosMax = 999'999'999;

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
