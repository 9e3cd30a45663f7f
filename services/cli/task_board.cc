#include "services/cli/task_board.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/config/settings.h"
#include "libs/wire/enums.h"
#include "libs/wire/json.h"
#include "libs/wire/time.h"
#include "services/cli/answer_text.h"
#include "services/cli/director_client.h"

namespace callboard::cli {
namespace {

using config::v1::CliConfig;

// Returns whether the task has changed visibly.
bool Differs(const v1::Task& a, const v1::Task& b) {
  return std::make_tuple(a.state(), a.dispatch(), a.attempts()) !=
         std::make_tuple(b.state(), b.dispatch(), b.attempts());
}

bool IsPending(const v1::Task* task) { return task->state() == v1::Task::STATE_PENDING; }

}  // namespace

bool IsEnded(v1::Task::State state) {
  return state == v1::Task::STATE_COMPLETED || state == v1::Task::STATE_FAILED ||
         state == v1::Task::STATE_CANCELLED;
}

TaskBoard::TaskBoard(const std::vector<std::string>& named) : named_(named.begin(), named.end()) {}

std::vector<v1::WatchTasksResponse::Change> TaskBoard::Update(
    const v1::WatchTasksResponse& message) {
  resume_token_ = message.resume_token();
  if (message.reset()) {
    tasks_before_reset_ = std::move(tasks_);
    tasks_.clear();
    ended_.clear();
    latest_before_reset_ = latest_change_;
  }
  std::vector<v1::WatchTasksResponse::Change> new_changes;
  for (const v1::WatchTasksResponse::Change& change : message.changes()) {
    const v1::Task& task = change.task();
    const v1::TaskEvent& event = change.event();
    if (change.has_event() || IsNew(task)) new_changes.push_back(change);
    if (!event.agent().empty() && event.dispatch() == task.dispatch()) {
      agents_[task.agent_url()] = event.agent();
    }
    latest_change_ = std::max({latest_change_, TimeOf(event.at()), TimeOf(task.finished_at())});
    Store(task);
  }
  return new_changes;
}

bool TaskBoard::IsNew(const v1::Task& task) const {
  for (const std::map<std::string, v1::Task>* known : {&tasks_, &tasks_before_reset_}) {
    const auto found = known->find(task.queue_id());
    if (found != known->end()) return Differs(task, found->second);
  }
  return !IsEnded(task.state()) || named_.contains(task.queue_id()) ||
         TimeOf(task.finished_at()) > latest_before_reset_;
}

void TaskBoard::Store(const v1::Task& task) {
  tasks_[task.queue_id()] = task;
  if (!IsEnded(task.state())) return;
  ended_.emplace(TimeOf(task.finished_at()), task.queue_id());
  if (!named_.empty() || ended_.size() <= kEndedMax) return;
  tasks_.erase(ended_.begin()->second);
  ended_.erase(ended_.begin());
}

v1::WatchTasksRequest TaskBoard::Request() const {
  v1::WatchTasksRequest request;
  for (const std::string& id : named_) request.add_queue_ids(id);
  request.set_resume_token(resume_token_);
  return request;
}

std::vector<const v1::Task*> TaskBoard::Live() const {
  std::vector<const v1::Task*> live;
  for (const auto& [id, task] : tasks_) {
    if (!IsEnded(task.state())) live.push_back(&task);
  }
  std::stable_partition(live.begin(), live.end(), std::not_fn(IsPending));
  return live;
}

std::vector<const v1::Task*> TaskBoard::Ended() const {
  std::vector<const v1::Task*> ended;
  for (auto each = ended_.rbegin(); each != ended_.rend(); ++each) {
    ended.push_back(&tasks_.at(each->second));
  }
  return ended;
}

std::string TaskBoard::AgentOf(const v1::Task& task) const {
  const auto found = agents_.find(task.agent_url());
  if (found != agents_.end()) return found->second;
  return std::string(absl::StripPrefix(task.agent_url(), "grpc://"));
}

absl::Status TaskBoard::CompletionStatus() const {
  std::vector<std::string> others;
  for (const std::string& id : named_) {
    const auto found = tasks_.find(id);
    const v1::Task::State state =
        found == tasks_.end() ? v1::Task::STATE_UNSPECIFIED : found->second.state();
    if (state == v1::Task::STATE_COMPLETED) continue;
    others.push_back(absl::StrCat(id, " ", wire::EnumText(*v1::Task::State_descriptor(), state)));
  }
  if (others.empty()) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(others.size(), " of ", named_.size(),
                                         " tasks did not complete: ", absl::StrJoin(others, ", ")));
}

