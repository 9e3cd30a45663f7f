#include "tests/e2e/cluster.h"

#include <signal.h>

#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/check.h"
#include "libs/testing/running_server.h"
#include "tests/e2e/eventually.h"

namespace callboard::e2e {
namespace {

constexpr char kDirector[] = "services/director/callboard-director";
constexpr char kAgent[] = "services/agent/callboard-agent";
constexpr uint32_t kMaxAttempts = 50;
constexpr absl::Duration kTimeout = absl::Minutes(2);

// Returns the prefix that runs a command in the environment of the cluster.
std::vector<std::string> Environment(const ClusterOptions& options) {
  std::vector<std::string> command = {"/usr/bin/env"};
  command.insert(command.end(), options.environment.begin(), options.environment.end());
  return command;
}

std::vector<std::string> DirectorCommand(const std::filesystem::path& folder,
                                         const ClusterOptions& options) {
  std::vector<std::string> flags = {
      "--queue.max_size=0", "--lease.heartbeat=1s", "--lease.kill_grace=0s",
      absl::StrCat("--lease.self_fence=", kSelfFenceSeconds, "s"),
      absl::StrCat("--lease.redispatch_after=", kRedispatchSeconds, "s")};
  flags.insert(flags.end(), options.director_flags.begin(), options.director_flags.end());
  std::vector<std::string> command = Environment(options);
  if (options.disk != nullptr) {
    for (const std::string& variable : options.disk->environment()) command.push_back(variable);
    flags.push_back(absl::StrCat("--data_dir=", options.disk->data_dir().string()));
  } else {
    flags.push_back(absl::StrCat("--data_dir=", (folder / "director").string()));
  }
  for (std::string& word : test::ServerCommand(kDirector, flags)) {
    command.push_back(std::move(word));
  }
  return command;
}

crash::FoundTask FoundFrom(const v1::Task& task) {
  using State = crash::FoundTask::State;
  return {.queue_id = task.queue_id(),
          .request_id = task.request_id(),
          .content = task.prompt(),
          .state = task.state() == v1::Task::STATE_PENDING     ? State::kPending
                   : task.state() == v1::Task::STATE_CANCELLED ? State::kCancelled
                                                               : State::kOther,
          .position = task.position()};
}

}  // namespace

// ---- ServerProcess
// -------------------------------------------------------------------------------------

bool ServerProcess::TryStart() {
  CHECK(!is_alive());
  if (process_.has_value()) earlier_log_ += process_->Output();
  process_.emplace(command_);
  const std::optional<std::string> line = process_->WaitForLineOrEnd("server=listening");
  if (!line.has_value()) return false;
  network_.SetTarget(test::FieldOf(*line, "grpc"));
  http_port_ = test::PortOf(test::FieldOf(*line, "http"));
  return true;
}

void ServerProcess::Start() { CHECK(TryStart()) << process_->Output(); }

bool ServerProcess::is_alive() {
  if (!process_.has_value()) return false;
  if (!process_->WaitForExit(absl::ZeroDuration()).has_value()) return true;
  // Another process may get its port from now on.
  network_.SetTarget("");
  return false;
}

void ServerProcess::Kill() {
  process_->Signal(SIGKILL);
  CHECK_EQ(WaitForEnd(), 128 + SIGKILL);
}

int ServerProcess::WaitForEnd() {
  const std::optional<int> code = process_->WaitForExit(kTimeout);
  CHECK(code.has_value()) << process_->Output();
  network_.SetTarget("");
  return *code;
}

int ServerProcess::Terminate() {
  process_->Signal(SIGTERM);
  return WaitForEnd();
}

void ServerProcess::Freeze() { process_->Signal(SIGSTOP); }

void ServerProcess::Thaw() { process_->Signal(SIGCONT); }

// ---- Cluster ------------------------------------------------------------------------------------

Cluster::Cluster(const std::filesystem::path& folder, const ClusterOptions& options)
    : folder_(folder),
      director_(DirectorCommand(folder, options)),
      client_(director_.address()),
      record_(folder / "runs") {
  std::vector<std::string> addresses;
  for (size_t i = 1; i <= options.agents; ++i) {
    AddAgent(i, options);
    addresses.push_back(agents_.back()->address());
  }
  if (options.are_listed) {
    director_.AddFlag(absl::StrCat("--fleet.agents=", absl::StrJoin(addresses, ",")));
  }
  director_.Start();
  for (const auto& agent : agents_) agent->Start();
  client_.WaitForAgents(options.agents);
}

void Cluster::AddAgent(size_t i, const ClusterOptions& options) {
  std::vector<std::string> flags = {"--runner.kind=shell", "--runner.allow_shell",
                                    absl::StrCat("--director.address=", director_.address()),
                                    absl::StrCat("--agent.name=agent-", i),
                                    absl::StrCat("--data_dir=", AgentFolder(i).string())};
  flags.insert(flags.end(), options.agent_flags.begin(), options.agent_flags.end());
  std::vector<std::string> command = Environment(options);
  command.insert(command.end(), options.agent_wrapper.begin(), options.agent_wrapper.end());
  for (const std::string& word : test::ServerCommand(kAgent, flags)) command.push_back(word);
  agents_.push_back(std::make_unique<ServerProcess>(std::move(command)));
  agents_.back()->AddFlag(absl::StrCat("--agent.advertise=", agents_.back()->address()));
}

std::filesystem::path Cluster::AgentFolder(size_t i) const {
  return folder_ / absl::StrCat("agent-", i);
}

v1::SubmitTaskRequest Cluster::Task(const std::string& work) {
  v1::SubmitTaskRequest request;
  request.set_prompt(record_.Script(work));
  request.set_request_id(absl::StrCat("task-", ++requests_));
  request.set_on_agent_lost(v1::ON_AGENT_LOST_REQUEUE);
  request.set_max_attempts(kMaxAttempts);
  return request;
}

std::string Cluster::WaitForGate() const {
  return absl::StrCat("while [ ! -e '", (folder_ / "gate").string(), "' ]; do sleep 0.02; done");
}

void Cluster::Open() const { std::ofstream(folder_ / "gate") << "open"; }

RunLine Cluster::WaitForRun(const std::string& queue_id, uint64_t dispatch) {
  RunLine found;
  CHECK(WaitUntilTrue(kTimeout,
                      [&] {
                        for (const RunLine& line : record_.Read()) {
                          if (line.token.queue_id != queue_id || line.token.dispatch != dispatch)
                            continue;
                          found = line;
                          return true;
                        }
                        return false;
                      }))
      << queue_id << " does not run";
  return found;
}

bool Cluster::AllEndWithin(absl::Duration timeout) {
  return WaitUntilTrue(timeout, [&] {
    client_.Undrain();
    client_.Kick();
    const v1::QueueStatus status = client_.Status();
    return status.depth() == 0 && status.in_flight() == 0;
  });
}

Cluster::CheckResult Cluster::Check() {
  const std::vector<ObservedTask> seen = client_.FindAll();
  std::vector<crash::FoundTask> found;
  for (const ObservedTask& task : seen) found.push_back(FoundFrom(task.task));
  return {.submits = crash::CheckHistory(client_.history(), found, {.runs = true}),
          .runs = CheckRuns(seen, record_.Read())};
}

std::string Cluster::CheckResult::ToString() const {
  return absl::StrCat(submits.ToString(), "\n", runs.ToString());
}

}  // namespace callboard::e2e
