#ifndef CALLBOARD_LIBS_WIRE_TIME_H_
#define CALLBOARD_LIBS_WIRE_TIME_H_

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <optional>
#include <string>

#include "absl/time/time.h"

namespace callboard::wire {

// Truncates to whole nanoseconds. Returns an invalid Timestamp for a time outside of the years 1 to
// 9999.
google::protobuf::Timestamp ToProto(absl::Time time);
// Returns null if `proto` is invalid or outside of the years 1 to 9999.
std::optional<absl::Time> FromProto(const google::protobuf::Timestamp& proto);

// Parses a time in RFC 3339 with any UTC offset, such as 2026-01-31T08:00:00Z. Returns null for any
// other text, and for a time outside of the years 1 to 9999.
std::optional<absl::Time> ParseTime(const std::string& text);

// Truncates to whole nanoseconds. Returns an invalid Duration for more than 10,000 years.
google::protobuf::Duration ToProto(absl::Duration duration);
// Returns null if the parts of `proto` are out of range or have different signs.
std::optional<absl::Duration> FromProto(const google::protobuf::Duration& proto);

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_TIME_H_