// ---- Lines of text ------------------------------------------------------------------------------

namespace {

// Ended tasks get at least one third of the view, if there are enough of them.
constexpr size_t kEndedFraction = 3;

std::string StateText(v1::Task::State state) {
  return wire::EnumText(*v1::Task::State_descriptor(), state);
}

// Returns the state right after the change. The task in the change may have moved on since.
v1::Task::State StateAfter(const v1::WatchTasksResponse::Change& change) {
  switch (change.event().kind()) {
    case v1::TaskEvent::KIND_SUBMITTED:
    case v1::TaskEvent::KIND_ADMITTED:
    case v1::TaskEvent::KIND_DENIED:
    case v1::TaskEvent::KIND_BUSY:
    case v1::TaskEvent::KIND_RETRY:
      return v1::Task::STATE_PENDING;
    case v1::TaskEvent::KIND_DISPATCHING:
      return v1::Task::STATE_DISPATCHING;
    case v1::TaskEvent::KIND_RUNNING:
      return v1::Task::STATE_WORKING;
    case v1::TaskEvent::KIND_DONE:
      return v1::Task::STATE_COMPLETED;
    case v1::TaskEvent::KIND_FAILED:
    case v1::TaskEvent::KIND_TIMEOUT:
    case v1::TaskEvent::KIND_EVICTED:
    case v1::TaskEvent::KIND_EXPIRED:
      return v1::Task::STATE_FAILED;
    case v1::TaskEvent::KIND_CANCELED:
      return v1::Task::STATE_CANCELLED;
    default:
      return change.task().state();
  }
}

// Returns when the task ended, or else was dispatched, or else was created.
absl::Time StateSince(const v1::Task& task) {
  return TimeOf(task.has_finished_at()     ? task.finished_at()
                : task.has_dispatched_at() ? task.dispatched_at()
                                           : task.created_at());
}

// Returns `REASON: detail`, or the one of them that is known.
std::string ReasonText(v1::Task::State state, const v1::Task& task, const std::string& detail) {
  const bool has_failed = state == v1::Task::STATE_FAILED && task.state() == state;
  std::string reason =
      has_failed ? wire::EnumText(*v1::Task::Reason_descriptor(), task.reason()) : "";
  if (!reason.empty() && !detail.empty()) reason += ": ";
  return base::Escaped(reason + detail);
}

std::string DetailText(const v1::WatchTasksResponse::Change& change) {
  const v1::TaskEvent& event = change.event();
  switch (event.kind()) {
    case v1::TaskEvent::KIND_UNSPECIFIED:
      return change.task().last_error();
    case v1::TaskEvent::KIND_CANCEL_REQUESTED:
      return absl::StrCat("cancel requested", event.why().empty() ? "" : ": ", event.why());
    case v1::TaskEvent::KIND_RETRY:
      return absl::StrCat(event.why(), "; ", RunsText(change.task()));
    default:
      return event.why();
  }
}

const char* ColourOf(v1::Task::State state) {
  switch (state) {
    case v1::Task::STATE_DISPATCHING:
    case v1::Task::STATE_WORKING:
      return "\x1b[36m";
    case v1::Task::STATE_COMPLETED:
      return "\x1b[32m";
    case v1::Task::STATE_FAILED:
      return "\x1b[31m";
    case v1::Task::STATE_CANCELLED:
      return "\x1b[33m";
    default:
      return "";
  }
}

std::string Rounded(absl::Duration duration) {
  const absl::Duration unit =
      duration < absl::Seconds(10) ? absl::Milliseconds(100) : absl::Seconds(1);
  return absl::FormatDuration(absl::Trunc(std::max(duration, absl::ZeroDuration()), unit));
}

// Returns how long the task has been waiting or running, or how long it ran.
std::string DurationText(const v1::Task& task, absl::Time now) {
  if (!task.has_finished_at()) return Rounded(now - StateSince(task));
  return task.has_dispatched_at()
             ? Rounded(TimeOf(task.finished_at()) - TimeOf(task.dispatched_at()))
             : "-";
}

std::string TaskLine(const TaskBoard& board, const v1::Task& task, const Frame& frame) {
  const bool shows_reason =
      task.state() == v1::Task::STATE_PENDING || task.state() == v1::Task::STATE_FAILED;
  const std::string why = shows_reason ? ReasonText(task.state(), task, task.last_error()) : "";
  const std::string begin = absl::StrFormat("%-32s ", task.queue_id());
  const std::string state = absl::StrFormat("%-11s", StateText(task.state()));
  const std::string rest =
      absl::StrFormat(" %-16s %8d %7s  %s%s%s", Truncate(base::Escaped(board.AgentOf(task)), 16),
                      task.dispatch(), DurationText(task, frame.now), why, why.empty() ? "" : "  ",
                      base::Escaped(base::JsonQuoted(task.prompt())));
  const std::string line = Truncate(absl::StrCat(begin, state, rest), frame.columns);
  if (!frame.has_colour || line.size() < begin.size() + state.size()) return line;
  return absl::StrCat(begin, ColourOf(task.state()), state, "\x1b[0m",
                      line.substr(begin.size() + state.size()));
}

std::string QueueLine(const v1::QueueStatus& status, const std::string& note) {
  const std::string bound = status.max_size() == 0 ? "" : absl::StrCat(" of ", status.max_size());
  const std::string mode = status.draining() ? ", draining" : status.paused() ? ", paused" : "";
  return absl::StrCat("queue  ", status.depth(), bound, " pending, ", status.in_flight(), " of ",
                      status.max_in_flight(), " running, ", status.waiting(), " waiting", mode,
                      note.empty() ? "" : "  ", base::Escaped(note));
}

}  // namespace

