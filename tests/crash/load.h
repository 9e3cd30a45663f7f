#ifndef CALLBOARD_TESTS_CRASH_LOAD_H_
#define CALLBOARD_TESTS_CRASH_LOAD_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "tests/crash/history.h"
#include "tests/crash/queue_client.h"

namespace callboard::crash {

// What several clients ask for at the same time: the first calls of each are submits; then come
// submits, cancels, repeated submits, lists and reads.
struct Load {
  uint64_t seed = 1;
  int clients = 4;
  int calls_per_client = 8;
  // One of them is a checkpoint.
  bool has_checkpoint = true;
  // Stands in the request ids, which have to differ from those of earlier loads.
  std::string name = "load";
};

// Tells what came first, as Disk::Tick() does.
using Ticks = std::function<uint64_t()>;

// Runs it until every client is through or got an answer that leaves its call open, and returns all
// calls.
History RunLoad(const Load& load, const std::string& address, const Ticks& ticks);

// Submits as `call` did, again; returns that call.
Call Resubmit(const Call& call, QueueClient& client, const Ticks& ticks);

// How a call ended. Dies where none may end like that.
Call::Answer AnswerFrom(const absl::Status& status);

}  // namespace callboard::crash

#endif  // CALLBOARD_TESTS_CRASH_LOAD_H_
