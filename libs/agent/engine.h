#ifndef CALLBOARD_LIBS_AGENT_ENGINE_H_
#define CALLBOARD_LIBS_AGENT_ENGINE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/agent/run_table.h"
#include "libs/core/ids.h"
#include "libs/core/session.h"
#include "libs/core/task.h"
#include "libs/ports/task_runner.h"

namespace callboard::agent {

struct EngineOptions {
  std::string name = {};
  // Identifies this process among all processes that ran under this name.
  std::string instance_id = {};
  // grpc://host:port
  std::string url = {};
  std::map<std::string, std::string> labels = {};
  // Features beyond the Session version, under the names that directors know.
  std::set<std::string> features = {};
  // Number of slots of each lane.
  std::map<std::string, uint32_t> lanes = {{"default", 1}};
  // Whether callers may start tasks on this agent directly, without the director's queue.
  bool allow_direct = false;
  // Returns whether a task can be run at all. Every task can when null.
  std::function<absl::Status(const core::RunSpec&)> check = {};
};

// Commands to the runner, next to ports::RunRequest, which starts a run.
struct StopRun {
  core::FenceToken token;
};
struct KillRun {
  core::FenceToken token;
};
struct MoveFence {
  core::FenceToken token;
  absl::Duration fence_at;
};
using RunnerCommand = std::variant<ports::RunRequest, StopRun, KillRun, MoveFence>;

// Effects of a turn. Write `journal` first, then execute `runner_commands`, then send `messages`.
struct Outcome {
  std::vector<JournalRecord> journal = {};
  std::vector<RunnerCommand> runner_commands = {};
  // To the director, in the open Session.
  std::vector<core::AgentMessage> messages = {};

  bool empty() const { return journal.empty() && runner_commands.empty() && messages.empty(); }
};

// A request to start a task without the director.
struct DirectStart {
  core::RunSpecPtr run;
  std::string request_id;
  core::Fingerprint fingerprint;
  std::map<std::string, std::string> required_labels;
  core::SpanContext trace = {};
};

struct DirectStartResult {
  core::FenceToken token;
  // The run existed already: the request id was used before.
  bool deduplicated = false;
};

// The rules of an agent. It decides which starts to accept, how to answer repeated starts, which
// results to keep until they are acknowledged, and when to kill a run whose lease was not renewed.
//
// Passive and pure: no threads and no I/O. Callers pass the time as `now`, on the agent's monotonic
// clock. Not thread-safe.
//
// The engine knows a dispatch from its acceptance until its result is acknowledged or it is fenced
// off. Such a dispatch is in one of three states: running, ended with a result, or lost. Lost means
// that it was accepted, does not run any more and has no result.
class AgentEngine {
 public:
  // `journal`: the state that the previous processes of this agent left. REQUIRES: none of the
  // processes that they started is alive.
  AgentEngine(EngineOptions options, const JournalState& journal);
  AgentEngine(const AgentEngine&) = delete;
  AgentEngine& operator=(const AgentEngine&) = delete;

  // Returns the effects of all calls since the last TakeOutcome().
  Outcome TakeOutcome();
  // Reports the load if it differs from the last report, or if a report is required anyway. Calls
  // between two EndTurn() form one turn: a run that starts and ends within a turn does not change
  // the load.
  void EndTurn();

  // ---- The Session ----

  // Opens a Session for a director. The reply, with everything that the agent knows, is in the
  // outcome. Returns ABORTED/SESSION_REPLACED when a director of a later epoch was served before.
  absl::Status OpenSession(core::AgentSessionId session, const core::SessionTerms& terms,
                           absl::Duration now);
  // Handles a message. Ignores messages from a Session that was replaced.
  void Handle(core::AgentSessionId session, const core::DirectorMessage& message,
              absl::Duration now);
  void OnSessionClosed(core::AgentSessionId session);
  bool is_connected() const { return session_ != core::AgentSessionId(); }
  bool IsOpen(core::AgentSessionId session) const { return is_connected() && session_ == session; }

  // Number of settled dispatches that the engine remembers, so that it can reject copies of their
  // starts that arrive late.
  static constexpr size_t kSettledRunsMax = 256;

  // ---- The runner ----

  void OnEnded(const core::FenceToken& token, core::RunResult result);

  // ---- Direct starts ----

  // Number of request ids that the engine remembers of direct runs that have ended.
  static constexpr size_t kDirectRequestsMax = 10'000;

  // Starts a task without the director. The same checks apply as for a dispatched start, but the
  // run has no lease. If the request id was used before for the same content, returns that run.
  // Errors: ALREADY_EXISTS/REQUEST_ID_REUSED when the content differs,
  // FAILED_PRECONDITION/DIRECT_DISABLED or LABEL_MISSING, UNAVAILABLE/AGENT_DRAINING,
  // ABORTED/AGENT_BUSY, or the error of EngineOptions::check. A rejected start is not remembered.
  // REQUIRES: the token is new and of epoch 0; there is a request id.
  absl::StatusOr<DirectStartResult> StartDirect(const core::FenceToken& token,
                                                const DirectStart& start);

