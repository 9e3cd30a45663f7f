// What a director and an agent say to each other in a Session, as values. Each side has to live
// with items that are lost, late, repeated or out of order: a Session may break after any of them.
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
#include "libs/base/strong_id.h"
#include "libs/core/ids.h"
#include "libs/core/queue.h"
#include "libs/core/record.h"
#include "libs/core/task.h"

namespace callboard::core {

// Version of the rules of a Session. An end that speaks another one is served all the same: items
// that it does not know it ignores, and both use what the lower version has.
inline constexpr uint32_t kSessionVersion = 1;

// One conversation. Never reused while the director's process lives.
using SessionId = base::StrongId<struct SessionIdTag, uint64_t>;

// How full a lane of an agent is.
struct LaneLoad {
  uint32_t slots = 0;
  uint32_t used = 0;

  friend bool operator==(const LaneLoad&, const LaneLoad&) = default;
};
using LaneLoads = std::map<std::string, LaneLoad>;

// A run is over. Said again until it is acknowledged or fenced.
struct RunEnded {
  FenceToken token;
  RunResult result;
};

// An agent announces itself, so that the director dials it. Labels and lanes are shown until its
// Session says what they are.
struct AgentAnnounced {
  std::string name = {};
  std::string instance_id = {};
  // grpc://host:port
  std::string url = {};
  std::map<std::string, std::string> labels = {};
  LaneLoads lanes = {};
};

// The first thing an agent says: who it is and everything it knows of earlier dispatches, by their
// names alone, so that it fits into one message.
struct AgentOpened {
  std::string name = {};
  // Names this life of its process.
  std::string instance_id = {};
  // grpc://host:port
  std::string url = {};
  std::map<std::string, std::string> labels = {};
  LaneLoads lanes = {};
  // It shuts down and takes no more tasks.
  bool leaving = false;
  // Its monotonic time.
  absl::Duration agent_time = {};
  std::vector<FenceToken> running = {};
  // Accepted once, no longer running, and without a result.
  std::vector<FenceToken> lost = {};
  // With a result that was not acknowledged: each follows as a RunEnded.
  std::vector<FenceToken> ended = {};
  // 0 from before there were versions.
  uint32_t version = 0;
  // Abilities beyond that version. A task that needs one goes only to agents that announce it.
  std::set<std::string> features = {};
};

// The answer to a start, the same for every copy of it.
struct StartAnswered {
  FenceToken token;
  absl::Status answer;
};

// The agent lives, and so do these: only their leases are renewed.
struct Heartbeat {
  absl::Duration agent_time;
  std::vector<FenceToken> running;
};

// How full the agent is: said at every change, with a busy answer and with every heartbeat.
struct LoadReported {
  LaneLoads lanes;
  // It shuts down and takes no more tasks.
  bool leaving = false;
};

using AgentItem = std::variant<StartAnswered, RunEnded, Heartbeat, LoadReported>;

struct StartRun {
  FenceToken token;
  // Null where the engine does not have it at hand; whoever sends the start has to read it.
  SpecPtr spec;
  // The agent's own time that the lease counts from.
  absl::Duration agent_time;
  // The span that the run is part of; none when it is not traced.
  SpanContext trace = {};
};

// Answered with a RunEnded, also by an agent that does not know the dispatch.
struct CancelRun {
  FenceToken token;
};

// The result is on disk: the agent may forget it.
struct ResultAcknowledged {
  FenceToken token;
};

// The dispatch does not count: the agent kills its process and forgets it.
struct FencedOff {
  FenceToken token;
};

// The director restarts; leases last so much longer, until the agent opens the next Session. Then a
// task has self_fence from the agent's opening on, as it had before, to be renewed by a heartbeat.
struct GoingAway {
  absl::Duration extension;
};

using DirectorItem = std::variant<StartRun, CancelRun, ResultAcknowledged, FencedOff, GoingAway>;

// ---- What the director's engine does not see ----

// The first thing a director says.
struct SessionTerms {
  uint64_t director_epoch = 0;
  LeaseOptions lease = {};
  // As in AgentOpened.
  uint32_t version = kSessionVersion;
  std::set<std::string> features = {};

  friend bool operator==(const SessionTerms&, const SessionTerms&) = default;
};

// A heartbeat has arrived.
struct HeartbeatAcknowledged {
  absl::Duration agent_time;
};

enum class OutputStream { kStdout, kStderr };

// A piece of what the processes of a run wrote.
struct OutputChunk {
  // Counts the chunks of a run from 1; numbers of chunks that were dropped are missing.
  uint64_t number = 0;
  OutputStream stream = OutputStream::kStdout;
  std::string data = {};
  // When it was read.
  absl::Time at = {};
  // Bytes dropped right before it.
  uint64_t dropped_bytes = 0;

  friend bool operator==(const OutputChunk&, const OutputChunk&) = default;
};

struct OutputWritten {
  FenceToken token;
  std::vector<OutputChunk> chunks;
  // The run is over: nothing follows.
  bool is_last = false;
};

// The director has this chunk and those before it.
struct OutputAcknowledged {
  FenceToken token;
  uint64_t number = 0;
};

// An item that this version does not know. Ignored and counted.
struct UnknownItem {};

// Everything that either says.
using AgentWord = std::variant<AgentOpened, AgentItem, OutputWritten, UnknownItem>;
using DirectorWord = std::variant<SessionTerms, DirectorItem, HeartbeatAcknowledged,
                                  OutputAcknowledged, UnknownItem>;

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_SESSION_H_