std::string ChangeLine(const v1::WatchTasksResponse::Change& change) {
  const v1::Task& task = change.task();
  const v1::TaskEvent& event = change.event();
  const v1::Task::State state = StateAfter(change);
  const absl::Time at = change.has_event() ? TimeOf(event.at()) : StateSince(task);
  const uint64_t dispatch = change.has_event() ? event.dispatch() : task.dispatch();
  const std::string agent = change.has_event()
                                ? event.agent()
                                : std::string(absl::StripPrefix(task.agent_url(), "grpc://"));
  std::string line = absl::StrFormat(
      "%s  %s  %-11s  %-12s  %s  %s", Rfc3339Text(at), task.queue_id(), StateText(state),
      agent.empty() ? "-" : base::Escaped(agent), dispatch == 0 ? "-" : absl::StrCat(dispatch),
      ReasonText(state, task, DetailText(change)));
  return std::string(absl::StripTrailingAsciiWhitespace(line));
}

std::vector<std::string> BoardLines(const TaskBoard& board, const v1::QueueStatus& status,
                                    const std::string& note, const Frame& frame) {
  const std::vector<const v1::Task*> live = board.Live();
  const std::vector<const v1::Task*> ended = board.Ended();
  // Two rows are headers; the last one is left to the cursor.
  const size_t body = frame.rows > 3 ? frame.rows - 3 : 0;
  const size_t for_ended = std::min(ended.size(), body / kEndedFraction);
  const bool fits = live.size() <= body - for_ended;
  // If the live tasks do not fit, one line shows how many are left out.
  const size_t shown = fits ? live.size() : body - for_ended - std::min<size_t>(body, 1);
  std::vector<std::string> lines = {
      Truncate(QueueLine(status, note), frame.columns),
      Truncate(absl::StrFormat("%-32s %-11s %-16s %8s %7s  %s", "TASK", "STATE", "AGENT",
                               "DISPATCH", "TIME", "DETAIL"),
               frame.columns)};
  for (size_t i = 0; i < shown; ++i) lines.push_back(TaskLine(board, *live[i], frame));
  if (!fits && body > 0) {
    lines.push_back(Truncate(absl::StrCat("and ", live.size() - shown, " more"), frame.columns));
  }
  for (size_t i = 0; i < ended.size() && lines.size() < body + 2; ++i) {
    lines.push_back(TaskLine(board, *ended[i], frame));
  }
  if (lines.size() >= frame.rows) lines.resize(frame.rows > 0 ? frame.rows - 1 : 0);
  return lines;
}

