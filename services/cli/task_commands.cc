#include "services/cli/task_commands.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "callboard/v1/fleet.grpc.pb.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/system/system.h"
#include "libs/wire/enums.h"
#include "libs/wire/json.h"
#include "services/cli/answer_text.h"
#include "services/cli/director_client.h"

namespace callboard::cli {

// ---- One task and its events --------------------------------------------------------------------

namespace {

using config::v1::CliConfig;
using v1::TaskEvent;
using QueueStub = v1::QueueService::Stub;

// Longer reasons are truncated in the table; -o json shows them in full.
constexpr size_t kWhyMax = 160;

// `elapsed` is negative if the wall clock was set back.
std::string ElapsedText(absl::Duration elapsed) {
  return absl::StrCat(elapsed < absl::ZeroDuration() ? "" : "+",
                      absl::FormatDuration(absl::Trunc(elapsed, absl::Milliseconds(1))));
}

std::string PositionText(const TaskEvent& event) {
  const auto text = [](uint64_t position) {
    return position == 0 ? std::string("-") : absl::StrCat(position);
  };
  if (event.place_before() == event.place_after()) return text(event.place_after());
  return absl::StrCat(text(event.place_before()), " -> ", text(event.place_after()));
}

std::string FaultText(const TaskEvent& event) {
  return event.fault() == TaskEvent::FAULT_UNSPECIFIED
             ? "-"
             : wire::EnumText(*TaskEvent::Fault_descriptor(), event.fault());
}

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

constexpr int kPageSize = 1000;
constexpr char kTooOld[] = "this director is too old to list the events of a task\n";

absl::StatusOr<std::vector<v1::TaskEvent>> AllEvents(const CliConfig& config,
                                                     const std::string& queue_id) {
  std::vector<v1::TaskEvent> events;
  v1::ListTaskEventsRequest request;
  request.set_queue_id(queue_id);
  request.set_page_size(kPageSize);
  do {
    ASSIGN_OR_RETURN(const v1::ListTaskEventsResponse page,
                     CallDirector(config, &QueueStub::ListTaskEvents, request));
    events.insert(events.end(), page.events().begin(), page.events().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return events;
}

}  // namespace

std::string TimelineTable(const v1::Task& task, const std::vector<TaskEvent>& events) {
  std::vector<std::vector<std::string>> rows = {
      {"TIME", "ELAPSED", "EVENT", "WHO", "FAULT", "POSITION", "DISPATCH", "AGENT", "WHY"}};
  for (const TaskEvent& event : events) {
    rows.push_back({TimeText(event.at()),
                    ElapsedText(TimeOf(event.at()) - TimeOf(task.submitted_at())),
                    wire::EnumText(*TaskEvent::Kind_descriptor(), event.kind()),
                    OrDash(event.who()), FaultText(event), PositionText(event),
                    event.dispatch() == 0 ? "-" : absl::StrCat(event.dispatch()),
                    OrDash(event.agent()), Truncate(event.why(), kWhyMax)});
  }
  return FormatColumns(rows);
}

std::string TimelineJson(const v1::Task& task, const std::vector<TaskEvent>* events) {
  std::string json = wire::ToJson(task);
  // Removes the closing brace; it follows after the events.
  json.pop_back();
  if (events == nullptr) return absl::StrCat(json, ",\"events\":null}\n");
  const auto append = [](std::string* out, const TaskEvent& event) {
    absl::StrAppend(out, wire::ToJson(event));
  };
  return absl::StrCat(json, ",\"events\":[", absl::StrJoin(*events, ",", append), "]}\n");
}

absl::StatusOr<std::string> ShowTask(const CliConfig& config, const std::string& queue_id) {
  v1::GetTaskRequest request;
  request.set_queue_id(queue_id);
  request.set_view(v1::TASK_VIEW_FULL);
  ASSIGN_OR_RETURN(const v1::Task task, CallDirector(config, &QueueStub::GetTask, request));
  const absl::StatusOr<std::vector<v1::TaskEvent>> events = AllEvents(config, queue_id);
  if (!events.ok() && !absl::IsUnimplemented(events.status())) return events.status();
  if (config.output() == CliConfig::OUTPUT_JSON) {
    return TimelineJson(task, events.ok() ? &*events : nullptr);
  }
  return absl::StrCat(TaskTable(task), "\n", events.ok() ? TimelineTable(task, *events) : kTooOld);
}

// ---- The queue ----------------------------------------------------------------------------------

namespace {

std::string BoundText(const v1::QueueStatus& status) {
  return status.max_size() == 0 ? "(unlimited)" : absl::StrCat("of ", status.max_size());
}

std::string ModeText(const v1::QueueStatus& status) {
  if (status.draining()) return "draining: accepts no new tasks";
  return status.paused() ? "paused: accepts tasks but does not dispatch them" : "running";
}

// Returns a line with who set a switch, when and why; empty when that is not known.
std::string SwitchLine(absl::string_view label, bool is_known, const v1::QueueSwitch& cause) {
  if (!is_known) return "";
  return absl::StrCat("  ", label, "by ", cause.who(), " at ", TimeText(cause.at()),
                      cause.why().empty() ? "" : ": ", base::Escaped(cause.why()), "\n");
}

}  // namespace

std::string QueueStatusTable(const v1::QueueStatus& status) {
  return absl::StrCat(
      "queue      ", ModeText(status), "\n",                                                  //
      SwitchLine("paused   ", status.has_pause(), status.pause()),                            //
      SwitchLine("drained  ", status.has_drain(), status.drain()),                            //
      "pending    ", status.depth(), " ", BoundText(status), ", when full: ",                 //
      wire::EnumText(*v1::QueuePolicy_descriptor(), status.policy()), "\n",                   //
      "  ready    ", status.ready(), "\n",                                                    //
      "  delayed  ", status.delayed(), "\n",                                                  //
      "  oldest   ", absl::FormatDuration(absl::Seconds(status.oldest_age_seconds())), "\n",  //
      "running    ", status.in_flight(), " of ", status.max_in_flight(), "\n",                //
      "waiting    ", status.waiting(), " callers, ", status.tickets(), " tickets\n",          //
      "ended      ", status.counts().completed(), " completed, ", status.counts().failed(),   //
      " failed, ", status.counts().cancelled(), " cancelled\n");
}

absl::StatusOr<std::string> ShowQueueStatus(const CliConfig& config) {
  ASSIGN_OR_RETURN(const v1::QueueStatus status,
                   CallDirector(config, &QueueStub::GetQueueStatus, v1::GetQueueStatusRequest()));
  return FormatAnswer(config, status, QueueStatusTable(status));
}

absl::StatusOr<std::string> PauseQueue(const CliConfig& config, const std::string& why) {
  v1::PauseQueueRequest request;
  request.set_why(why);
  ASSIGN_OR_RETURN(const v1::QueueStatus status,
                   CallDirector(config, &QueueStub::PauseQueue, request));
  return FormatAnswer(config, status, QueueStatusTable(status));
}

absl::StatusOr<std::string> ResumeQueue(const CliConfig& config) {
  ASSIGN_OR_RETURN(const v1::QueueStatus status,
                   CallDirector(config, &QueueStub::ResumeQueue, v1::ResumeQueueRequest()));
  return FormatAnswer(config, status, QueueStatusTable(status));
}

// ---- Logs ---------------------------------------------------------------------------------------

namespace {

// Writes output to two files in the order in which the task wrote it.
class LogWriter {
 public:
  LogWriter(std::FILE* out, std::FILE* err, bool as_json)
      : out_(out), err_(err), as_json_(as_json) {}

  absl::Status Write(const v1::TailTaskLogsResponse& message) {
    for (const v1::LogChunk& chunk : message.chunks()) WriteChunk(chunk);
    std::fflush(out_);
    std::fflush(err_);
    // Covers all writes so far, including those that earlier flushes completed.
    if (std::ferror(out_) == 0 && std::ferror(err_) == 0) return absl::OkStatus();
    return absl::UnavailableError("cannot write to standard output");
  }

 private:
  void WriteChunk(const v1::LogChunk& chunk) {
    if (as_json_) {
      std::fprintf(out_, "%s\n", wire::ToJson(chunk).c_str());
      return;
    }
    if (chunk.dropped_bytes() > 0) {
      std::fprintf(NextFile(err_), "... %llu bytes dropped ...\n",
                   static_cast<unsigned long long>(chunk.dropped_bytes()));
    }
    const bool is_error = chunk.stream() == v1::LogChunk::STREAM_STDERR;
    WriteOutput(chunk.data(), NextFile(is_error ? err_ : out_),
                is_error ? unfinished_err_ : unfinished_out_);
  }

  // Writes `data` to `file`, escaped if it is a terminal. A character may be split between two
  // chunks: `unfinished` holds its first bytes until the rest arrives.
  static void WriteOutput(absl::string_view data, std::FILE* file, std::string& unfinished) {
    std::string shown;
    if (isatty(fileno(file)) == 1) {
      shown = absl::StrCat(unfinished, data);
      const size_t kept = shown.size() - base::Utf8IncompleteSuffix(shown);
      unfinished = shown.substr(kept);
      shown = base::EscapedLines(absl::string_view(shown).substr(0, kept));
      data = shown;
    }
    std::fwrite(data.data(), 1, data.size(), file);
  }

  // Returns `file` after flushing the other one. Both may be the same terminal, where the order
  // must be kept.
  std::FILE* NextFile(std::FILE* file) {
    std::fflush(file == err_ ? out_ : err_);
    return file;
  }

  std::FILE* const out_;
  std::FILE* const err_;
  const bool as_json_;
  std::string unfinished_out_;
  std::string unfinished_err_;
};

}  // namespace

absl::Status ShowLogs(const CliConfig& config, const LogArguments& arguments, std::FILE* out,
                      std::FILE* err) {
  LogWriter writer(out, err, config.output() == CliConfig::OUTPUT_JSON);
  // Updated with each chunk, so that the next stream continues after the last one.
  v1::TailTaskLogsRequest request;
  request.set_queue_id(arguments.queue_id);
  request.set_dispatch(arguments.dispatch);
  request.set_follow(arguments.follow);
  StreamHandler<v1::TailTaskLogsResponse> handler = {
      .open = [&request](
                  v1::QueueService::Stub& stub,
                  grpc::ClientContext& context) { return stub.TailTaskLogs(&context, request); },
      .on_message =
          [&request, &writer](const v1::TailTaskLogsResponse& message) {
            if (!message.chunks().empty()) {
              const v1::LogChunk& last = *message.chunks().rbegin();
              request.set_dispatch(last.dispatch());
              request.set_after_number(last.number());
            }
            return writer.Write(message);
          }};
  if (arguments.follow) {
    handler.on_disconnect = [err](const std::string& note) {
      std::fprintf(err, "callboard: %s\n", note.c_str());
    };
  }
  return FollowStream(config, handler);
}

// ---- Submitting, cancelling and explaining tasks; agents ----------------------------------------

namespace {

std::string StateText(const v1::Task& task) {
  std::string text(wire::EnumText(*v1::Task::State_descriptor(), task.state()));
  if (task.position() > 0) absl::StrAppend(&text, ", position ", task.position());
  if (task.reason() != v1::Task::REASON_UNSPECIFIED) {
    absl::StrAppend(&text, ", ", wire::EnumText(*v1::Task::Reason_descriptor(), task.reason()));
  }
  return text;
}

absl::StatusOr<v1::QueuePolicy> PolicyFrom(const std::string& text) {
  const google::protobuf::EnumDescriptor& policies = *v1::QueuePolicy_descriptor();
  for (int i = 1; i < policies.value_count(); ++i) {
    const int number = policies.value(i)->number();
    if (wire::EnumText(policies, number) == text) return static_cast<v1::QueuePolicy>(number);
  }
  return UsageError(absl::StrCat(
      "--policy: '", text, "' is not valid; expected: reject, block, drop-oldest, drop-latest"));
}

// Adds the request id to an error after which the caller may have to retry with the same id.
absl::Status WithRequestId(const absl::Status& error, const std::string& request_id) {
  const bool is_unknown = base::GetErrorDetails(error).reason == "OUTCOME_UNKNOWN" ||
                          absl::IsDeadlineExceeded(error) ||
                          ExitCodeOf(error) == ExitCode::kUnreachable;
  if (!is_unknown) return error;
  return base::WithAdvice(
      error, absl::StrCat("in case it was submitted, retry with --request_id=", request_id));
}

void AddLine(const std::string& name, const std::string& value, std::string& text) {
  if (!value.empty())
    absl::StrAppend(&text, absl::StrFormat("%-10s %s\n", name, base::Escaped(value)));
}

}  // namespace

absl::StatusOr<v1::SubmitTaskRequest> SubmitRequest(const TaskArguments& arguments,
                                                    ports::Random& random) {
  v1::SubmitTaskRequest request;
  request.set_prompt(arguments.prompt);
  request.set_model(arguments.model);
  request.set_timeout_seconds(arguments.timeout_seconds);
  request.set_session_id(arguments.session_id);
  request.set_request_id(arguments.request_id.empty()
                             ? absl::StrCat("cli/", ports::NewName(random), ports::NewName(random))
                             : arguments.request_id);
  request.set_lane(arguments.lane);
  request.set_max_attempts(arguments.max_attempts);
  for (const std::string& rule : arguments.retry_on) request.add_retry_on(rule);
  request.set_source("cli");
  if (!arguments.policy.empty()) {
    ASSIGN_OR_RETURN(const v1::QueuePolicy policy, PolicyFrom(arguments.policy));
    request.set_policy(policy);
  }
  return request;
}

absl::StatusOr<std::string> SubmitTask(const CliConfig& config, const TaskArguments& arguments) {
  system::SystemRandom random;
  ASSIGN_OR_RETURN(const v1::SubmitTaskRequest request, SubmitRequest(arguments, random));
  const absl::StatusOr<v1::SubmitTaskResponse> response =
      CallDirector(config, &QueueStub::SubmitTask, request);
  if (!response.ok()) return WithRequestId(response.status(), request.request_id());
  return FormatAnswer(
      config, *response,
      absl::StrCat(
          response->queue_id(), "  ",
          wire::EnumText(*v1::Task::State_descriptor(), response->state()),
          response->position() > 0 ? absl::StrCat(", position ", response->position()) : "",
          response->deduplicated() ? ", already submitted" : "", "\n"));
}

std::string TaskTable(const v1::Task& task) {
  std::string text;
  AddLine("task", task.queue_id(), text);
  AddLine("state", StateText(task), text);
  AddLine("prompt", base::JsonQuoted(task.prompt()), text);
  if (task.has_created_at()) AddLine("accepted", TimeText(task.created_at()), text);
  if (task.has_dispatched_at()) AddLine("dispatched", TimeText(task.dispatched_at()), text);
  if (task.has_finished_at()) AddLine("finished", TimeText(task.finished_at()), text);
  if (task.has_not_before()) AddLine("not before", TimeText(task.not_before()), text);
  AddLine("agent", task.agent_url(), text);
  AddLine("runs", RunsText(task), text);
  if (task.has_exit_code()) AddLine("exit code", absl::StrCat(task.exit_code()), text);
  AddLine("signal", task.signal(), text);
  AddLine("last error", task.last_error(), text);
  if (!task.result().empty()) AddLine("result", base::JsonQuoted(task.result()), text);
  AddLine("trace", task.trace_id(), text);
  return text;
}

absl::StatusOr<std::string> CancelTask(const CliConfig& config, const TaskArguments& arguments) {
  v1::CancelTaskRequest request;
  request.set_queue_id(arguments.queue_id);
  request.set_why(arguments.why);
  ASSIGN_OR_RETURN(const v1::CancelTaskResponse response,
                   CallDirector(config, &QueueStub::CancelTask, request));
  const auto outcome_text = [&]() -> std::string {
    switch (response.outcome()) {
      case v1::CancelTaskResponse::OUTCOME_CANCELLED:
        return "cancelled";
      case v1::CancelTaskResponse::OUTCOME_REQUESTED:
        return "cancel sent to its agent; it is cancelled when its processes have ended";
      default:
        return absl::StrCat("already finished: ", StateText(response.task()));
    }
  };
  return FormatAnswer(config, response,
                      absl::StrCat(arguments.queue_id, "  ", outcome_text(), "\n"));
}

std::string ExplanationTable(const v1::ExplainTaskResponse& explanation) {
  std::string text;
  AddLine("task", explanation.queue_id(), text);
  AddLine("answer", explanation.summary(), text);
  if (explanation.position() > 0) {
    AddLine("position",
            absl::StrCat(explanation.position(), ", ", explanation.ready_ahead(), " ready ahead"),
            text);
  }
  if (explanation.has_not_before()) AddLine("not before", TimeText(explanation.not_before()), text);
  if (explanation.has_estimated_start_at()) {
    AddLine("starts", absl::StrCat("about ", TimeText(explanation.estimated_start_at())), text);
  }
  for (const v1::ExplainTaskResponse::AgentVerdict& verdict : explanation.agents()) {
    AddLine("agent",
            absl::StrCat(verdict.agent(), ": ",
                         verdict.fits() ? "could run it now" : verdict.why_not()),
            text);
  }
  return text;
}

absl::StatusOr<std::string> ExplainTask(const CliConfig& config, const TaskArguments& arguments) {
  v1::ExplainTaskRequest request;
  request.set_queue_id(arguments.queue_id);
  ASSIGN_OR_RETURN(const v1::ExplainTaskResponse response,
                   CallDirector(config, &QueueStub::ExplainTask, request));
  return FormatAnswer(config, response, ExplanationTable(response));
}

std::string AgentsTable(const v1::ListAgentsResponse& agents) {
  if (agents.agents().empty()) return "no agents\n";
  std::string text = absl::StrFormat("%-20s %-12s %-28s %s\n", "NAME", "STATE", "URL", "LANES");
  for (const v1::Agent& agent : agents.agents()) {
    const auto append = [](std::string* out, const v1::Lane& lane) {
      absl::StrAppend(out, base::Escaped(lane.name()), " ", lane.busy(), "/", lane.slots());
    };
    absl::StrAppend(&text,
                    absl::StrFormat("%-20s %-12s %-28s %s\n", base::Escaped(agent.name()),
                                    wire::EnumText(*v1::Agent::State_descriptor(), agent.state()),
                                    base::Escaped(agent.agent_url()),
                                    absl::StrJoin(agent.lanes(), ", ", append)));
    if (!agent.state_why().empty())
      absl::StrAppend(&text, "  ", base::Escaped(agent.state_why()), "\n");
  }
  return text;
}

absl::StatusOr<std::string> ListAgents(const CliConfig& config) {
  ASSIGN_OR_RETURN(
      const v1::ListAgentsResponse response,
      CallDirector(config, &v1::FleetService::Stub::ListAgents, v1::ListAgentsRequest()));
  return FormatAnswer(config, response, AgentsTable(response));
}

}  // namespace callboard::cli