  // ---- Time, drain, shutdown ----

  // Sends heartbeats and reports of lost runs that are due, and drops expired rejections.
  void FireTimers(absl::Duration now);
  absl::Duration TimeUntilNextTimer(absl::Duration now) const;

  // From now on accepts no tasks.
  void BeginDrain();
  bool is_draining() const { return draining_; }
  // Kills all runs. Each is reported to the director when it has ended.
  void KillRuns();
  // Whether nothing runs and no result or loss waits to be acknowledged.
  bool is_idle() const {
    return !is_running() && results_.empty() && unreported_losses_.empty() &&
           reported_losses_.empty();
  }
  bool is_running() const { return !runs_.empty(); }

  // ---- Reads ----

  const core::LaneLoads& load() const { return load_; }
  // Returns the running tasks that directors dispatched.
  std::vector<core::FenceToken> RunningDispatches() const;
  // Returns the ids of all running tasks, direct starts included.
  std::vector<std::string> RunningTaskIds() const;
  bool IsRunning(const core::FenceToken& token) const { return runs_.contains(token); }
  size_t unacknowledged_results() const { return results_.size(); }
  // Items in directors' messages that this version does not know and ignored.
  uint64_t unknown_items() const { return unknown_items_; }
  uint64_t director_epoch() const { return epoch_; }
  const EngineOptions& options() const { return options_; }
  // For an agent that learns its port only when its server has started.
  void SetUrl(std::string url) { options_.url = std::move(url); }

 private:
  struct Run {
    std::string lane;
    absl::Duration fence_at;
    // Set for direct starts only.
    std::string request_id = {};
    // Why the engine stopped the run. kNone: it ends with the result of its process, or the runner
    // stops it at its fence. kFencedOff: the director sent a FenceOff.
    enum class StopReason { kNone, kCancelled, kFencedOff } stop_reason = StopReason::kNone;
  };
  // The answer to a rejected start, kept until `forget_at` for copies of that start.
  struct Rejection {
    absl::Status answer;
    absl::Duration forget_at;
  };
  // The run that the request id of a direct start stands for.
  struct DirectRequest {
    core::FenceToken token;
    core::Fingerprint fingerprint;
  };
  struct LostRun {
    core::RunResult result;
    absl::Duration fence_at;
  };

  void OnStart(const core::StartRun& start, absl::Duration now);
  void OnCancel(const core::FenceToken& token, absl::Duration now);
  void OnResultAcknowledged(const core::FenceToken& token);
  void OnFencedOff(const core::FenceToken& token);
  void OnGoingAway(absl::Duration extension);
  void OnHeartbeatAcknowledged(absl::Duration sent_at);

  // Returns OK when the task can be started now.
  absl::Status CheckStart(const core::RunSpec& spec) const;
  Run& BeginRun(const core::FenceToken& token, core::RunSpecPtr spec,
                const core::SpanContext& trace, absl::Duration fence_at);
  void OnDirectRunEnded(std::string request_id);
  void Reject(const core::FenceToken& token, absl::Status answer, absl::Duration now);
  void RequestStop(const core::FenceToken& token, Run& run, Run::StopReason reason);
  // Settles a dispatch: drops it from the journal and remembers its token for a while.
  void ForgetRun(const core::FenceToken& token);
  void SendHeartbeat(absl::Duration now);
  // Sends all results that are not acknowledged.
  void SendResults();
  void SendLosses(absl::Duration now);
  void Send(core::AgentMessage message);

  EngineOptions options_;
  core::LaneLoads load_;
  core::LoadReport reported_load_;
  // Every heartbeat and every rejection is followed by a load report.
  bool must_report_load_ = false;

  core::AgentSessionId session_;
  uint64_t epoch_ = 0;
  core::LeaseOptions lease_;
  absl::Duration next_heartbeat_ = absl::InfiniteDuration();
  // By send time; each with the dispatches whose leases it renews.
  std::map<absl::Duration, std::vector<core::FenceToken>> unacknowledged_heartbeats_;

  std::map<core::FenceToken, Run> runs_;
  // Results that no director has acknowledged.
  std::map<core::FenceToken, core::RunResult> results_;
  std::set<core::FenceToken> lost_;
  // Runs in `lost_` that ended during this Session and are not reported yet. A loss is reported
  // only before the fence of the run: after it the director may have given the task to another
  // agent.
  std::map<core::FenceToken, LostRun> unreported_losses_;
  // Losses that were reported in this Session and are not acknowledged.
  std::set<core::FenceToken> reported_losses_;
  std::map<core::FenceToken, Rejection> rejections_;
  std::set<core::FenceToken> settled_;
  // Oldest first.
  std::deque<core::FenceToken> settled_in_order_;
  // By request id.
  std::map<std::string, DirectRequest> direct_requests_;
  // Request ids of direct runs that have ended, oldest first.
  std::deque<std::string> ended_direct_requests_;
  bool draining_ = false;
  uint64_t unknown_items_ = 0;
  Outcome outcome_;
};

}  // namespace callboard::agent

#endif  // CALLBOARD_LIBS_AGENT_ENGINE_H_
