#include "libs/runner/run_loop.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/log.h"
#include "libs/core/limits.h"
#include "libs/runner/child_processes.h"

namespace callboard::runner {
namespace {

using core::RunResult;
using ports::OutputStream;

constexpr int kEventsMax = 64;
constexpr size_t kReadBytes = 64 * 1024;
// Limit of reads from a pipe when the processes of its run are gone. It is enough to empty the
// pipe; a process that still writes to it does not belong to the run.
constexpr int kLastReadsMax = 32;
// Size of a report with the longest result and error.
constexpr size_t kReportBytesMax = core::kResultBytesMax + core::kErrorBytesMax + 4096;
constexpr uint64_t kSources = 8;
// Time without a message from the launcher after which it is pinged.
constexpr absl::Duration kPingInterval = absl::Seconds(2);
// Time between attempts to kill the processes of an overdue run, and the number of attempts after
// which the supervisor is killed in any case.
constexpr absl::Duration kKillAgain = absl::Milliseconds(10);
constexpr int kKillRoundsMax = 100;
// Time allowed for removing the files of a run whose supervisor died.
constexpr absl::Duration kCleanUpMax = absl::Minutes(1);

struct Pipe {
  base::Descriptor read_end;
  base::Descriptor write_end;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return base::SystemError("make a pipe");
  Pipe pipe = {base::Descriptor(ends[0]), base::Descriptor(ends[1])};
  // Only the read end: programs expect that their output blocks.
  CHECK_EQ(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
  return pipe;
}

absl::StatusOr<base::Descriptor> PlanFile(const RunPlan& plan) {
  base::Descriptor file(memfd_create("plan", MFD_CLOEXEC));
  if (!file.is_open() || !base::WriteAll(file, EncodePlan(plan)))
    return base::SystemError("write a plan");
  return file;
}

}  // namespace

RunLoop::RunLoop(Deps deps, LauncherLink launcher, int wake)
    : deps_(std::move(deps)),
      launcher_(std::move(launcher)),
      events_(epoll_create1(EPOLL_CLOEXEC)),
      buffer_(std::max(kReadBytes, kReportBytesMax)) {
  CHECK(events_.is_open());
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = static_cast<uint64_t>(Source::kWake)}};
  CHECK_EQ(epoll_ctl(events_.get(), EPOLL_CTL_ADD, wake, &event), 0);
  AddLauncherToEpoll();
}

void RunLoop::Start(const ports::RunRequest& request) {
  const uint64_t number = ++last_number_;
  CHECK(numbers_.emplace(request.token, number).second) << request.task_id;
  Run& run = *(runs_[number] = std::make_unique<Run>(Run{.token = request.token, .folders = {}}));
  const absl::StatusOr<RunPlan> plan = deps_.planner.Plan(request);
  if (!plan.ok()) return EndRun(number, run, NotStartedReport(plan.status()));
  run.folders = plan->folders;
  run.timeout = plan->timeout;
  run.kill_grace = plan->kill_grace;
  run.times_out_at = deps_.clock.MonotonicNow() + plan->timeout;
  run.fence_at = std::max(plan->fence_at, deps_.clock.MonotonicNow() - run.kill_grace);
  SetDeadline(number, run);
  if (const absl::Status launched = LaunchSupervisor(number, run, *plan); !launched.ok()) {
    EndRun(number, run, NotStartedReport(launched));
  }
}

