// The calls of clients with their answers, and the tasks that exist afterwards.
#ifndef CALLBOARD_TESTS_CRASH_HISTORY_H_
#define CALLBOARD_TESTS_CRASH_HISTORY_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace callboard::crash {

inline constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

// A call of a client, between two ticks (Disk::Tick()).
struct Call {
  enum class Kind { kSubmit, kCancel, kList };
  enum class Answer {
    kDone,
    // Not done, and it will never be done.
    kRejected,
    // No answer, or one that does not say whether the call was done.
    kUnknown,
  };

  Kind kind = Kind::kSubmit;
  uint64_t invoked = 0;
  uint64_t answered = kNever;
  Answer answer = Answer::kUnknown;
  // For a submit: the request.
  std::string request_id = {};
  std::string content = {};
  // The task in the answer of a submit, or in a cancel request.
  std::string queue_id = {};
  // For a submit: from the answer.
  uint64_t position = 0;
  bool deduplicated = false;
  // For a list: the pending tasks in dispatch order.
  std::vector<std::string> queue = {};
};

using History = std::vector<Call>;

// Returns the history up to `tick`: later answers are removed.
History HistoryUntil(uint64_t tick, const History& history);

// A task as the director returns it.
struct FoundTask {
  enum class State { kPending, kRunning, kCompleted, kCancelled, kEvicted, kOther };

  std::string queue_id;
  std::string request_id;
  std::string content;
  State state = State::kPending;
  uint64_t position = 0;
  // Number of dispatches.
  uint64_t dispatches = 0;
};

}  // namespace callboard::crash

#endif  // CALLBOARD_TESTS_CRASH_HISTORY_H_
