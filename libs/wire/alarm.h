// Timers of gRPC.

#ifndef CALLBOARD_LIBS_WIRE_ALARM_H_
#define CALLBOARD_LIBS_WIRE_ALARM_H_

#include <grpcpp/alarm.h>

#include <functional>
#include <utility>

#include "absl/time/time.h"

namespace callboard::wire {

// Runs `then` after `wait`, unless the alarm is destroyed or cancelled before.
inline void SetAlarm(grpc::Alarm& alarm, absl::Duration wait, std::function<void()> then) {
  alarm.Set(gpr_time_from_millis(absl::ToInt64Milliseconds(wait), GPR_TIMESPAN),
            [then = std::move(then)](bool elapsed) {
              if (elapsed) then();
            });
}

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_ALARM_H_