void RunLoop::SendInstruction(const core::FenceToken& token, const Instruction& instruction) {
  const auto number = numbers_.find(token);
  if (number == numbers_.end()) return;
  Run& run = *runs_.at(number->second);
  const std::string bytes = EncodeInstruction(instruction);
  // Ignore errors: the supervisor is dead or about to report, which is handled as another event.
  send(run.control.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  const absl::Duration now = deps_.clock.MonotonicNow();
  switch (instruction.kind) {
    case Instruction::Kind::kStop:
      run.stopped_at = std::min(run.stopped_at, now);
      break;
    case Instruction::Kind::kKill:
      run.killed_at = std::min(run.killed_at, now);
      break;
    case Instruction::Kind::kMoveFence:
      // A fence in the past leaves no grace, but the supervisor receives it only now.
      run.fence_at = std::max(instruction.fence_at, now - run.kill_grace);
      break;
  }
  SetDeadline(number->second, run);
}

void RunLoop::AcknowledgeOutput(const core::FenceToken& token, uint64_t bytes) {
  const auto number = numbers_.find(token);
  if (number == numbers_.end()) return;
  Run& run = *runs_.at(number->second);
  run.log.Acknowledge(bytes);
  SendChunks(run);
}

void RunLoop::KillAll() {
  for (const auto& [token, number] : numbers_) SendInstruction(token, {Instruction::Kind::kKill});
}

void RunLoop::RunOnce() {
  int timeout = -1;
  absl::Duration next = ping_deadline_;
  for (const auto* times : {&cuts_due_, &deadlines_}) {
    if (!times->empty()) next = std::min(next, times->begin()->first);
  }
  if (next != absl::InfiniteDuration()) {
    const absl::Duration left =
        std::clamp(next - deps_.clock.MonotonicNow(), absl::ZeroDuration(), absl::Hours(1));
    // Round up, so that the timer has expired afterwards.
    timeout = static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
  }
  epoll_event events[kEventsMax];
  const int count = epoll_wait(events_.get(), events, kEventsMax, timeout);
  CHECK(count >= 0 || errno == EINTR);
  for (int i = 0; i < count; ++i) {
    HandleEvent(events[i].data.u64 / kSources, static_cast<Source>(events[i].data.u64 % kSources));
  }
  CutDueChunks();
  const absl::Duration now = deps_.clock.MonotonicNow();
  EnforceDeadlines(now);
  CheckLauncher(now);
}

void RunLoop::AddToEpoll(const base::Descriptor& descriptor, uint64_t number, Source source,
                         uint32_t events) {
  epoll_event event = {.events = events,
                       .data = {.u64 = number * kSources + static_cast<uint64_t>(source)}};
  // Closing the descriptor removes it from epoll, because it has no duplicates.
  CHECK_EQ(epoll_ctl(events_.get(), EPOLL_CTL_ADD, descriptor.get(), &event), 0);
}

void RunLoop::AddLauncherToEpoll() {
  epoll_event event = {.events = EPOLLIN,
                       .data = {.u64 = static_cast<uint64_t>(Source::kLauncher)}};
  CHECK_EQ(epoll_ctl(events_.get(), EPOLL_CTL_ADD, launcher_->descriptor(), &event), 0);
}

void RunLoop::HandleEvent(uint64_t number, Source source) {
  if (source == Source::kWake) return;
  if (source == Source::kLauncher) return HandleLauncherEvent();
  Run* run = FindRun(number);
  // An earlier event may have ended the run.
  if (run == nullptr) return;
  if (source == Source::kControl) return HandleControlEvent(number, *run);
  HandleOutputEvent(number, *run,
                    source == Source::kStdout ? OutputStream::kStdout : OutputStream::kStderr);
}

absl::Status RunLoop::LaunchSupervisor(uint64_t number, Run& run, const RunPlan& plan) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return base::SystemError("make a socket");
  }
  run.control = base::Descriptor(ends[0]);
  Launch launch = {.number = number};
  launch.descriptors[0] = base::Descriptor(ends[1]);
  ASSIGN_OR_RETURN(Pipe output, MakePipe());
  ASSIGN_OR_RETURN(Pipe error, MakePipe());
  ASSIGN_OR_RETURN(launch.descriptors[3], PlanFile(plan));
  launch.descriptors[1] = std::move(output.write_end);
  launch.descriptors[2] = std::move(error.write_end);
  // A cleanup has no task and no output. The pipes of the task are kept: they may not be empty yet.
  if (!plan.argv.empty()) {
    run.outputs = {std::move(output.read_end), std::move(error.read_end)};
    AddToEpoll(run.outputs[0], number, Source::kStdout, EPOLLIN);
    AddToEpoll(run.outputs[1], number, Source::kStderr, EPOLLIN);
  }
  AddToEpoll(run.control, number, Source::kControl, EPOLLIN);
  run.launcher_generation = launcher_generation_;
  run.supervisor = 0;
  // The launcher's message about the supervisor counts as a reply to a ping.
  if (!is_ping_pending_) {
    is_ping_pending_ = true;
    ping_deadline_ = deps_.clock.MonotonicNow() + kLauncherAnswerMax;
  }
  launches_.push_back(std::move(launch));
  if (launches_.size() == 1) SendLaunches();
  return absl::OkStatus();
}

