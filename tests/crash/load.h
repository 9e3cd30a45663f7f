#ifndef CALLBOARD_TESTS_CRASH_LOAD_H_
#define CALLBOARD_TESTS_CRASH_LOAD_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "tests/crash/history.h"
#include "tests/crash/queue_client.h"

namespace callboard::crash {

// The calls of several concurrent clients: the first calls of each are submits; then come submits,
// cancels, repeated submits, lists and reads.
struct Load {
  uint64_t seed = 1;
  int clients = 4;
  int calls_per_client = 8;
  // One of them is a checkpoint.
  bool has_checkpoint = true;
  // Part of the request ids, which must differ from those of earlier loads.
  std::string name = "load";
};

// Returns increasing ticks, as Disk::Tick() does.
using TickSource = std::function<uint64_t()>;

// Runs the load until every client is done or got an unclear answer, and returns all calls.
History RunLoad(const Load& load, const std::string& address, const TickSource& ticks);

// Repeats the submit `call`; returns the new call.
Call Resubmit(const Call& call, QueueClient& client, const TickSource& ticks);

// Returns the answer that `status` means. Dies if no call may end with it.
Call::Answer AnswerFrom(const absl::Status& status);

}  // namespace callboard::crash

#endif  // CALLBOARD_TESTS_CRASH_LOAD_H_
