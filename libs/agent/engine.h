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
#include "libs/agent/journal.h"
#include "libs/core/fingerprint.h"
#include "libs/core/ids.h"
#include "libs/core/session.h"
#include "libs/core/task.h"
#include "libs/ports/task_runner.h"

namespace callboard::agent {

struct EngineOptions {
  std::string name = {};
  // Names this life of the process.
  std::string instance_id = {};
  // grpc://host:port
  std::string url = {};
  std::map<std::string, std::string> labels = {};
  // Abilities beyond the version of the Session, as directors know them by name.
  std::set<std::string> features = {};
  // Tasks that run at once.
  std::map<std::string, uint32_t> lanes = {{"default", 1}};
  // Whether tasks may be started past the queue.
  bool allow_direct = false;
  // Whether a task can be run at all; any can when null.
  std::function<absl::Status(const core::TaskSpec&)> check = {};
};

// What the runner is to do.
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
using RunnerOrder = std::variant<ports::RunOrder, StopRun, KillRun, MoveFence>;

// What follows from commands: to be written into the journal first, then to be done, then said.
struct Outcome {
  std::vector<JournalRecord> journal = {};
  std::vector<RunnerOrder> orders = {};
  // To the director, in the Session that is open.
  std::vector<core::AgentWord> words = {};

  bool empty() const { return journal.empty() && orders.empty() && words.empty(); }
};

// The run that a start past the queue stands for.
struct DirectStart {
  core::FenceToken token;
  // It was there already.
  bool deduplicated = false;
};

// The rules of an agent: which starts it takes, what it answers to copies of them, what it keeps
// until it is acknowledged, and when a task is ended because nobody renewed its lease.
//
// Passive and pure: no threads, no I/O; time comes in as an argument and is the agent's own
// monotonic time, `now`. Not thread-safe.
//
// A dispatch is known from its acceptance until its result is acknowledged or it is fenced off. It
// is running, has a result, or is lost: accepted once, not running and without a result.
class AgentEngine {
 public:
  // `journal`: what the lives before left. None of its processes may be alive.
  AgentEngine(EngineOptions options, const Journaled& journal);
  AgentEngine(const AgentEngine&) = delete;
  AgentEngine& operator=(const AgentEngine&) = delete;

  // What has followed since the last time.
  Outcome TakeOutcome();
  // Says the load if it is not what was said last, however often it changed in between, or if it
  // has to be said again. What comes together is one turn: a run that is over at once changes
  // nothing.
  void EndTurn();

  // ---- The Session ----

  // A director opens a Session; the answer, everything that it knows, is in the outcome. ABORTED/
  // SESSION_REPLACED when there is one of a later epoch.
  absl::Status Open(core::SessionId session, const core::SessionTerms& terms, absl::Duration now);
  // Ignored when it comes from a Session that was replaced.
  void Hear(core::SessionId session, const core::DirectorWord& word, absl::Duration now);
  void OnBroken(core::SessionId session);
  bool is_connected() const { return session_ != core::SessionId(); }
  bool IsOpen(core::SessionId session) const { return is_connected() && session_ == session; }

  // Runs that are over and settled with the director are remembered up to this number, in case a
  // copy of their start is yet to come.
  static constexpr size_t kSettledRunsMax = 256;

  // ---- The runner ----

  void OnEnded(const core::FenceToken& token, core::RunResult result);

  // ---- Starts past the queue ----

  // Request ids that are remembered of runs that have ended.
  static constexpr size_t kDirectRequestsMax = 10'000;

  // Through the same door, without a lease; the run ends by itself. The run that the task's request
  // id stands for when there is one of the same content: ALREADY_EXISTS/REQUEST_ID_REUSED when it
  // is another. FAILED_PRECONDITION/DIRECT_DISABLED or LABEL_MISSING, UNAVAILABLE/AGENT_DRAINING,
  // ABORTED/AGENT_BUSY, or why it cannot be run at all; a refusal is not remembered. REQUIRES: the
  // token is new, of epoch 0, and there is a request id.
  absl::StatusOr<DirectStart> StartDirect(const core::FenceToken& token, core::SpecPtr spec,
                                          const core::SpanContext& trace);

  // ---- Time, and the end ----

  // Does what is due: heartbeats, losses that are to be told, and what was remembered long enough.
  void FireTimers(absl::Duration now);
  absl::Duration UntilNextTimer(absl::Duration now) const;

