#ifndef CALLBOARD_LIBS_CORE_ANSWER_H_
#define CALLBOARD_LIBS_CORE_ANSWER_H_

#include "absl/status/status.h"

namespace callboard::core {

// What an agent's answer to a start means for the task.
enum class AnswerMeaning {
  kAccepted,
  // 409: the agent has no slot. The task goes to the back of the line, and the attempt is not one.
  kBusy,
  // 5xx: the agent or the way to it failed. Another try after a while; the attempt counts.
  kTransient,
  // 4xx: the task itself is wrong. It fails.
  kRejected,
  // The agent serves nobody as it is: it is set aside, and the task is not to blame.
  kAgentAtFault,
  // The dispatch is not the one that counts. Says nothing about the task.
  kStale,
};

// The table of the answers: by code, and by reason where the code has two meanings.
AnswerMeaning MeaningOf(const absl::Status& answer);

// Whether a Session could not be opened because the agent does not want it, rather than because
// nobody was reached.
bool IsSessionRefusal(const absl::Status& why);

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_ANSWER_H_