void RunLoop::SendLaunches() {
  while (!launches_.empty() &&
         launcher_->Launch(launches_.front().number, launches_.front().descriptors)) {
    launches_.pop_front();
  }
  epoll_event event = {.events = launches_.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT,
                       .data = {.u64 = static_cast<uint64_t>(Source::kLauncher)}};
  CHECK_EQ(epoll_ctl(events_.get(), EPOLL_CTL_MOD, launcher_->descriptor(), &event), 0);
}

void RunLoop::HandleLauncherEvent() {
  const std::optional<std::vector<LauncherMessage>> messages = launcher_->ReceiveMessages();
  if (!messages.has_value()) return ReplaceLauncher();
  if (!messages->empty()) {
    is_ping_pending_ = false;
    ping_deadline_ = deps_.clock.MonotonicNow() + kPingInterval;
  }
  for (const LauncherMessage& message : *messages) {
    if (message.run == kLauncherReady) continue;
    if (message.supervisor == 0) {
      OnSupervisorDeathReported(message.run);
    } else if (Run* run = FindRun(message.run); run != nullptr) {
      run->supervisor = static_cast<pid_t>(message.supervisor);
    }
  }
  SendLaunches();
}

void RunLoop::OnSupervisorDeathReported(uint64_t number) {
  // Read what the supervisor sent before it died.
  if (Run* run = FindRun(number); run != nullptr && run->control.is_open()) {
    HandleControlEvent(number, *run);
  }
  if (Run* run = FindRun(number); run != nullptr) HandleSupervisorDeath(number, *run);
}

void RunLoop::CheckLauncher(absl::Duration now) {
  if (now < ping_deadline_) return;
  if (runs_.empty() && !is_ping_pending_) {
    ping_deadline_ = absl::InfiniteDuration();
  } else if (!is_ping_pending_) {
    is_ping_pending_ = true;
    ping_deadline_ = now + kLauncherAnswerMax;
    launcher_->SendPing();
  } else {
    base::LogWarning("agent", "launcher_replaced",
                     {{"pid", launcher_->pid()},
                      {"why", "it did not reply to a ping; was it suspended?"},
                      {"next", "tasks that it had not started yet are reported as not started"}});
    launcher_->Kill(Supervisors());
    ReplaceLauncher();
  }
}

std::set<pid_t> RunLoop::Supervisors() const {
  std::set<pid_t> supervisors;
  for (const auto& [number, run] : runs_) {
    if (run->supervisor != 0 && run->control.is_open()) supervisors.insert(run->supervisor);
  }
  return supervisors;
}

void RunLoop::ReplaceLauncher() {
  absl::StatusOr<LauncherLink> launcher = LauncherLink::Start(deps_.lock, deps_.environment);
  // Without a launcher this process cannot run tasks.
  CHECK_OK(launcher.status());
  launcher_.emplace(*std::move(launcher));
  ++launcher_generation_;
  is_ping_pending_ = false;
  ping_deadline_ = deps_.clock.MonotonicNow() + kPingInterval;
  deps_.on_launcher(launcher_->pid(), Supervisors());
  AddLauncherToEpoll();
  for (const Launch& launch : launches_) {
    runs_.at(launch.number)->launcher_generation = launcher_generation_;
  }
  SendLaunches();
  // Supervisors survive their launcher. Handle those that died before it could report that.
  std::vector<uint64_t> gone;
  for (const auto& [number, run] : runs_) {
    if (!run->control.is_open() && run->launcher_generation != launcher_generation_) {
      gone.push_back(number);
    }
  }
  for (const uint64_t number : gone) HandleSupervisorDeath(number, *runs_.at(number));
}

