#ifndef CALLBOARD_LIBS_AGENT_RUN_END_NAME_H_
#define CALLBOARD_LIBS_AGENT_RUN_END_NAME_H_

#include "libs/core/record.h"

namespace callboard::agent {

// What metrics and spans call the end of a run.
constexpr const char* Name(core::RunResult::End end) {
  switch (end) {
    case core::RunResult::End::kCompleted:
      return "completed";
    case core::RunResult::End::kFailed:
      return "failed";
    case core::RunResult::End::kTimedOut:
      return "timed_out";
    case core::RunResult::End::kCancelled:
      return "cancelled";
    case core::RunResult::End::kNotStarted:
      return "not_started";
  }
  return "";
}

}  // namespace callboard::agent

#endif  // CALLBOARD_LIBS_AGENT_RUN_END_NAME_H_
