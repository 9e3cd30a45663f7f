#ifndef CALLBOARD_LIBS_AGENT_DRIVER_H_
#define CALLBOARD_LIBS_AGENT_DRIVER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libs/agent/engine.h"
#include "libs/agent/observer.h"
#include "libs/agent/run_table.h"
#include "libs/base/mutex.h"
#include "libs/core/session.h"
#include "libs/core/task.h"
#include "libs/ports/environment.h"
#include "libs/ports/task_runner.h"

namespace callboard::agent {

// The agent's end of one Session's stream. Thread-safe; no call blocks.
class SessionStream {
 public:
  virtual ~SessionStream() = default;
  // Sends the messages in order, in one gRPC message if they fit. Drops them if the Session has
  // ended: the next Session's opening message reports the same facts.
  virtual void Send(absl::Span<const core::AgentMessage> messages) = 0;
  virtual void End(const absl::Status& status) = 0;
};

// Dependencies of an AgentDriver. All outlive it.
struct Deps {
  const ports::Clock& clock;
  ports::Random& random;
  Journal& journal;
  // May be null.
  Observer* observer = nullptr;
};

// A snapshot of an agent, for its status page and its API.
struct AgentSnapshot {
  std::string name = {};
  std::string instance_id = {};
  core::LaneLoads lanes = {};
  std::map<std::string, std::string> labels = {};
  bool connected = false;
  uint64_t director_epoch = 0;
  bool draining = false;
  // Current runs, by task id.
  std::vector<RunView> runs = {};
  size_t unacknowledged_results = 0;
};

// Drives an AgentEngine: queues commands from Sessions, callers and the runner, runs them in turns,
// and applies the effects of each turn in order: write the journal, execute the runner's commands,
// send the messages.
//
// If the journal cannot be written, the driver ends the Session and executes and sends nothing
// more. The owner should then destroy it, which also ends its runs.
//
// Threads: one turn runs at a time. The driver has a thread that runs turns. A thread that delivers
// a director's message runs the turn itself unless another turn is in progress, because waking up
// the driver's thread costs more than the rest of a short task.
//
// Thread-safe. Only KillRuns(), WaitUntilIdle() and the destructor block.
class AgentDriver final : public ports::RunObserver {
 public:
  // Number of calls that may wait for a turn. More fail with UNAVAILABLE/OVERLOADED.
  static constexpr size_t kCallsMax = 1024;

  // `journal`: the state that the previous processes of this agent left. Returns the error of
  // `make_runner` if that fails.
  static absl::StatusOr<std::unique_ptr<AgentDriver>> Start(
      EngineOptions options, const JournalState& journal, const Deps& deps,
      const ports::TaskRunnerFactory& make_runner);
  // Ends all runs together with the runner.
  ~AgentDriver() override;
  AgentDriver(const AgentDriver&) = delete;
  AgentDriver& operator=(const AgentDriver&) = delete;

  // ---- Sessions ----

  // Opens a Session. Ends `stream` if the engine does not accept it.
  core::AgentSessionId OpenSession(std::shared_ptr<SessionStream> stream,
                                   const core::SessionTerms& terms);
  void Handle(core::AgentSessionId session, std::vector<core::DirectorMessage> messages);
  void OnSessionClosed(core::AgentSessionId session);

  // ---- Calls. Replies run on the thread of the turn. ----

  template <class T>
  using Reply = std::function<void(absl::StatusOr<T>)>;

  void GetSnapshot(Reply<AgentSnapshot> reply);
  // See AgentEngine::StartDirect(). Replies after the runner has received the run.
  void StartDirect(DirectStart start, Reply<DirectStartResult> reply);
  // See RunTable::Find().
  void GetRun(std::string task_id, Reply<RunView> reply);

  // See RunTable::StartReading(), ReadNext() and StopReading().
  ReaderId NextReader() { return ReaderId(++last_reader_); }
  void ReadOutput(ReaderId id, OutputQuery query, OutputCallbacks callbacks);
  void ReadNext(ReaderId id);
  void StopReading(ReaderId id);