void RunLoop::HandleControlEvent(uint64_t number, Run& run) {
  while (true) {
    const ssize_t count = recv(run.control.get(), buffer_.data(), buffer_.size(), 0);
    // ECONNRESET: the supervisor exited with an unread instruction. The kernel reports that once,
    // before the messages that the supervisor has sent.
    if (count < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) break;
    const absl::string_view message(buffer_.data(), static_cast<size_t>(count));
    if (const std::optional<Report> report = DecodeReport(message)) {
      return EndRun(number, run, *report);
    }
    HandleProgress(message, run);
    SetDeadline(number, run);
  }
  // The supervisor died. The launcher sends a message when the processes of the run are gone.
  run.control.Close();
  if (run.launcher_generation != launcher_generation_) HandleSupervisorDeath(number, run);
}

void RunLoop::HandleProgress(absl::string_view message, Run& run) {
  if (message == kTaskStarting) {
    run.may_have_started = true;
    // The supervisor starts its timeout now.
    run.times_out_at = deps_.clock.MonotonicNow() + run.timeout;
  } else if (message == kProcessesGone) {
    run.processes_gone = true;
  } else {
    int64_t pid = 0;
    CHECK(absl::ConsumePrefix(&message, kTaskStarted) && absl::SimpleAtoi(message, &pid))
        << message;
    deps_.observer.OnStarted(run.token, pid);
  }
}

void RunLoop::SetDeadline(uint64_t number, Run& run) {
  // When no process is left, only a stop makes the end of the run urgent.
  const absl::Duration due = run.processes_gone
                                 ? run.stopped_at
                                 : std::min({run.times_out_at, run.fence_at, run.stopped_at});
  deadlines_.erase({run.deadline, number});
  run.deadline = std::min(due + run.kill_grace, run.killed_at) + kSupervisorSlack;
  if (run.deadline != absl::InfiniteDuration()) deadlines_.emplace(run.deadline, number);
}

void RunLoop::EnforceDeadlines(absl::Duration now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const uint64_t number = deadlines_.begin()->second;
    KillOverdue(number, *runs_.at(number), now);
  }
}

void RunLoop::KillOverdue(uint64_t number, Run& run, absl::Duration now) {
  const absl::Duration late = now - run.deadline;
  deadlines_.erase({run.deadline, number});
  run.deadline = absl::InfiniteDuration();
  // The supervisor is already dead, which is handled when the launcher reports it.
  if (!run.control.is_open()) return;
  // Postpone the deadline while the supervisor is not forked yet. Postpone it once if this process
  // was suspended, because then the supervisor may have been suspended too.
  const bool was_suspended = late > kSupervisorSlack && !std::exchange(run.was_postponed, true);
  if (run.supervisor == 0 || was_suspended) {
    run.deadline = now + kSupervisorSlack;
    deadlines_.emplace(run.deadline, number);
    return;
  }
  if (run.kill_rounds == 0 && !run.is_cleanup) {
    const absl::Duration asked_for = std::min(run.stopped_at, run.killed_at);
    const bool timed_out = run.times_out_at < std::min(run.fence_at, asked_for);
    const absl::string_view why = timed_out                  ? "its timeout"
                                  : run.fence_at < asked_for ? "its fence"
                                                             : "its cancel";
    run.overdue_result = {.end = timed_out ? RunResult::End::kTimedOut : RunResult::End::kCancelled,
                          .error = absl::StrCat("the supervisor did not end the task at ", why,
                                                "; the agent killed both")};
    base::LogWarning("agent", "supervisor_killed",
                     {{"task_id", core::TaskIdText(run.token.queue_id, run.token.dispatch)},
                      {"pid", run.supervisor},
                      {"why", run.overdue_result->error}});
  }
  if (++run.kill_rounds <= kKillRoundsMax && KillDescendants(run.supervisor)) {
    run.deadline = now + kKillAgain;
    deadlines_.emplace(run.deadline, number);
    return;
  }
  kill(run.supervisor, SIGKILL);
}

