#include "libs/adapters/subprocess_runner/run_loop.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "libs/adapters/subprocess_runner/child_processes.h"
#include "libs/base/check.h"
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
  if (const absl::Status begun = Begin(number, run, *plan); !begun.ok()) {
    End(number, run, NotStarted(begun));
  }
}

void RunLoop::Instruct(const core::FenceToken& token, const Instruction& instruction) {
  const auto number = numbers_.find(token);
  if (number == numbers_.end()) return;
  const Run& run = *runs_.at(number->second);
  const std::string bytes = EncodeInstruction(instruction);
  // A supervisor that does not take it is dead or does its last: it is heard of.
  send(run.control.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
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
  if (!due_.empty()) {
    const absl::Duration left = due_.begin()->first - parts_.clock.MonotonicNow();
    // Rounded up, so that it is not too early.
    timeout = static_cast<int>(
        std::max<int64_t>(0, absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)))));
  }
  epoll_event events[kEventsPerTurn];
  const int count = epoll_wait(events_.get(), events, kEventsPerTurn, timeout);
  CHECK(count >= 0 || errno == EINTR);
  for (int i = 0; i < count; ++i) {
    OnEvent(events[i].data.u64 / kSources, static_cast<Source>(events[i].data.u64 % kSources));
  }
  CutOutput();
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
  const std::optional<std::vector<uint64_t>> dead = launcher_->TakeDead();
  if (!dead.has_value()) return ReplaceLauncher();
  for (const uint64_t number : *dead) {
    // Not all that it said may have been heard.
    if (Run* run = Find(number); run != nullptr && run->control.is_open()) OnControl(number, *run);
    if (Run* run = Find(number); run != nullptr) OnSupervisorGone(number, *run);
  }
  SendLaunches();
}

void RunLoop::ReplaceLauncher() {
  absl::StatusOr<LauncherLink> launcher = LauncherLink::Start(parts_.lock, parts_.environment);
  // Without one there is nothing that this process can do.
  CHECK_OK(launcher.status());
  launcher_.emplace(*std::move(launcher));
  ++launcher_number_;
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
    if (said != kTaskBegins) {
      const std::optional<Report> report = DecodeReport(said);
      CHECK(report.has_value());
      return End(number, run, *report);
    }
    run.may_have_begun = true;
  }
  // It died. Its launcher tells when its processes are gone.
  run.control.Close();
  if (run.launcher != launcher_number_) OnSupervisorGone(number, run);
}

void RunLoop::OnSupervisorGone(uint64_t number, Run& run) {
  // So did the one that was to clean up.
  if (run.failure.has_value()) return End(number, run, {});
  if (run.launcher != launcher_number_) KillMarkedProcesses(FenceVariable(run.token));
  if (run.may_have_begun) {
    run.failure = {.end = RunResult::End::kFailed,
                   .error =
                       "the process that supervised it died, and all of its processes were "
                       "killed"};
  } else {
    run.failure =
        NotStarted(absl::AbortedError("the process that was to start it died before that")).result;
  }
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
  numbers_.erase(token);
  runs_.erase(number);
  parts_.watcher.OnEnded(token, std::move(result));
}

RunLoop::Run* RunLoop::Find(uint64_t number) {
  const auto run = runs_.find(number);
  return run == runs_.end() ? nullptr : run->second.get();
}

}  // namespace callboard::adapters