  // ---- Drain and shutdown ----

  // Sets the URL that Sessions opened from now on announce. For an agent that learns its port only
  // when its server has started.
  void SetUrl(std::string url);

  // From now on accepts no tasks.
  void BeginDrain();
  // Kills all runs and waits until they have ended and a connected director, if there is one, has
  // acknowledged them. Returns false on timeout.
  bool KillRuns(absl::Duration timeout);
  // Waits until nothing runs and all results are acknowledged. Waits for output to be acknowledged
  // only while a director is connected. Returns true immediately if the journal has failed, and
  // false on timeout.
  bool WaitUntilIdle(absl::Duration timeout);

  // ---- ports::RunObserver ----

  void OnStarted(const core::FenceToken& token, int64_t pid) override;
  void OnOutput(const core::FenceToken& token, ports::OutputChunk chunk) override;
  void OnEnded(const core::FenceToken& token, core::RunResult result) override;

 private:
  AgentDriver(EngineOptions options, const JournalState& journal, const Deps& deps);

  using Command = std::function<void(absl::Duration now)>;
  // Output of a run that the director has not acknowledged.
  struct UnacknowledgedOutput {
    std::deque<core::OutputChunk> chunks = {};
    bool ended = false;
  };

  void Enqueue(Command command) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Post(Command command);
  // Posts a caller's command, or calls `reject` if kCallsMax commands wait already.
  void PostCall(Command command, const std::function<void(absl::Status)>& reject);
  void Run();
  // Waits until there is work and no turn is in progress, and takes the turn. Returns false when
  // the driver is stopping.
  bool WaitForTurn();
  // Runs one turn and ends it. REQUIRES: the caller has taken the turn.
  void RunTurn();
  void RunCommands();
  // Returns the time at which the engine's next timer is due.
  absl::Duration NextTimer() const;
  // Writes the journal, executes the runner's commands and moves messages to the outbox.
  void ApplyOutcome();
  // Sends the outbox.
  void Flush();
  void NotifyObserver() const;
  void Execute(const RunnerCommand& command);
  absl::Status CheckTask(const core::RunSpec& spec) const;
  bool WaitUntil(const bool& reached, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendOutput(const core::FenceToken& token, core::OutputChunk chunk);
  void OnOutputAcknowledged(const core::OutputAck& acknowledged);
  void DoOpenSession(core::AgentSessionId session, std::shared_ptr<SessionStream> stream,
                     const core::SessionTerms& terms, absl::Duration now);

  const Deps deps_;
  std::atomic<uint64_t> last_reader_ = 0;

  // Used only by the thread that has the turn.
  AgentEngine engine_;
  std::shared_ptr<SessionStream> stream_;
  // Messages to send in the open Session.
  std::vector<core::AgentMessage> outbox_;
  std::map<core::FenceToken, UnacknowledgedOutput> outputs_;
  RunTable run_table_;
  // Why the journal could not be written.
  absl::Status failure_;

  base::Mutex mutex_;
  // Wakes up the driver's thread.
  base::CondVar work_available_;
  // Signals that idle_ or runs_reported_ became true.
  base::CondVar idle_changed_;
  bool turn_in_progress_ ABSL_GUARDED_BY(mutex_) = false;
  // When the driver's thread wakes up without being notified.
  absl::Duration wake_at_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  std::deque<Command> commands_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_session_ ABSL_GUARDED_BY(mutex_) = 0;
  bool idle_ ABSL_GUARDED_BY(mutex_) = true;
  // Nothing runs, and a connected director has acknowledged everything.
  bool runs_reported_ ABSL_GUARDED_BY(mutex_) = true;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::unique_ptr<ports::TaskRunner> runner_;
  std::thread thread_;
};

}  // namespace callboard::agent

#endif  // CALLBOARD_LIBS_AGENT_DRIVER_H_
