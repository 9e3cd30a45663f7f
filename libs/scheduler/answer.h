#ifndef CALLBOARD_LIBS_SCHEDULER_ANSWER_H_
#define CALLBOARD_LIBS_SCHEDULER_ANSWER_H_

#include <string>

#include "absl/status/status.h"

namespace callboard::scheduler {

// What an answer to a submit says about the task that was asked for.
enum class Answer {
  kAccepted,
  // Its request id stands for a task of other content.
  kOtherContent,
  // The director looked for the request id, did not find it, and does not make the task: another
  // one of the job is live; there is no place; it takes no more.
  kOverlap,
  kFull,
  kDraining,
  // Nothing was made of this submit. Of an earlier one nothing is said.
  kNotNow,
  kNotSent,
  // It will never be taken.
  kRefused,
  // It may have been accepted.
  kUnknown,
};

Answer MeaningOf(const absl::Status& status);
// The task that the answer names, if it does.
std::string QueueIdIn(const absl::Status& status);

// Whether the request id stood for no task when it was given.
constexpr bool SaysIdIsFree(Answer answer) {
  return answer == Answer::kOverlap || answer == Answer::kFull || answer == Answer::kDraining;
}

}  // namespace callboard::scheduler

#endif  // CALLBOARD_LIBS_SCHEDULER_ANSWER_H_
