#ifndef CALLBOARD_LIBS_AGENT_DRIVER_H_
#define CALLBOARD_LIBS_AGENT_DRIVER_H_

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
#include "libs/agent/engine.h"
#include "libs/agent/journal.h"
#include "libs/base/mutex.h"
#include "libs/core/session.h"
#include "libs/ports/clock.h"
#include "libs/ports/task_runner.h"

namespace callboard::agent {

// The agent's end of one Session. Thread-safe; nothing here waits.
class SessionLine {
 public:
  virtual ~SessionLine() = default;
  // Dropped once the Session is over: the next one begins with everything that is known.
  virtual void Say(const core::AgentWord& word) = 0;
  virtual void End(const absl::Status& why) = 0;
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
  std::vector<std::string> running_task_ids = {};
  size_t unacknowledged_results = 0;
};

// An AgentEngine and its thread: takes what comes from Sessions and from the runner, writes what
// follows into the journal, and only then does and says it. When the journal fails it does and says
// nothing more: Sessions end, and whoever owns it had better end it, and the runs with it.
//
// Thread-safe. No call waits but WaitUntilIdle() and the end.
class AgentDriver final : public ports::RunWatcher {
 public:
  using MakeRunner =
      std::function<absl::StatusOr<std::unique_ptr<ports::TaskRunner>>(ports::RunWatcher&)>;

  // `clock` and `journal` outlive the driver. `journaled`: what the lives before left. The runner's
  // error when there is none to be had.
  static absl::StatusOr<std::unique_ptr<AgentDriver>> Start(EngineOptions options,
                                                            const Journaled& journaled,
                                                            const ports::Clock& clock,
                                                            Journal& journal,
                                                            const MakeRunner& make_runner);
  // Ends what runs, with the runner.
  ~AgentDriver() override;
  AgentDriver(const AgentDriver&) = delete;
  AgentDriver& operator=(const AgentDriver&) = delete;

  // ---- Sessions ----

  // A Session begins. One that is not served is ended.
  core::SessionId Open(std::shared_ptr<SessionLine> line, const core::SessionTerms& terms);
  void Hear(core::SessionId session, std::vector<core::DirectorWord> words);
  void OnBroken(core::SessionId session);

  // ---- Others ----

  void GetView(std::function<void(AgentView)> reply);
  // Takes no more tasks.
  void BeginDrain();
  // Waits until nothing runs and everything is acknowledged, or the journal has failed; false when
  // `timeout` passed first.
  bool WaitUntilIdle(absl::Duration timeout);

  // ---- ports::RunWatcher ----

  void OnOutput(const core::FenceToken& token, ports::OutputChunk chunk) override;
  void OnEnded(const core::FenceToken& token, core::RunResult result) override;

 private:
  AgentDriver(EngineOptions options, const Journaled& journaled, const ports::Clock& clock,
              Journal& journal);

  using Command = std::function<void(absl::Duration now)>;
  // What of a run's output the director has not acknowledged.
  struct Output {
    std::deque<core::OutputChunk> unacknowledged = {};
    bool ended = false;
  };

  void Post(Command command);
  void Run();
  void Follow();
  void Do(const RunnerOrder& order);
  void SayOutput(const core::FenceToken& token, core::OutputChunk chunk);
  void OnOutputAcknowledged(const core::OutputAcknowledged& acknowledged);
  void DoOpen(core::SessionId session, std::shared_ptr<SessionLine> line,
              const core::SessionTerms& terms, absl::Duration now);

  const ports::Clock& clock_;
  Journal& journal_;

  // Of the driver's thread.
  AgentEngine engine_;
  std::shared_ptr<SessionLine> line_;
  std::map<core::FenceToken, Output> outputs_;
  // Why the journal could not be written.
  absl::Status failure_;

  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<Command> waiting_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_session_ ABSL_GUARDED_BY(mutex_) = 0;
  bool idle_ ABSL_GUARDED_BY(mutex_) = true;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::unique_ptr<ports::TaskRunner> runner_;
  std::thread thread_;
};

}  // namespace callboard::agent

#endif  // CALLBOARD_LIBS_AGENT_DRIVER_H_
