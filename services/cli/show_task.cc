#include "services/cli/show_task.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/base/status_macros.h"
#include "services/cli/peer_call.h"
#include "services/cli/task_commands.h"
#include "services/cli/task_timeline.h"

namespace callboard::cli {
namespace {

using config::v1::CliConfig;
using QueueStub = v1::QueueService::Stub;

constexpr int kPageSize = 1000;
constexpr char kTooOld[] = "this director is too old to tell the events of a task\n";

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

}  // namespace callboard::cli
