#include "libs/adapters/subprocess_runner/run_loop.h"

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
#include "libs/adapters/subprocess_runner/child_processes.h"
#include "libs/base/check.h"
#include "libs/base/log.h"
#include "libs/base/status_macros.h"
#include "libs/core/limits.h"

namespace callboard::adapters {
namespace {

using core::RunResult;
using ports::OutputStream;

constexpr int kEventsPerTurn = 64;
constexpr size_t kReadBytes = 64 * 1024;
// Of what is left in the pipe of a run whose processes are gone. Who still writes to it then is
// none of them.
constexpr int kLastReadsMax = 32;
// Report, with the longest result and error.
constexpr size_t kReportBytesMax = core::kResultBytesMax + core::kErrorBytesMax + 4096;
constexpr uint64_t kSources = 8;
// Between questions to a launcher that says nothing by itself.
constexpr absl::Duration kLauncherSilence = absl::Seconds(2);
// Between looks for what is to be killed, and how many there are before the supervisor is killed.
constexpr absl::Duration kKillAgain = absl::Milliseconds(10);
constexpr int kKillLooksMax = 100;
// What it takes at most to remove the files of a run whose supervisor died.
constexpr absl::Duration kCleanUpMax = absl::Minutes(1);

struct Pipe {
  base::Descriptor read_end;
  base::Descriptor write_end;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return base::SystemError("make a pipe");
  Pipe pipe = {base::Descriptor(ends[0]), base::Descriptor(ends[1])};
  // The task's end stays as programs expect it.
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

RunLoop::RunLoop(Parts parts, LauncherLink launcher, int wake)
    : parts_(std::move(parts)),
      launcher_(std::move(launcher)),
      events_(epoll_create1(EPOLL_CLOEXEC)),
      buffer_(std::max(kReadBytes, kReportBytesMax)) {
  CHECK(events_.is_open());
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = static_cast<uint64_t>(Source::kWake)}};
  CHECK_EQ(epoll_ctl(events_.get(), EPOLL_CTL_ADD, wake, &event), 0);
  WatchLauncher();
}

void RunLoop::Start(const ports::RunOrder& order) {
  const uint64_t number = ++last_number_;
  CHECK(numbers_.emplace(order.token, number).second) << order.task_id;
  Run& run = *(runs_[number] = std::make_unique<Run>(Run{.token = order.token, .folders = {}}));
  const absl::StatusOr<RunPlan> plan = parts_.planner.Plan(order);
  if (!plan.ok()) return End(number, run, NotStarted(plan.status()));
  run.folders = plan->folders;
  run.timeout = plan->timeout;
  run.kill_grace = plan->kill_grace;
  run.times_out_at = parts_.clock.MonotonicNow() + plan->timeout;
  run.fence_at = std::max(plan->fence_at, parts_.clock.MonotonicNow() - run.kill_grace);
  SetDeadline(number, run);
  if (const absl::Status begun = Begin(number, run, *plan); !begun.ok()) {
    End(number, run, NotStarted(begun));
  }
}

void RunLoop::Instruct(const core::FenceToken& token, const Instruction& instruction) {
  const auto number = numbers_.find(token);
  if (number == numbers_.end()) return;
  Run& run = *runs_.at(number->second);
  const std::string bytes = EncodeInstruction(instruction);
  // A supervisor that does not take it is dead or does its last: it is heard of.
  send(run.control.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  const absl::Duration now = parts_.clock.MonotonicNow();
  switch (instruction.kind) {
    case Instruction::Kind::kStop:
      run.stopped_at = std::min(run.stopped_at, now);
      break;
    case Instruction::Kind::kKill:
      run.killed_at = std::min(run.killed_at, now);
      break;
    case Instruction::Kind::kFence:
      // One that has passed leaves no grace, but the supervisor hears of it only now.
      run.fence_at = std::max(instruction.fence_at, now - run.kill_grace);
      break;
  }
  SetDeadline(number->second, run);
}

void RunLoop::Delivered(const core::FenceToken& token, uint64_t bytes) {
  const auto number = numbers_.find(token);
  if (number == numbers_.end()) return;
  Run& run = *runs_.at(number->second);
  run.log.Delivered(bytes);
  HandOut(run);
}

void RunLoop::KillAll() {
  for (const auto& [token, number] : numbers_) Instruct(token, {Instruction::Kind::kKill});
}

void RunLoop::Turn() {
  int timeout = -1;
  absl::Duration next = launcher_due_;
  for (const auto* times : {&due_, &deadlines_}) {
    if (!times->empty()) next = std::min(next, times->begin()->first);
  }
  if (next != absl::InfiniteDuration()) {
    const absl::Duration left =
        std::clamp(next - parts_.clock.MonotonicNow(), absl::ZeroDuration(), absl::Hours(1));
    // Rounded up, so that it is not too early.
    timeout = static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
  }
  epoll_event events[kEventsPerTurn];
  const int count = epoll_wait(events_.get(), events, kEventsPerTurn, timeout);
  CHECK(count >= 0 || errno == EINTR);
  for (int i = 0; i < count; ++i) {
    OnEvent(events[i].data.u64 / kSources, static_cast<Source>(events[i].data.u64 % kSources));
  }
  CutOutput();
  const absl::Duration now = parts_.clock.MonotonicNow();
  EnforceDeadlines(now);
  CheckLauncher(now);
}

void RunLoop::Watch(const base::Descriptor& descriptor, uint64_t number, Source source,
                    uint32_t events) {
  epoll_event event = {.events = events,
                       .data = {.u64 = number * kSources + static_cast<uint64_t>(source)}};
  // Closing it ends the watch: nobody else has it.
  CHECK_EQ(epoll_ctl(events_.get(), EPOLL_CTL_ADD, descriptor.get(), &event), 0);
}

void RunLoop::WatchLauncher() {
  epoll_event event = {.events = EPOLLIN,
                       .data = {.u64 = static_cast<uint64_t>(Source::kLauncher)}};
  CHECK_EQ(epoll_ctl(events_.get(), EPOLL_CTL_ADD, launcher_->descriptor(), &event), 0);
}

void RunLoop::OnEvent(uint64_t number, Source source) {
  if (source == Source::kWake) return;
  if (source == Source::kLauncher) return OnLauncher();
  Run* run = Find(number);
  // It may have ended by an event before this one.
  if (run == nullptr) return;
  if (source == Source::kControl) return OnControl(number, *run);
  OnOutput(number, *run, source == Source::kStdout ? OutputStream::kStdout : OutputStream::kStderr);
}

absl::Status RunLoop::Begin(uint64_t number, Run& run, const RunPlan& plan) {
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
  // What runs in vain to clean up writes nothing, and the run's own pipes are still to be read.
  if (!plan.argv.empty()) {
    run.outputs = {std::move(output.read_end), std::move(error.read_end)};
    Watch(run.outputs[0], number, Source::kStdout, EPOLLIN);
    Watch(run.outputs[1], number, Source::kStderr, EPOLLIN);
  }
  Watch(run.control, number, Source::kControl, EPOLLIN);
  run.launcher = launcher_number_;
  run.supervisor = 0;
  // Its note of the supervisor is an answer.
  if (!launcher_was_asked_) {
    launcher_was_asked_ = true;
    launcher_due_ = parts_.clock.MonotonicNow() + kLauncherSilenceMax;
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

void RunLoop::OnLauncher() {
  const std::optional<std::vector<LauncherNote>> notes = launcher_->TakeNotes();
  if (!notes.has_value()) return ReplaceLauncher();
  if (!notes->empty()) {
    launcher_was_asked_ = false;
    launcher_due_ = parts_.clock.MonotonicNow() + kLauncherSilence;
  }
  for (const LauncherNote& note : *notes) {
    if (note.run == kLauncherReady) continue;
    if (note.supervisor == 0) {
      OnSupervisorDead(note.run);
    } else if (Run* run = Find(note.run); run != nullptr) {
      run->supervisor = static_cast<pid_t>(note.supervisor);
    }
  }
  SendLaunches();
}

void RunLoop::OnSupervisorDead(uint64_t number) {
  // Not all that it said may have been heard.
  if (Run* run = Find(number); run != nullptr && run->control.is_open()) OnControl(number, *run);
  if (Run* run = Find(number); run != nullptr) OnSupervisorGone(number, *run);
}

void RunLoop::CheckLauncher(absl::Duration now) {
  if (now < launcher_due_) return;
  if (runs_.empty() && !launcher_was_asked_) {
    launcher_due_ = absl::InfiniteDuration();
  } else if (!launcher_was_asked_) {
    launcher_was_asked_ = true;
    launcher_due_ = now + kLauncherSilenceMax;
    launcher_->Ask();
  } else {
    base::LogWarning("agent", "launcher_replaced",
                     {{"pid", launcher_->pid()},
                      {"why", "it did not answer; was it stopped?"},
                      {"next", "tasks that it had not begun are reported as not started"}});
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
  absl::StatusOr<LauncherLink> launcher = LauncherLink::Start(parts_.lock, parts_.environment);
  // Without one there is nothing that this process can do.
  CHECK_OK(launcher.status());
  launcher_.emplace(*std::move(launcher));
  ++launcher_number_;
  launcher_was_asked_ = false;
  launcher_due_ = parts_.clock.MonotonicNow() + kLauncherSilence;
  parts_.on_launcher(launcher_->pid(), Supervisors());
  WatchLauncher();
  for (const Launch& launch : launches_) runs_.at(launch.number)->launcher = launcher_number_;
  SendLaunches();
  // Supervisors live without it. Those that do not, and of whom it could not say so any more:
  std::vector<uint64_t> gone;
  for (const auto& [number, run] : runs_) {
    if (!run->control.is_open() && run->launcher != launcher_number_) gone.push_back(number);
  }
  for (const uint64_t number : gone) OnSupervisorGone(number, *runs_.at(number));
}

void RunLoop::OnControl(uint64_t number, Run& run) {
  while (true) {
    const ssize_t count = recv(run.control.get(), buffer_.data(), buffer_.size(), 0);
    // It left an instruction unread. That is told first, once; what it said comes after it.
    if (count < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) break;
    const absl::string_view said(buffer_.data(), static_cast<size_t>(count));
    if (const std::optional<Report> report = DecodeReport(said)) return End(number, run, *report);
    OnProgress(said, run);
    SetDeadline(number, run);
  }
  // It died. Its launcher tells when its processes are gone.
  run.control.Close();
  if (run.launcher != launcher_number_) OnSupervisorGone(number, run);
}

void RunLoop::OnProgress(absl::string_view said, Run& run) {
  if (said == kTaskBegins) {
    run.may_have_begun = true;
    // Its supervisor counts from now on.
    run.times_out_at = parts_.clock.MonotonicNow() + run.timeout;
  } else if (said == kProcessesGone) {
    run.processes_are_gone = true;
  } else {
    int64_t pid = 0;
    CHECK(absl::ConsumePrefix(&said, kTaskStarted) && absl::SimpleAtoi(said, &pid)) << said;
    parts_.watcher.OnStarted(run.token, pid);
  }
}

void RunLoop::SetDeadline(uint64_t number, Run& run) {
  // Without processes only somebody who waits for the end is in a hurry.
  const absl::Duration due = run.processes_are_gone
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
  // The death of one that is dead is told.
  if (!run.control.is_open()) return;
  // It waits for a launcher; or this process was stopped, and its supervisor may have been, too.
  const bool is_woken = late > kSupervisorSlack && !std::exchange(run.was_woken, true);
  if (run.supervisor == 0 || is_woken) {
    run.deadline = now + kSupervisorSlack;
    deadlines_.emplace(run.deadline, number);
    return;
  }
  if (run.kill_looks == 0 && !run.cleans_up) {
    const absl::Duration asked_for = std::min(run.stopped_at, run.killed_at);
    const bool timed_out = run.times_out_at < std::min(run.fence_at, asked_for);
    const absl::string_view why = timed_out                  ? "its timeout"
                                  : run.fence_at < asked_for ? "its fence"
                                                             : "its cancel";
    run.overdue = {
        .end = timed_out ? RunResult::End::kTimedOut : RunResult::End::kCancelled,
        .error = absl::StrCat("its supervisor did not end it at ", why, "; the agent killed both")};
    base::LogWarning("agent", "supervisor_killed",
                     {{"task_id", core::TaskIdText(run.token.queue_id, run.token.dispatch)},
                      {"pid", run.supervisor},
                      {"why", run.overdue->error}});
  }
  if (++run.kill_looks <= kKillLooksMax && KillDescendants(run.supervisor)) {
    run.deadline = now + kKillAgain;
    deadlines_.emplace(run.deadline, number);
    return;
  }
  kill(run.supervisor, SIGKILL);
}

void RunLoop::OnSupervisorGone(uint64_t number, Run& run) {
  // So did the one that was to clean up.
  if (run.cleans_up) return End(number, run, {});
  if (run.launcher != launcher_number_) KillMarkedProcesses(FenceVariable(run.token));
  if (run.overdue.has_value()) {
    run.failure = run.overdue;
  } else if (run.may_have_begun) {
    run.failure = {.end = RunResult::End::kFailed,
                   .error =
                       "the process that supervised it died, and all of its processes were "
                       "killed"};
  } else {
    run.failure =
        NotStarted(absl::AbortedError("the process that was to start it died before that")).result;
  }
  run.cleans_up = true;
  run.kill_looks = 0;
  run.timeout = run.times_out_at = run.fence_at = run.stopped_at = absl::InfiniteDuration();
  run.killed_at = parts_.clock.MonotonicNow() + kCleanUpMax;
  SetDeadline(number, run);
  if (!Begin(number, run, {.folders = run.folders}).ok()) End(number, run, {});
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
  run.log.Append(stream, {buffer_.data(), static_cast<size_t>(count)}, parts_.clock.WallNow(),
                 parts_.clock.MonotonicNow());
  HandOut(run);
  return true;
}

void RunLoop::OnOutput(uint64_t number, Run& run, OutputStream stream) {
  if (ReadOutput(run, stream)) Schedule(number, run);
}

void RunLoop::HandOut(Run& run) {
  while (std::optional<ports::OutputChunk> chunk = run.log.Take()) {
    parts_.watcher.OnOutput(run.token, *std::move(chunk));
  }
}

void RunLoop::Schedule(uint64_t number, Run& run) {
  const absl::Duration due_at = run.log.due_at();
  if (due_at == run.due_at) return;
  due_.erase({run.due_at, number});
  run.due_at = due_at;
  if (due_at != absl::InfiniteDuration()) due_.emplace(due_at, number);
}

void RunLoop::CutOutput() {
  if (due_.empty()) return;
  const absl::Duration now = parts_.clock.MonotonicNow();
  while (!due_.empty() && due_.begin()->first <= now) {
    const uint64_t number = due_.begin()->second;
    Run& run = *runs_.at(number);
    run.log.Cut(now);
    HandOut(run);
    Schedule(number, run);
  }
}

void RunLoop::End(uint64_t number, Run& run, Report report) {
  for (const OutputStream stream : {OutputStream::kStdout, OutputStream::kStderr}) {
    for (int reads = 0; reads < kLastReadsMax && ReadOutput(run, stream); ++reads) {
    }
  }
  run.log.Finish();
  HandOut(run);
  RunResult result = run.failure.value_or(std::move(report.result));
  if (run.failure.has_value() || !report.has_result_file) {
    result.result = std::string(run.log.stdout_tail());
    result.result_truncated = run.log.stdout_bytes() > result.result.size();
  }
  const core::FenceToken token = run.token;
  due_.erase({run.due_at, number});
  deadlines_.erase({run.deadline, number});
  numbers_.erase(token);
  runs_.erase(number);
  parts_.watcher.OnEnded(token, std::move(result));
}

RunLoop::Run* RunLoop::Find(uint64_t number) {
  const auto run = runs_.find(number);
  return run == runs_.end() ? nullptr : run->second.get();
}

}  // namespace callboard::adapters
