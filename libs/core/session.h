// The messages that a director and an agent exchange in a Session, as value types. On the wire, a
// message is one item of a SessionRequest or a SessionResponse. A Session may break after any
// message, so each side must tolerate messages that are lost, late, repeated or out of order.

#ifndef CALLBOARD_LIBS_CORE_SESSION_H_
#define CALLBOARD_LIBS_CORE_SESSION_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/base/value_types.h"
#include "libs/core/ids.h"
#include "libs/core/queue.h"
#include "libs/core/record.h"
#include "libs/core/task.h"

namespace callboard::core {

// Version of the Session protocol. Ends with different versions can talk to each other: each
// ignores the items that it does not know, and both use only what the lower version has.
inline constexpr uint32_t kSessionVersion = 1;

// Identifies one Session. Never reused by the same director process.
using AgentSessionId = base::StrongId<struct AgentSessionIdTag, uint64_t>;

// Number of slots of an agent's lane, and of those in use.
struct LaneLoad {
  uint32_t slots = 0;
  uint32_t used = 0;

  friend bool operator==(const LaneLoad&, const LaneLoad&) = default;
};
using LaneLoads = std::map<std::string, LaneLoad>;

// A run has ended. The agent repeats this until it receives a ResultAck or a FenceOff.
struct RunEnded {
  FenceToken token;
  RunResult result;
};

// An agent registers with the director, which then dials it. The director shows these labels and
// lanes until the Session opens.
struct AgentAnnouncement {
  std::string name = {};
  std::string instance_id = {};
  // grpc://host:port
  std::string url = {};
  std::map<std::string, std::string> labels = {};
  LaneLoads lanes = {};
};

// The first message of an agent: its identity and all dispatches that it knows of. Dispatches are
// listed by token only, so that the list fits into one message.
struct SessionOpened {
  std::string name = {};
  // Identifies the agent's process; a restarted agent has a new one.
  std::string instance_id = {};
  // grpc://host:port
  std::string url = {};
  std::map<std::string, std::string> labels = {};
  LaneLoads lanes = {};
  // True if the agent shuts down and accepts no more tasks.
  bool leaving = false;
  // The agent's monotonic time.
  absl::Duration agent_time = {};
  std::vector<FenceToken> running = {};
  // Dispatches that were accepted, do not run any more and have no result.
  std::vector<FenceToken> lost = {};
  // Dispatches with a result that was not acknowledged. Each follows as a RunEnded.
  std::vector<FenceToken> ended = {};
  // 0 for agents from before versions were introduced.
  uint32_t version = 0;
  // Features beyond `version`. A task that needs one is dispatched only to agents that announce it.
  std::set<std::string> features = {};
};

// The answer to a StartRun. A repeated StartRun gets the same answer.
struct StartAnswer {
  FenceToken token;
  absl::Status answer;
};

// The agent and the listed runs are alive. Renews the leases of the listed runs only.
struct Heartbeat {
  absl::Duration agent_time;
  std::vector<FenceToken> running;
};

// The load of the agent. Sent with every change, busy answer and heartbeat.
struct LoadReport {
  LaneLoads lanes;
  // True if the agent shuts down and accepts no more tasks.
  bool leaving = false;
};

// Starts a task on the agent.
struct StartRun {
  FenceToken token;
  // At the director: null if the engine does not hold the spec in memory. The sender then reads it
  // from the store.
  SpecBytes spec = {};
  // At the agent: what it needs of the spec. Never null there.
  RunSpecPtr run = {};
  // The time of the agent's clock at which the lease starts.
  absl::Duration agent_time;
  // The parent span of the run; SpanContext() if the run is not traced.
  SpanContext trace = {};
};

// Cancels a run. The agent answers with a RunEnded, even if it does not know the dispatch.
struct CancelRun {
  FenceToken token;
};

// The director has stored the result. The agent may delete it.
struct ResultAck {
  FenceToken token;
};

// Fences off a dispatch, which is outdated: the agent stops the run and deletes its result.
struct FenceOff {
  FenceToken token;
};

// The director is about to restart. Leases are extended until the agent opens the next Session.
// From then on a run again has `self_fence` until a heartbeat must renew its lease.
struct GoingAway {
  absl::Duration extension;
};

// ---- Messages that do not reach the director's engine ----

// The first message of a director.
struct SessionTerms {
  uint64_t director_epoch = 0;
  LeaseOptions lease = {};
  // The same as in SessionOpened.
  uint32_t version = kSessionVersion;
  std::set<std::string> features = {};

  friend bool operator==(const SessionTerms&, const SessionTerms&) = default;
};

// The director has received a heartbeat.
struct HeartbeatAck {
  absl::Duration agent_time;
};

enum class OutputStream { kStdout, kStderr };

// A piece of the output of a run.
struct OutputChunk {
  // Number of the chunk in its run, from 1. Dropped chunks leave gaps.
  uint64_t number = 0;
  OutputStream stream = OutputStream::kStdout;
  std::string data = {};
  // The time at which the agent read the chunk.
  absl::Time at = {};
  // Number of bytes dropped directly before this chunk.
  uint64_t dropped_bytes = 0;

  friend bool operator==(const OutputChunk&, const OutputChunk&) = default;
};

// Output of a run.
struct RunOutput {
  FenceToken token;
  std::vector<OutputChunk> chunks;
  // True for the last output of the run.
  bool is_last = false;
};

// The director has received this chunk and all chunks before it.
struct OutputAck {
  FenceToken token;
  uint64_t number = 0;
};

// An item that this version does not know. The receiver ignores and counts it.
struct UnknownItem {};

// A message of an agent, and a message of a director.
using AgentMessage = std::variant<SessionOpened, StartAnswer, RunEnded, Heartbeat, LoadReport,
                                  RunOutput, UnknownItem>;
using DirectorMessage = std::variant<SessionTerms, StartRun, CancelRun, ResultAck, FenceOff,
                                     GoingAway, HeartbeatAck, OutputAck, UnknownItem>;

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_SESSION_H_
