#ifndef CALLBOARD_LIBS_WIRE_TIME_H_
#define CALLBOARD_LIBS_WIRE_TIME_H_

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <optional>
#include <string>

#include "absl/time/time.h"

namespace callboard::wire {

// Whole nanoseconds; what is finer is cut. Of a time before the year 1 or after 9999, something
// that FromProto() refuses.
google::protobuf::Timestamp ToProto(absl::Time time);
// Null when it is no time of the years 1 to 9999.
std::optional<absl::Time> FromProto(const google::protobuf::Timestamp& proto);

// A time as RFC 3339 writes it, with any offset: 2026-01-31T08:00:00Z. Null when it is another
// text, or no time of the years 1 to 9999.
std::optional<absl::Time> ParseTime(const std::string& text);

// Whole nanoseconds; what is finer is cut. Of more than 10,000 years, something that FromProto()
// refuses.
google::protobuf::Duration ToProto(absl::Duration duration);
// Null when its parts are out of range or of different signs.
std::optional<absl::Duration> FromProto(const google::protobuf::Duration& proto);

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_TIME_H_
