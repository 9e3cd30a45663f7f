// What clients did and were told, and what was found afterwards.
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
    // Not done, and it never will be.
    kRefused,
    // No answer, or one that leaves it open.
    kUnknown,
  };

  Kind kind = Kind::kSubmit;
  uint64_t invoked = 0;
  uint64_t answered = kNever;
  Answer answer = Answer::kUnknown;
  // Of a submit: what was asked for.
  std::string request_id = {};
  std::string content = {};
  // The task that a submit was told, or that a cancel names.
  std::string queue_id = {};
  // Of a submit: as it was told.
  uint64_t position = 0;
  bool deduplicated = false;
  // Of a list: the pending tasks, in the order of the line.
  std::vector<std::string> line = {};
};

using History = std::vector<Call>;

// What had happened by `tick`: a later answer is none yet.
History UpTo(uint64_t tick, const History& history);

// A task as the director shows it.
struct FoundTask {
  enum class State { kPending, kRunning, kCompleted, kCancelled, kEvicted, kOther };

  std::string queue_id;
  std::string request_id;
  std::string content;
  State state = State::kPending;
  uint64_t position = 0;
  // How often it was given to an agent.
  uint64_t dispatches = 0;
};

}  // namespace callboard::crash

#endif  // CALLBOARD_TESTS_CRASH_HISTORY_H_