void RunLoop::HandleSupervisorDeath(uint64_t number, Run& run) {
  // The second supervisor died too. The files are removed when the next agent starts.
  if (run.is_cleanup) return EndRun(number, run, {});
  if (run.launcher_generation != launcher_generation_) {
    KillProcessesWithVariable(FenceTokenVariable(run.token));
  }
  if (run.overdue_result.has_value()) {
    run.failure_result = run.overdue_result;
  } else if (run.may_have_started) {
    run.failure_result = {.end = RunResult::End::kFailed,
                          .error =
                              "the supervisor of the task died; all processes of the task were "
                              "killed"};
  } else {
    run.failure_result =
        NotStartedReport(absl::AbortedError("the supervisor died before it started the task"))
            .result;
  }
  run.is_cleanup = true;
  run.kill_rounds = 0;
  run.timeout = run.times_out_at = run.fence_at = run.stopped_at = absl::InfiniteDuration();
  run.killed_at = deps_.clock.MonotonicNow() + kCleanUpMax;
  SetDeadline(number, run);
  if (!LaunchSupervisor(number, run, {.folders = run.folders}).ok()) EndRun(number, run, {});
}

bool RunLoop::ReadOutput(Run& run, OutputStream stream) {
  base::Descriptor& output = run.outputs[static_cast<size_t>(stream)];
  if (!output.is_open()) return false;
  const ssize_t count = read(output.get(), buffer_.data(), kReadBytes);
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return false;
  if (count <= 0) {
    output.Close();
    return false;
  }
  run.log.Append(stream, {buffer_.data(), static_cast<size_t>(count)}, deps_.clock.WallNow(),
                 deps_.clock.MonotonicNow());
  SendChunks(run);
  return true;
}

void RunLoop::HandleOutputEvent(uint64_t number, Run& run, OutputStream stream) {
  if (ReadOutput(run, stream)) ScheduleCut(number, run);
}

void RunLoop::SendChunks(Run& run) {
  while (std::optional<ports::OutputChunk> chunk = run.log.TakeChunk()) {
    deps_.observer.OnOutput(run.token, *std::move(chunk));
  }
}

void RunLoop::ScheduleCut(uint64_t number, Run& run) {
  const absl::Duration due_at = run.log.due_at();
  if (due_at == run.due_at) return;
  cuts_due_.erase({run.due_at, number});
  run.due_at = due_at;
  if (due_at != absl::InfiniteDuration()) cuts_due_.emplace(due_at, number);
}

void RunLoop::CutDueChunks() {
  if (cuts_due_.empty()) return;
  const absl::Duration now = deps_.clock.MonotonicNow();
  while (!cuts_due_.empty() && cuts_due_.begin()->first <= now) {
    const uint64_t number = cuts_due_.begin()->second;
    Run& run = *runs_.at(number);
    run.log.CutChunks(now);
    SendChunks(run);
    ScheduleCut(number, run);
  }
}

void RunLoop::EndRun(uint64_t number, Run& run, Report report) {
  for (const OutputStream stream : {OutputStream::kStdout, OutputStream::kStderr}) {
    for (int reads = 0; reads < kLastReadsMax && ReadOutput(run, stream); ++reads) {
    }
  }
  run.log.Finish();
  SendChunks(run);
  RunResult result = run.failure_result.value_or(std::move(report.result));
  if (run.failure_result.has_value() || !report.has_result_file) {
    result.result = std::string(run.log.stdout_tail());
    result.result_truncated = run.log.stdout_bytes() > result.result.size();
  }
  const core::FenceToken token = run.token;
  cuts_due_.erase({run.due_at, number});
  deadlines_.erase({run.deadline, number});
  numbers_.erase(token);
  runs_.erase(number);
  deps_.observer.OnEnded(token, std::move(result));
}

RunLoop::Run* RunLoop::FindRun(uint64_t number) {
  const auto run = runs_.find(number);
  return run == runs_.end() ? nullptr : run->second.get();
}

}  // namespace callboard::runner