  // Takes no more tasks.
  void BeginDrain();
  bool is_draining() const { return draining_; }
  // Kills what runs. The director hears of each run as soon as it is over.
  void KillRuns();
  // Nothing runs, and nothing waits to be acknowledged.
  bool is_idle() const {
    return !is_running() && results_.empty() && new_losses_.empty() && losses_said_.empty();
  }
  bool is_running() const { return !runs_.empty(); }

  // ---- Reads ----

  const core::LaneLoads& load() const { return load_; }
  // What directors asked for.
  std::vector<core::FenceToken> Running() const;
  // That, and what was started directly.
  std::vector<std::string> RunningTaskIds() const;
  bool IsRunning(const core::FenceToken& token) const { return runs_.contains(token); }
  size_t unacknowledged() const { return results_.size(); }
  // Items of directors that this version does not know, and ignored.
  uint64_t unknown_items() const { return unknown_items_; }
  uint64_t director_epoch() const { return epoch_; }
  const EngineOptions& options() const { return options_; }
  // For an agent that learns its port when it serves.
  void SetUrl(std::string url) { options_.url = std::move(url); }

 private:
  struct Run {
    std::string lane;
    absl::Duration fence_at;
    // Of a direct start.
    std::string request_id = {};
    // Why it was told to stop; by itself, it ends with whatever its process says.
    enum class Stop { kNo, kCancelled, kFenced } stop = Stop::kNo;
  };
  // The answer to a start that was refused, and until when it is remembered.
  struct Refusal {
    absl::Status answer;
    absl::Duration forget_at;
  };
  // What the request id of a direct start stands for.
  struct Request {
    core::FenceToken token;
    core::Fingerprint fingerprint;
  };

  void OnStart(const core::StartRun& start, absl::Duration now);
  void OnCancel(const core::FenceToken& token, absl::Duration now);
  void OnAcknowledged(const core::FenceToken& token);
  void OnFenced(const core::FenceToken& token);
  void OnGoingAway(absl::Duration extension);
  void OnHeartbeatAcknowledged(absl::Duration sent_at);

  // OK when the task can be started now.
  absl::Status Consider(const core::TaskSpec& spec) const;
  Run& Begin(const core::FenceToken& token, core::SpecPtr spec, const core::SpanContext& trace,
             absl::Duration fence_at);
  void OnDirectEnded(std::string request_id);
  void Refuse(const core::FenceToken& token, absl::Status answer, absl::Duration now);
  void Stop(const core::FenceToken& token, Run& run, Run::Stop why);
  // Settled with the director.
  void Forget(const core::FenceToken& token);
  void Beat(absl::Duration now);
  // Those that were not acknowledged.
  void SayResults();
  void SayLosses(absl::Duration now);
  void Say(core::AgentWord word);

  EngineOptions options_;
  core::LaneLoads load_;
  core::LoadReported load_said_;
  // With every heartbeat and refusal.
  bool load_is_due_ = false;

  core::SessionId session_;
  uint64_t epoch_ = 0;
  core::LeaseOptions lease_;
  absl::Duration next_beat_ = absl::InfiniteDuration();
  // Heartbeats that were not acknowledged, and what each renews.
  std::map<absl::Duration, std::vector<core::FenceToken>> beats_;

  std::map<core::FenceToken, Run> runs_;
  // What was not acknowledged.
  std::map<core::FenceToken, core::RunResult> results_;
  std::set<core::FenceToken> lost_;
  // Those of them that ended just now, with what is to be said of them unless the fence of the run
  // has passed: by then the director may have given the task to another agent.
  struct Loss {
    core::RunResult result;
    absl::Duration fence_at;
  };
  std::map<core::FenceToken, Loss> new_losses_;
  // Those that this Session's director was told of and has not answered to.
  std::set<core::FenceToken> losses_said_;
  std::map<core::FenceToken, Refusal> refusals_;
  std::set<core::FenceToken> settled_;
  // The first to be settled first.
  std::deque<core::FenceToken> settled_in_order_;
  // Of direct starts, by request id; and of those whose runs have ended, the first to end first.
  std::map<std::string, Request> requests_;
  std::deque<std::string> ended_requests_;
  bool draining_ = false;
  uint64_t unknown_items_ = 0;
  Outcome outcome_;
};

}  // namespace callboard::agent

#endif  // CALLBOARD_LIBS_AGENT_ENGINE_H_