// ---- LiveScreen ---------------------------------------------------------------------------------

namespace {

// Longest and shortest time between two frames.
constexpr absl::Duration kFrameIntervalMax = absl::Seconds(1);
constexpr absl::Duration kFrameIntervalMin = absl::Milliseconds(100);

// Hides the cursor and turns off line wrapping.
constexpr char kBeginFrame[] = "\x1b[?25l\x1b[?7l";
// Undoes kBeginFrame.
constexpr char kEndFrame[] = "\x1b[?7h\x1b[?25h";

// Writes a frame with a single write(): no partial frame is visible, and the terminal is always
// restored even if the process ends right after.
void WriteFrame(const std::string& frame) {
  const std::string text = absl::StrCat(kBeginFrame, frame, kEndFrame);
  std::ignore = write(STDOUT_FILENO, text.data(), text.size());
}

CliConfig WithTimeout(absl::Duration limit, CliConfig config) {
  *config.mutable_timeout() = wire::ToProto(limit);
  return config;
}

}  // namespace

LiveScreen::LiveScreen(const CliConfig& config, TaskBoard board, bool has_colour)
    : config_(WithTimeout(kFrameIntervalMax, config)),
      has_colour_(has_colour),
      board_(std::move(board)),
      drawer_([this] { DrawLoop(); }) {}

LiveScreen::~LiveScreen() {
  {
    base::MutexLock lock(mutex_);
    is_stopping_ = true;
    changed_.NotifyAll();
  }
  drawer_.join();
}

void LiveScreen::Update(const v1::WatchTasksResponse& message) {
  base::MutexLock lock(mutex_);
  board_.Update(message);
  has_message_ = true;
  is_changed_ = true;
  changed_.NotifyAll();
}

v1::WatchTasksRequest LiveScreen::Request() {
  base::MutexLock lock(mutex_);
  return board_.Request();
}

absl::Status LiveScreen::CompletionStatus() {
  base::MutexLock lock(mutex_);
  return board_.CompletionStatus();
}

void LiveScreen::DrawLoop() {
  for (bool is_stopping = false; !is_stopping;) {
    {
      base::MutexLock lock(mutex_);
      changed_.WaitFor(mutex_, kFrameIntervalMax, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return is_changed_ || is_stopping_;
      });
      is_stopping = is_stopping_;
      is_changed_ = false;
    }
    const absl::StatusOr<v1::QueueStatus> status =
        CallDirector(config_, &v1::QueueService::Stub::GetQueueStatus, v1::GetQueueStatusRequest());
    base::MutexLock lock(mutex_);
    if (status.ok()) status_ = *status;
    note_ = std::string(status.status().message());
    if (has_message_) Draw();
    changed_.WaitFor(mutex_, kFrameIntervalMin,
                     [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return is_stopping_; });
  }
}

