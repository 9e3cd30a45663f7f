#include "services/cli/db_tasks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "libs/base/check.h"
#include "libs/base/json_quoted.h"
#include "libs/base/status_macros.h"
#include "libs/core/life.h"
#include "libs/wire/enum_text.h"
#include "libs/wire/json.h"
#include "libs/wire/task.h"
#include "services/cli/exit_code.h"

namespace callboard::cli {
namespace {

using adapters::StoreFolder;
using adapters::StoreSurvey;
using adapters::SurveyedTask;
using adapters::TaskReading;

constexpr uint64_t kTasksPerProgress = 256;

core::Task TaskOf(const SurveyedTask& surveyed, const TaskReading& reading) {
  core::Task task = core::TaskFrom(reading.records);
  task.position = surveyed.position;
  task.redriven_as = surveyed.redriven_as;
  return task;
}

absl::Status WriteError(const std::string& path) {
  return absl::UnavailableError(
      absl::StrCat("cannot write ", path.empty() ? "the export" : path, ": ", strerror(errno)));
}

absl::Status WriteTasks(const StoreFolder& folder, const StoreSurvey& survey,
                        const std::string& path, std::FILE* out) {
  // On a terminal the tasks themselves show how far it has come.
  std::optional<ProgressLine> line;
  if (isatty(fileno(out)) == 0) line.emplace("tasks written:");
  uint64_t written = 0;
  for (const SurveyedTask& task : survey.tasks) {
    const TaskReading reading = folder.ReadTask(task.queue_id);
    if (std::fputs(TaskJson(task, reading).c_str(), out) == EOF) return WriteError(path);
    if (++written % kTasksPerProgress == 0 && line.has_value()) {
      line->Show(written, survey.tasks.size());
    }
  }
  return std::fflush(out) == 0 ? absl::OkStatus() : WriteError(path);
}

}  // namespace

std::string TaskJson(const SurveyedTask& task, const TaskReading& reading) {
  const std::vector<core::TaskEvent> events = core::EventsFrom(reading.records);
  return absl::StrCat(
      "{\"task\":", wire::ToJson(wire::ToProto(TaskOf(task, reading))), ",\"events\":[",
      absl::StrJoin(events, ",",
                    [](std::string* out, const core::TaskEvent& event) {
                      absl::StrAppend(out, wire::ToJson(wire::ToProto(event)));
                    }),
      "],\"damage\":", reading.damage.empty() ? "null" : base::JsonQuoted(reading.damage), "}\n");
}

std::string TaskText(const SurveyedTask& surveyed, const TaskReading& reading) {
  const v1::Task task = wire::ToProto(TaskOf(surveyed, reading));
  std::string text = absl::StrCat("task       ", task.queue_id(), "\nstate      ",
                                  wire::EnumText(*v1::Task::State_descriptor(), task.state()));
  if (task.position() > 0) absl::StrAppend(&text, ", place ", task.position());
  absl::StrAppend(&text, "\nprompt     ", base::JsonQuoted(task.prompt()), "\nattempts   ",
                  task.attempts(), " of ", task.max_attempts(), "\n");
  if (!task.last_error().empty()) absl::StrAppend(&text, "last error ", task.last_error(), "\n");
  if (!task.result().empty()) {
    absl::StrAppend(&text, "result     ", base::JsonQuoted(task.result()), "\n");
  }
  for (const core::TaskEvent& event : core::EventsFrom(reading.records)) {
    const v1::TaskEvent proto = wire::ToProto(event);
    absl::StrAppend(
        &text,
        absl::StrFormat("%6d  %s  %-16s %s%s%s\n", event.number,
                        absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", event.at, absl::UTCTimeZone()),
                        wire::EnumText(*v1::TaskEvent::Kind_descriptor(), proto.kind()), event.who,
                        event.why.empty() ? "" : ": ", event.why));
  }
  if (!reading.damage.empty()) absl::StrAppend(&text, "damaged    ", reading.damage, "\n");
  return text;
}

absl::Status ShowStoredTask(const config::v1::CliConfig& config, const DbArguments& arguments,
                            std::FILE* out) {
  const std::optional<core::QueueId> id = core::ParseQueueId(arguments.queue_id);
  if (!id.has_value()) {
    return UsageError(absl::StrCat("'", arguments.queue_id, "' is no queue_id; wanted: queue-…"));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<StoreFolder> folder, OpenFolder(config));
  const StoreSurvey survey = SurveyAloud(*folder);
  RETURN_IF_ERROR(PassOver(arguments, *folder, survey));
  const auto found = std::find_if(survey.tasks.begin(), survey.tasks.end(),
                                  [&id](const SurveyedTask& task) { return task.queue_id == *id; });
  if (found == survey.tasks.end()) {
    return absl::NotFoundError(
        absl::StrCat("there is no task ", arguments.queue_id, " in ", config.data_dir()));
  }
  const TaskReading reading = folder->ReadTask(*id);
  const std::string text =
      WantsJson(config) ? TaskJson(*found, reading) : TaskText(*found, reading);
  std::fputs(text.c_str(), out);
  return absl::OkStatus();
}

absl::Status ExportTasks(const config::v1::CliConfig& config, const DbArguments& arguments,
                         std::FILE* out) {
  ASSIGN_OR_RETURN(const std::unique_ptr<StoreFolder> folder, OpenFolder(config));
  const StoreSurvey survey = SurveyAloud(*folder);
  RETURN_IF_ERROR(PassOver(arguments, *folder, survey));
  if (arguments.to.empty()) return WriteTasks(*folder, survey, "", out);
  const std::string building = arguments.to + ".new";
  // For its owner only: tasks hold secrets. What is left of an earlier try may be somebody else's.
  std::remove(building.c_str());
  const int descriptor =
      open(building.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (descriptor < 0) return WriteError(building);
  std::FILE* file = fdopen(descriptor, "w");
  CHECK(file != nullptr);
  absl::Status written = WriteTasks(*folder, survey, building, file);
  if (written.ok() && fsync(descriptor) != 0) written = WriteError(building);
  if (std::fclose(file) != 0) written.Update(WriteError(building));
  if (written.ok() && std::rename(building.c_str(), arguments.to.c_str()) != 0) {
    written = WriteError(arguments.to);
  }
  if (!written.ok()) std::remove(building.c_str());
  return written;
}

}  // namespace callboard::cli
