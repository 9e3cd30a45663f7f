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
#include "libs/agent/journal.h"
#include "libs/agent/observer.h"
#include "libs/agent/run_book.h"
#include "libs/base/mutex.h"
#include "libs/core/session.h"
#include "libs/core/task.h"
#include "libs/ports/clock.h"
#include "libs/ports/random.h"
#include "libs/ports/task_runner.h"

namespace callboard::agent {

// The agent's end of one Session. Thread-safe; nothing here waits.
class SessionLine {
 public:
  virtual ~SessionLine() = default;
  // In one message where they fit. Dropped once the Session is over: the next one begins with
  // everything that is known.
  virtual void Say(absl::Span<const core::AgentWord> words) = 0;
  virtual void End(const absl::Status& why) = 0;
};

// What an agent needs of the world. All outlive it.
struct World {
  const ports::Clock& clock;
  ports::Random& random;
  Journal& journal;
  // May be null.
  Observer* observer = nullptr;
};

// What somebody outside sees of an agent.
struct AgentView {
  std::string name = {};
  std::string instance_id = {};
  core::LaneLoads lanes = {};
  std::map<std::string, std::string> labels = {};
  bool connected = false;
  uint64_t director_epoch = 0;
  bool draining = false;
  // What runs, by task id.
  std::vector<RunView> runs = {};
  size_t unacknowledged_results = 0;
};

// An AgentEngine and its thread: takes what comes from Sessions and from the runner, writes what
// follows into the journal, and only then does and says it. When the journal fails it does and says
// nothing more: Sessions end, and whoever owns it had better end it, and the runs with it.
//
// What the director says is done by the thread that brings it, unless another one is at it: waking
// one up costs more than the rest of a short task.
//
// Thread-safe. No call waits but WaitUntilIdle() and the end.
class AgentDriver final : public ports::RunWatcher {
 public:
  // Calls that may wait for their turn; more are refused with UNAVAILABLE/OVERLOADED.
  static constexpr size_t kCallsMax = 1024;

  // `journaled`: what the lives before left. The runner's error when there is none to be had.
  static absl::StatusOr<std::unique_ptr<AgentDriver>> Start(EngineOptions options,
                                                            const Journaled& journaled,
                                                            const World& world,
                                                            const ports::MakeRunner& make_runner);
  // Ends what runs, with the runner.
  ~AgentDriver() override;
  AgentDriver(const AgentDriver&) = delete;
  AgentDriver& operator=(const AgentDriver&) = delete;

  // ---- Sessions ----

  // A Session begins. One that is not served is ended.
  core::SessionId Open(std::shared_ptr<SessionLine> line, const core::SessionTerms& terms);
  void Hear(core::SessionId session, std::vector<core::DirectorWord> words);
  void OnBroken(core::SessionId session);

  // ---- Callers; replies come from whichever thread has the turn ----

  template <class T>
  using Reply = std::function<void(absl::StatusOr<T>)>;

  void GetView(Reply<AgentView> reply);
  // As AgentEngine's. When it is answered the run has begun.
  void StartDirect(core::SpecPtr spec, const core::SpanContext& trace, Reply<DirectStart> reply);
  // As RunBook's Find().
  void GetRun(std::string task_id, Reply<RunView> reply);

  // As RunBook's Read(), GoOn() and StopReading().
  ReaderId NextReader() { return ReaderId(++last_reader_); }
  void ReadOutput(ReaderId id, OutputQuery query, OutputReader reader);
  void GoOn(ReaderId id);
  void StopReading(ReaderId id);

  // ---- The end ----

  // For an agent that learns its port when it serves: what Sessions that open from now on hear.
  void SetUrl(std::string url);

  // Takes no more tasks.
  void BeginDrain();
  // Kills what runs, and waits until a director that is connected has heard of it; false when
  // `timeout` passed first.
  bool KillRuns(absl::Duration timeout);
  // Waits until nothing runs and everything is acknowledged, output only while a director is
  // connected, or the journal has failed; false when `timeout` passed first.
  bool WaitUntilIdle(absl::Duration timeout);

  // ---- ports::RunWatcher ----

  void OnStarted(const core::FenceToken& token, int64_t pid) override;
  void OnOutput(const core::FenceToken& token, ports::OutputChunk chunk) override;
  void OnEnded(const core::FenceToken& token, core::RunResult result) override;

 private:
  AgentDriver(EngineOptions options, const Journaled& journaled, const World& world);

  using Command = std::function<void(absl::Duration now)>;
  // What of a run's output the director has not acknowledged.
  struct Output {
    std::deque<core::OutputChunk> unacknowledged = {};
    bool ended = false;
  };

  void Push(Command command) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Post(Command command);
  // The same for callers, of whom there may be too many.
  void PostCall(Command command, const std::function<void(absl::Status)>& refuse);
  void Run();
  // Until there is something to do and nobody else does it; false when it is time to end.
  bool WaitForTurn();
  // Decides what waits, writes it down, does it and says it. REQUIRES: the turn is the caller's,
  // who gives it away with this.
  void TakeTurn();
  void DecideWaiting();
  // When the driver's thread has to look again although nobody comes.
  absl::Duration NextTimer() const;
  void Follow();
  // Says what has not been said yet.
  void Speak();
  void ShowLevels() const;
  void Do(const RunnerOrder& order);
  absl::Status Check(const core::TaskSpec& spec) const;
  bool WaitFor(const bool& reached, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SayOutput(const core::FenceToken& token, core::OutputChunk chunk);
  void OnOutputAcknowledged(const core::OutputAcknowledged& acknowledged);
  void DoOpen(core::SessionId session, std::shared_ptr<SessionLine> line,
              const core::SessionTerms& terms, absl::Duration now);

  const World world_;
  std::atomic<uint64_t> last_reader_ = 0;

  // Of whoever has the turn.
  AgentEngine engine_;
  std::shared_ptr<SessionLine> line_;
  // To be said in the Session that is open.
  std::vector<core::AgentWord> unsaid_;
  std::map<core::FenceToken, Output> outputs_;
  RunBook book_;
  // Why the journal could not be written.
  absl::Status failure_;

  base::Mutex mutex_;
  // For the driver's thread.
  base::CondVar something_to_do_;
  base::CondVar settled_;
  bool turn_is_taken_ ABSL_GUARDED_BY(mutex_) = false;
  // When the driver's thread wakes up by itself.
  absl::Duration wakes_at_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  std::deque<Command> waiting_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_session_ ABSL_GUARDED_BY(mutex_) = 0;
  bool idle_ ABSL_GUARDED_BY(mutex_) = true;
  // Nothing runs, and a director that is connected has acknowledged everything.
  bool told_ ABSL_GUARDED_BY(mutex_) = true;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::unique_ptr<ports::TaskRunner> runner_;
  std::thread thread_;
};

}  // namespace callboard::agent

#endif  // CALLBOARD_LIBS_AGENT_DRIVER_H_