void LiveScreen::Draw() {
  winsize window = {};
  ioctl(STDOUT_FILENO, TIOCGWINSZ, &window);
  // If the terminal does not report its size, the defaults of Frame apply.
  Frame frame = {.has_colour = has_colour_, .now = clock_.WallNow()};
  if (window.ws_col > 0) frame.columns = window.ws_col;
  if (window.ws_row > 0) frame.rows = window.ws_row;
  // After a resize the positions of the old lines are unknown: clear the whole screen.
  const bool is_resized = columns_ != 0 && (columns_ != frame.columns || rows_ != frame.rows);
  std::string text = is_resized   ? "\x1b[2J\x1b[H"
                     : lines_ > 0 ? absl::StrCat("\x1b[", lines_, "A")
                                  : "";
  const std::vector<std::string> lines = BoardLines(board_, status_, note_, frame);
  for (const std::string& line : lines) absl::StrAppend(&text, line, "\x1b[K\n");
  WriteFrame(text + "\x1b[J");
  lines_ = lines.size();
  columns_ = frame.columns;
  rows_ = frame.rows;
}

// ---- WatchTasks() -------------------------------------------------------------------------------

namespace {

using WatchHandler = StreamHandler<v1::WatchTasksResponse>;

// Returns whether a line of text for the change would be redundant: a submit is also reported as
// KIND_ADMITTED.
bool IsRedundant(const v1::WatchTasksResponse::Change& change) {
  return change.event().kind() == v1::TaskEvent::KIND_SUBMITTED;
}

absl::Status WriteLines(const std::vector<v1::WatchTasksResponse::Change>& changes, bool as_json) {
  for (const v1::WatchTasksResponse::Change& change : changes) {
    if (!as_json && IsRedundant(change)) continue;
    std::puts((as_json ? wire::ToJson(change) : ChangeLine(change)).c_str());
  }
  std::fflush(stdout);
  return std::ferror(stdout) == 0 ? absl::OkStatus()
                                  : absl::UnavailableError("cannot write to standard output");
}

absl::Status WatchInLines(const CliConfig& config, TaskBoard board) {
  const bool as_json = config.output() == CliConfig::OUTPUT_JSON;
  RETURN_IF_ERROR(FollowStream(
      config,
      WatchHandler{.open =
                       [&board](v1::QueueService::Stub& stub, grpc::ClientContext& context) {
                         return stub.WatchTasks(&context, board.Request());
                       },
                   .on_message =
                       [&board, as_json](const v1::WatchTasksResponse& message) {
                         return WriteLines(board.Update(message), as_json);
                       },
                   .on_disconnect =
                       [](const std::string& note) {
                         std::fprintf(stderr, "callboard: %s\n", note.c_str());
                       }}));
  return board.CompletionStatus();
}

absl::Status WatchOnScreen(const CliConfig& config, TaskBoard board, bool has_colour) {
  LiveScreen screen(config, std::move(board), has_colour);
  RETURN_IF_ERROR(FollowStream(
      config,
      WatchHandler{.open =
                       [&screen](v1::QueueService::Stub& stub, grpc::ClientContext& context) {
                         return stub.WatchTasks(&context, screen.Request());
                       },
                   .on_message =
                       [&screen](const v1::WatchTasksResponse& message) {
                         screen.Update(message);
                         return absl::OkStatus();
                       },
                   // The screen shows the failure of its own status calls.
                   .on_disconnect = [](const std::string&) {}}));
  return screen.CompletionStatus();
}

// Returns whether standard output is a terminal that supports drawing.
bool CanDraw(const std::map<std::string, std::string>& environment) {
  const auto term = environment.find("TERM");
  return isatty(STDOUT_FILENO) == 1 && term != environment.end() && !term->second.empty() &&
         term->second != "dumb";
}

}  // namespace

absl::Status WatchTasks(const CliConfig& config, const std::vector<std::string>& queue_ids) {
  const std::map<std::string, std::string> environment = config::ProcessEnvironment();
  if (config.output() == CliConfig::OUTPUT_JSON || !CanDraw(environment)) {
    return WatchInLines(config, TaskBoard(queue_ids));
  }
  const auto no_colour = environment.find("NO_COLOR");
  return WatchOnScreen(config, TaskBoard(queue_ids),
                       no_colour == environment.end() || no_colour->second.empty());
}

}  // namespace callboard::cli
