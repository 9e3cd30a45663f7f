#include "services/cli/db_tasks.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "libs/adapters/staged_file/staged_file.h"
#include "libs/adapters/system_machine/system_machine.h"
#include "libs/base/json_quoted.h"
#include "libs/base/status_macros.h"
#include "libs/base/text.h"
#include "libs/core/life.h"
#include "libs/flow/limits.h"
#include "libs/flow/parallel_limit.h"
#include "libs/flow/thread_pool.h"
#include "libs/wire/enum_text.h"
#include "libs/wire/json.h"
#include "libs/wire/task.h"
#include "services/cli/answer_text.h"
#include "services/cli/exit_code.h"
#include "services/cli/interruption.h"

namespace callboard::cli {
namespace {

using adapters::StagedFile;
using adapters::StoreFolder;
using adapters::StoreSurvey;
using adapters::SurveyedTask;
using adapters::TaskReading;

// Enough to be worth handing over; each may hold a megabyte or more.
constexpr uint64_t kTasksPerReading = 8;
constexpr uint64_t kTasksPerProgress = 256;
constexpr char kProgress[] = "tasks written:";

core::Task TaskOf(const SurveyedTask& surveyed, const TaskReading& reading) {
  core::Task task = core::TaskFrom(reading.records);
  task.position = surveyed.position;
  task.redriven_as = surveyed.redriven_as;
  return task;
}

// Takes the text of one task after the other.
using TextTaker = absl::FunctionRef<absl::Status(absl::string_view)>;

// Reads several tasks side by side, and hands them over in their order. `line` may be null.
absl::Status WriteTasks(const StoreFolder& folder, const StoreSurvey& survey,
                        const std::stop_token& stop, const ProgressLine* line, TextTaker take) {
  const flow::LaneLimit limit = flow::LimitsFor({}, adapters::ThisMachine()).cpu;
  flow::ThreadPool pool(limit.concurrency);
  using Tasks = absl::Span<const SurveyedTask>;
  auto next = [rest = Tasks(survey.tasks)]() mutable -> std::optional<Tasks> {
    if (rest.empty()) return std::nullopt;
    const Tasks some = rest.subspan(0, kTasksPerReading);
    rest.remove_prefix(some.size());
    return some;
  };
  const auto read = [&folder](const Tasks& tasks,
                              const std::stop_token&) -> absl::StatusOr<std::string> {
    std::string text;
    for (const SurveyedTask& task : tasks) {
      absl::StrAppend(&text, TaskJson(task, folder.ReadTask(task.queue_id)));
    }
    return text;
  };
  flow::ParallelLimit texts(
      pool, next, read, {.limit = limit.max_pending, .order = flow::Order::kAsGiven, .stop = stop});
  uint64_t written = 0;
  while (std::optional<absl::StatusOr<std::string>> text = texts.Next()) {
    RETURN_IF_ERROR(text->status());
    RETURN_IF_ERROR(take(**text));
    written += kTasksPerReading;
    if (written % kTasksPerProgress == 0 && line != nullptr) {
      line->Show(written, survey.tasks.size());
    }
  }
  return absl::OkStatus();
}

absl::Status WriteToStream(const StoreFolder& folder, const StoreSurvey& survey, std::FILE* out) {
  const auto error = [] {
    return absl::UnavailableError(absl::StrCat("cannot write the export: ", strerror(errno)));
  };
  // On a terminal the tasks themselves show how far it has come.
  std::optional<ProgressLine> line;
  if (isatty(fileno(out)) == 0) line.emplace(kProgress);
  const auto take = [&](absl::string_view text) {
    const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
    return written ? absl::OkStatus() : error();
  };
  RETURN_IF_ERROR(WriteTasks(folder, survey, {}, line.has_value() ? &*line : nullptr, take));
  return std::fflush(out) == 0 ? absl::OkStatus() : error();
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
  absl::StrAppend(&text, "\nprompt     ", base::JsonQuoted(task.prompt()), "\nruns       ",
                  RunsText(task), "\n");
  if (!task.last_error().empty()) {
    absl::StrAppend(&text, "last error ", base::Escaped(task.last_error()), "\n");
  }
  if (!task.result().empty()) {
    absl::StrAppend(&text, "result     ", base::JsonQuoted(task.result()), "\n");
  }
  for (const core::TaskEvent& event : core::EventsFrom(reading.records)) {
    const v1::TaskEvent proto = wire::ToProto(event);
    absl::StrAppend(
        &text,
        absl::StrFormat("%6d  %s  %-16s %s%s%s\n", event.number,
                        absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", event.at, absl::UTCTimeZone()),
                        wire::EnumText(*v1::TaskEvent::Kind_descriptor(), proto.kind()),
                        base::Escaped(event.who), event.why.empty() ? "" : ": ",
                        base::Escaped(event.why)));
  }
  if (!reading.damage.empty()) absl::StrAppend(&text, "damaged    ", reading.damage, "\n");
  return text;
}

absl::Status ShowStoredTask(const config::v1::CliConfig& config, const DbArguments& arguments,
                            std::FILE* out) {
  const std::optional<core::QueueId> id = core::ParseQueueId(arguments.queue_id);
  if (!id.has_value()) {
    return UsageError(QueueIdProblem(arguments.queue_id));
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

absl::Status ExportToFile(const StoreFolder& folder, const StoreSurvey& survey,
                          const std::string& path, const std::stop_token& stop) {
  // For its owner only: tasks hold secrets.
  ASSIGN_OR_RETURN(StagedFile file, StagedFile::Create(path, StagedFile::Readers::kOwner));
  {
    const ProgressLine line(kProgress);
    const auto take = [&file](absl::string_view text) { return file.Append(text); };
    RETURN_IF_ERROR(WriteTasks(folder, survey, stop, &line, take));
  }
  return std::move(file).Promote(stop);
}

absl::Status ExportTasks(const config::v1::CliConfig& config, const DbArguments& arguments,
                         std::FILE* out) {
  Interruption interruption;
  ASSIGN_OR_RETURN(const std::unique_ptr<StoreFolder> folder, OpenFolder(config));
  const StoreSurvey survey = SurveyAloud(*folder);
  RETURN_IF_ERROR(PassOver(arguments, *folder, survey));
  if (arguments.to.empty()) return WriteToStream(*folder, survey, out);
  return ExportToFile(*folder, survey, arguments.to, interruption.Defer());
}

}  // namespace callboard::cli
