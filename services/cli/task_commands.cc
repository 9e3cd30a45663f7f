#include "services/cli/task_commands.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "callboard/v1/fleet.grpc.pb.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/adapters/system_random/system_random.h"
#include "libs/base/error.h"
#include "libs/base/json_quoted.h"
#include "libs/base/status_macros.h"
#include "libs/wire/enum_text.h"
#include "services/cli/answer_text.h"
#include "services/cli/exit_code.h"
#include "services/cli/peer_call.h"

namespace callboard::cli {
namespace {

using config::v1::CliConfig;
using QueueStub = v1::QueueService::Stub;

std::string StateText(const v1::Task& task) {
  std::string text(wire::EnumText(*v1::Task::State_descriptor(), task.state()));
  if (task.position() > 0) absl::StrAppend(&text, ", place ", task.position());
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
      "--policy: '", text, "' is not valid; wanted: reject, block, drop-oldest, drop-latest"));
}

// Nobody can retry with a request id that he was not told.
absl::Status WithRequestId(const absl::Status& error, const std::string& request_id) {
  const base::ErrorDetails details = base::DetailsOf(error);
  const bool is_unknown = details.reason == "OUTCOME_UNKNOWN" || absl::IsDeadlineExceeded(error) ||
                          ExitCodeOf(error) == ExitCode::kUnreachable;
  if (!is_unknown) return error;
  const absl::Status with_id(
      error.code(),
      absl::StrCat(error.message(),
                   "; in case it was submitted, retry with --request_id=", request_id));
  return details.reason.empty() ? with_id
                                : base::WithReason(with_id, details.reason, details.metadata);
}

void AddLine(const std::string& name, const std::string& value, std::string& text) {
  if (!value.empty()) absl::StrAppend(&text, absl::StrFormat("%-10s %s\n", name, Plain(value)));
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
  adapters::SystemRandom random;
  ASSIGN_OR_RETURN(const v1::SubmitTaskRequest request, SubmitRequest(arguments, random));
  const absl::StatusOr<v1::SubmitTaskResponse> response =
      CallDirector(config, &QueueStub::SubmitTask, request);
  if (!response.ok()) return WithRequestId(response.status(), request.request_id());
  return Written(
      config, *response,
      absl::StrCat(response->queue_id(), "  ",
                   wire::EnumText(*v1::Task::State_descriptor(), response->state()),
                   response->position() > 0 ? absl::StrCat(", place ", response->position()) : "",
                   response->deduplicated() ? ", submitted before" : "", "\n"));
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
  const auto said = [&]() -> std::string {
    switch (response.outcome()) {
      case v1::CancelTaskResponse::OUTCOME_CANCELLED:
        return "cancelled";
      case v1::CancelTaskResponse::OUTCOME_REQUESTED:
        return "its agent was told; it is cancelled when its processes are gone";
      default:
        return absl::StrCat("had ended before: ", StateText(response.task()));
    }
  };
  return Written(config, response, absl::StrCat(arguments.queue_id, "  ", said(), "\n"));
}

std::string ExplanationTable(const v1::ExplainTaskResponse& explanation) {
  std::string text;
  AddLine("task", explanation.queue_id(), text);
  AddLine("answer", explanation.summary(), text);
  if (explanation.position() > 0) {
    AddLine("place",
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
                         verdict.fits() ? "could take it now" : verdict.why_not()),
            text);
  }
  return text;
}

absl::StatusOr<std::string> ExplainTask(const CliConfig& config, const TaskArguments& arguments) {
  v1::ExplainTaskRequest request;
  request.set_queue_id(arguments.queue_id);
  ASSIGN_OR_RETURN(const v1::ExplainTaskResponse response,
                   CallDirector(config, &QueueStub::ExplainTask, request));
  return Written(config, response, ExplanationTable(response));
}

std::string AgentsTable(const v1::ListAgentsResponse& agents) {
  if (agents.agents().empty()) return "no agents\n";
  std::string text = absl::StrFormat("%-20s %-12s %-28s %s\n", "NAME", "STATE", "URL", "LANES");
  for (const v1::Agent& agent : agents.agents()) {
    const auto append = [](std::string* out, const v1::Lane& lane) {
      absl::StrAppend(out, Plain(lane.name()), " ", lane.busy(), "/", lane.slots());
    };
    absl::StrAppend(
        &text,
        absl::StrFormat("%-20s %-12s %-28s %s\n", Plain(agent.name()),
                        wire::EnumText(*v1::Agent::State_descriptor(), agent.state()),
                        Plain(agent.agent_url()), absl::StrJoin(agent.lanes(), ", ", append)));
    if (!agent.state_why().empty()) absl::StrAppend(&text, "  ", Plain(agent.state_why()), "\n");
  }
  return text;
}

absl::StatusOr<std::string> ListAgents(const CliConfig& config) {
  ASSIGN_OR_RETURN(
      const v1::ListAgentsResponse response,
      CallDirector(config, &v1::FleetService::Stub::ListAgents, v1::ListAgentsRequest()));
  return Written(config, response, AgentsTable(response));
}

}  // namespace callboard::cli
