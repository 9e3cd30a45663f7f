#include "services/cli/board_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "libs/base/json_quoted.h"
#include "libs/wire/enum_text.h"
#include "libs/wire/time.h"
#include "services/cli/answer_text.h"

namespace callboard::cli {
namespace {

// Ended tasks get at least this part of the view, if there are so many.
constexpr size_t kEndedPart = 3;

std::string StateText(v1::Task::State state) {
  return wire::EnumText(*v1::Task::State_descriptor(), state);
}

// The task may have gone on since.
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

absl::Time TimeOf(const google::protobuf::Timestamp& proto) {
  return wire::FromProto(proto).value_or(absl::UnixEpoch());
}

// When the task came to be as it is, or at least to its agent.
absl::Time Since(const v1::Task& task) {
  return TimeOf(task.has_finished_at()     ? task.finished_at()
                : task.has_dispatched_at() ? task.dispatched_at()
                                           : task.created_at());
}

// Reason and words for it, as far as there are any.
std::string Why(v1::Task::State state, const v1::Task& task, const std::string& words) {
  const bool has_failed = state == v1::Task::STATE_FAILED && task.state() == state;
  std::string why = has_failed ? wire::EnumText(*v1::Task::Reason_descriptor(), task.reason()) : "";
  if (!why.empty() && !words.empty()) why += ": ";
  return Plain(why + words);
}

std::string WordsOf(const v1::WatchTasksResponse::Change& change) {
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

// How long it waits, runs, or ran.
std::string TimeText(const v1::Task& task, absl::Time now) {
  if (!task.has_finished_at()) return Rounded(now - Since(task));
  return task.has_dispatched_at()
             ? Rounded(TimeOf(task.finished_at()) - TimeOf(task.dispatched_at()))
             : "-";
}

std::string TaskLine(const TaskBoard& board, const v1::Task& task, const Frame& frame) {
  const bool is_troubled =
      task.state() == v1::Task::STATE_PENDING || task.state() == v1::Task::STATE_FAILED;
  const std::string why = is_troubled ? Why(task.state(), task, task.last_error()) : "";
  const std::string begin = absl::StrFormat("%-32s ", task.queue_id());
  const std::string state = absl::StrFormat("%-11s", StateText(task.state()));
  const std::string rest =
      absl::StrFormat(" %-16s %3d %7s  %s%s%s", Cut(Plain(board.AgentOf(task)), 16),
                      task.dispatch(), TimeText(task, frame.now), why, why.empty() ? "" : "  ",
                      Plain(base::JsonQuoted(task.prompt())));
  const std::string line = Cut(absl::StrCat(begin, state, rest), frame.columns);
  if (!frame.has_colour || line.size() < begin.size() + state.size()) return line;
  return absl::StrCat(begin, ColourOf(task.state()), state, "\x1b[0m",
                      line.substr(begin.size() + state.size()));
}

std::string QueueLine(const v1::QueueStatus& status, const std::string& note) {
  const std::string bound = status.max_size() == 0 ? "" : absl::StrCat(" of ", status.max_size());
  const std::string doing = status.draining() ? ", draining" : status.paused() ? ", paused" : "";
  return absl::StrCat("queue  ", status.depth(), bound, " pending, ", status.in_flight(), " of ",
                      status.max_in_flight(), " running, ", status.waiting(), " waiting", doing,
                      note.empty() ? "" : "  ", Plain(note));
}

}  // namespace

std::string ChangeLine(const v1::WatchTasksResponse::Change& change) {
  const v1::Task& task = change.task();
  const v1::TaskEvent& event = change.event();
  const v1::Task::State state = StateAfter(change);
  const absl::Time at = change.has_event() ? TimeOf(event.at()) : Since(task);
  const uint64_t dispatch = change.has_event() ? event.dispatch() : task.dispatch();
  const std::string agent = change.has_event()
                                ? event.agent()
                                : std::string(absl::StripPrefix(task.agent_url(), "grpc://"));
  std::string line = absl::StrFormat(
      "%s  %s  %-11s  %-12s  %s  %s",
      absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", at, absl::UTCTimeZone()), task.queue_id(),
      StateText(state), agent.empty() ? "-" : Plain(agent),
      dispatch == 0 ? "-" : absl::StrCat(dispatch), Why(state, task, WordsOf(change)));
  return std::string(absl::StripTrailingAsciiWhitespace(line));
}

std::vector<std::string> BoardLines(const TaskBoard& board, const v1::QueueStatus& status,
                                    const std::string& note, const Frame& frame) {
  const std::vector<const v1::Task*> live = board.Live();
  const std::vector<const v1::Task*> ended = board.Ended();
  // The last row is the cursor's.
  const size_t body = frame.rows > 3 ? frame.rows - 3 : 0;
  const size_t for_ended = std::min(ended.size(), body / kEndedPart);
  const bool fits = live.size() <= body - for_ended;
  // One line says how many more there are.
  const size_t shown = fits ? live.size() : body - for_ended - std::min<size_t>(body, 1);
  std::vector<std::string> lines = {Cut(QueueLine(status, note), frame.columns),
                                    Cut(absl::StrFormat("%-32s %-11s %-16s %3s %7s  %s", "TASK",
                                                        "STATE", "AGENT", "RUN", "TIME", "WHAT"),
                                        frame.columns)};
  for (size_t i = 0; i < shown; ++i) lines.push_back(TaskLine(board, *live[i], frame));
  if (!fits && body > 0) {
    lines.push_back(Cut(absl::StrCat("and ", live.size() - shown, " more"), frame.columns));
  }
  for (size_t i = 0; i < ended.size() && lines.size() < body + 2; ++i) {
    lines.push_back(TaskLine(board, *ended[i], frame));
  }
  if (lines.size() >= frame.rows) lines.resize(frame.rows > 0 ? frame.rows - 1 : 0);
  return lines;
}

}  // namespace callboard::cli
