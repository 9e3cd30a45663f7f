#include "services/cli/db_commands.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/core/task_state.h"
#include "libs/flow/limits.h"
#include "libs/flow/parallel_limit.h"
#include "libs/flow/thread_pool.h"
#include "libs/ports/event_store.h"
#include "libs/store/database.h"
#include "libs/store/rocksdb_store.h"
#include "libs/system/staged_file.h"
#include "libs/system/system.h"
#include "libs/wire/enums.h"
#include "libs/wire/json.h"
#include "libs/wire/task.h"
#include "services/cli/answer_text.h"
#include "services/cli/director_client.h"

namespace callboard::cli {
namespace {

using config::v1::CliConfig;
using store::ReadTaskResult;
using store::StoreFolder;
using store::StoreSurvey;
using store::SurveyedTask;
using system::StagedFile;

// ---- Helpers of all commands --------------------------------------------------------------------

// Appends `advice` to an error about a folder that a director uses. Other errors stay unchanged.
absl::Status WithLockAdvice(const absl::Status& status, absl::string_view advice) {
  const bool is_locked = base::GetErrorDetails(status).reason == ports::kStoreLocked;
  return is_locked ? base::WithAdvice(status, advice) : status;
}

// Opens the store in the configured folder for reading, even if it is damaged.
absl::StatusOr<std::unique_ptr<StoreFolder>> OpenFolder(const CliConfig& config) {
  auto folder = StoreFolder::Open(config.data_dir());
  if (!folder.ok()) {
    return WithLockAdvice(folder.status(),
                          "make a checkpoint with `callboard db checkpoint` and inspect that");
  }
  // A damaged store is still opened: its readable records can be shown.
  const absl::Status& open_status = (*folder)->open_status();
  if (!open_status.ok() && !absl::IsDataLoss(open_status)) return open_status;
  return folder;
}

// A progress line on standard error. Shown only on a terminal, and removed by the destructor.
class ProgressLine {
 public:
  // `label` precedes the numbers: `records read:`.
  explicit ProgressLine(std::string label)
      : label_(std::move(label)), is_terminal_(isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() {
    if (is_terminal_) std::fputs("\r\033[K", stderr);
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Shows `done` of about `all`; `all` is 0 when it is not known.
  void Show(uint64_t done, uint64_t all = 0) const {
    if (!is_terminal_) return;
    const std::string of = all == 0 ? "" : absl::StrCat(" of about ", all);
    std::fputs(absl::StrCat("\r", label_, " ", done, of).c_str(), stderr);
  }

 private:
  const std::string label_;
  const bool is_terminal_;
};

// Calls Survey() and shows its progress.
StoreSurvey SurveyWithProgress(const StoreFolder& folder) {
  const ProgressLine line("records read:");
  const uint64_t all = folder.EstimateRecords();
  return Survey(folder, [&](uint64_t records) { line.Show(records, all); });
}

// Returns an error with the first finding and how to repair the store; OK without findings.
absl::Status DamageError(const StoreFolder& folder, const StoreSurvey& survey) {
  if (survey.findings.empty()) return absl::OkStatus();
  const std::string restore =
      absl::StrCat("`callboard db restore --data_dir=", folder.files().folder.string());
  return store::StoreRefusedError(
      absl::StrCat(survey.findings.front(), "; ", restore,
                   " --from=<checkpoint>` replaces it with a checkpoint, ", restore,
                   " --accept_loss` keeps what can be read"));
}

// Decides whether a damaged store is shown. With --skip_damaged, lists the findings on standard
// error and returns OK if the store can be read at all; else returns DamageError().
absl::Status CheckDamage(const DbArguments& arguments, const StoreFolder& folder,
                         const StoreSurvey& survey) {
  if (!arguments.skip_damaged || !folder.is_readable()) return DamageError(folder, survey);
  for (const std::string& finding : survey.findings) {
    std::fprintf(stderr, "skipped: %s\n", base::Escaped(finding).c_str());
  }
  return absl::OkStatus();
}

bool WantsJson(const CliConfig& config) {
  return config.output() == config::v1::CliConfig::OUTPUT_JSON;
}

std::string ListJson(const std::vector<std::string>& texts) {
  const auto append = [](std::string* out, const std::string& text) {
    absl::StrAppend(out, base::JsonQuoted(text));
  };
  return absl::StrCat("[", absl::StrJoin(texts, ",", append), "]");
}

std::string HighWaterJson(std::optional<uint64_t> high_water) {
  return high_water.has_value() ? absl::StrCat(*high_water) : "null";
}

}  // namespace

// ---- verify, stats ------------------------------------------------------------------------------

namespace {

absl::StatusOr<StoreReport> MakeReport(const StoreFolder& folder) {
  StoreReport report = {.folder = folder.files().folder.string(),
                        .survey = SurveyWithProgress(folder),
                        .notes = {},
                        .disk = {},
                        .sequence = folder.sequence(),
                        .high_water = folder.high_water(),
                        .format = folder.format(),
                        .now = system::SystemClock().WallNow()};
  if (folder.open_status().ok()) report.notes = folder.warnings();
  if (folder.is_readable()) {
    ASSIGN_OR_RETURN(report.disk, folder.MeasureDiskUsage());
  }
  return report;
}

std::string HighWaterText(const StoreReport& report) {
  return report.high_water.has_value() ? absl::StrCat(*report.high_water) : "unknown";
}

std::string CountsText(const core::StateCounts& counts) {
  return absl::StrCat(counts.pending, " pending, ", counts.dispatching, " dispatching, ",
                      counts.working, " working, ", counts.completed, " completed, ", counts.failed,
                      " failed, ", counts.cancelled, " cancelled");
}

std::string CountsJson(const core::StateCounts& counts) {
  return absl::StrCat("{\"pending\":", counts.pending, ",\"dispatching\":", counts.dispatching,
                      ",\"working\":", counts.working, ",\"completed\":", counts.completed,
                      ",\"failed\":", counts.failed, ",\"cancelled\":", counts.cancelled, "}");
}

const char* BoolJson(bool value) { return value ? "true" : "false"; }

std::string OldestText(const StoreReport& report) {
  const StoreSurvey& survey = report.survey;
  if (!survey.oldest_pending.has_value()) return "none";
  const absl::Duration age = absl::Trunc(report.now - survey.oldest_pending_at, absl::Seconds(1));
  return absl::StrCat(core::ToString(*survey.oldest_pending), ", for ", absl::FormatDuration(age));
}

std::string ModeText(const StoreSurvey& survey) {
  if (survey.draining) return "draining";
  return survey.paused ? "paused" : "running";
}

}  // namespace

std::string VerifyText(const StoreReport& report) {
  std::string text;
  for (const std::string& finding : report.survey.findings) {
    absl::StrAppend(&text, "damaged: ", finding, "\n");
  }
  for (const std::string& note : report.notes) {
    absl::StrAppend(&text, "discarded (never acknowledged): ", note, "\n");
  }
  const bool is_undamaged = report.survey.findings.empty();
  absl::StrAppend(&text, "store      ", report.folder,
                  is_undamaged ? " is undamaged" : " is damaged",
                  "\n",                                             //
                  "tasks      ", report.survey.tasks.size(), "\n",  //
                  "records    ", report.survey.records, "\n",       //
                  "bytes      ", report.disk.total(), "\n",         //
                  "sequence   ", report.sequence, ", committed: ",  //
                  HighWaterText(report), "\n",                      //
                  "format     ", report.format, "\n");
  return text;
}

std::string VerifyJson(const StoreReport& report) {
  return absl::StrCat("{\"data_dir\":", base::JsonQuoted(report.folder),        //
                      ",\"whole\":", BoolJson(report.survey.findings.empty()),  //
                      ",\"findings\":", ListJson(report.survey.findings),       //
                      ",\"dropped\":", ListJson(report.notes),                  //
                      ",\"tasks\":", report.survey.tasks.size(),                //
                      ",\"records\":", report.survey.records,                   //
                      ",\"bytes\":", report.disk.total(),                       //
                      ",\"sequence\":", report.sequence,                        //
                      ",\"high_water\":", HighWaterJson(report.high_water),     //
                      ",\"format\":", report.format, "}\n");
}

std::string StatsText(const StoreReport& report) {
  const StoreSurvey& survey = report.survey;
  return absl::StrCat("store      ", report.folder, ", format ", report.format, "\n",   //
                      "queue      ", ModeText(survey), ", epoch ", survey.epoch, "\n",  //
                      "tasks      ", survey.tasks.size(), ": ",                         //
                      CountsText(survey.counts), "\n",                                  //
                      "  oldest   ", OldestText(report), "\n",                          //
                      "records    ", survey.records, "\n",                              //
                      "requests   ", survey.remembered_requests,                        //
                      " remembered request ids\n",                                      //
                      "agents     ", survey.marked_agents, " drained or cordoned\n",    //
                      "bytes      ", report.disk.total(), ": ", report.disk.logs,       //
                      " in logs, ", report.disk.tables, " in tables, ",                 //
                      report.disk.others, " in other files\n",                          //
                      "sequence   ", report.sequence, ", committed: ",                  //
                      HighWaterText(report), "\n");
}

std::string StatsJson(const StoreReport& report) {
  const StoreSurvey& survey = report.survey;
  std::string oldest = "null";
  if (survey.oldest_pending.has_value()) {
    oldest = absl::StrCat(
        "{\"queue_id\":\"", core::ToString(*survey.oldest_pending), "\",\"created_at\":\"",
        absl::FormatTime("%Y-%m-%dT%H:%M:%E*SZ", survey.oldest_pending_at, absl::UTCTimeZone()),
        "\"}");
  }
  return absl::StrCat(
      "{\"data_dir\":", base::JsonQuoted(report.folder), ",\"format\":", report.format,
      ",\"epoch\":", survey.epoch, ",\"paused\":", BoolJson(survey.paused),
      ",\"draining\":", BoolJson(survey.draining), ",\"tasks\":", survey.tasks.size(),
      ",\"counts\":", CountsJson(survey.counts), ",\"oldest_pending\":", oldest,
      ",\"records\":", survey.records, ",\"remembered_requests\":", survey.remembered_requests,
      ",\"marked_agents\":", survey.marked_agents, ",\"bytes\":{\"logs\":", report.disk.logs,
      ",\"tables\":", report.disk.tables, ",\"others\":", report.disk.others,
      "},\"sequence\":", report.sequence, ",\"high_water\":", HighWaterJson(report.high_water),
      "}\n");
}

absl::Status VerifyStore(const CliConfig& config, const DbArguments&, std::FILE* out) {
  ASSIGN_OR_RETURN(const std::unique_ptr<StoreFolder> folder, OpenFolder(config));
  ASSIGN_OR_RETURN(const StoreReport report, MakeReport(*folder));
  std::fputs((WantsJson(config) ? VerifyJson(report) : VerifyText(report)).c_str(), out);
  return DamageError(*folder, report.survey);
}

absl::Status ShowStoreStats(const CliConfig& config, const DbArguments& arguments, std::FILE* out) {
  ASSIGN_OR_RETURN(const std::unique_ptr<StoreFolder> folder, OpenFolder(config));
  ASSIGN_OR_RETURN(const StoreReport report, MakeReport(*folder));
  RETURN_IF_ERROR(CheckDamage(arguments, *folder, report.survey));
  std::fputs((WantsJson(config) ? StatsJson(report) : StatsText(report)).c_str(), out);
  return absl::OkStatus();
}

// ---- checkpoint, restore ------------------------------------------------------------------------

namespace {

constexpr absl::string_view kStopDirector = "stop the director first";

// Turns INVALID_ARGUMENT, which the arguments have caused, into a usage error.
absl::Status ToUsageError(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? UsageError(status.message()) : status;
}

// Makes a checkpoint of the configured folder. REQUIRES: no director uses it.
absl::StatusOr<v1::CreateCheckpointResponse> CreateLocalCheckpoint(const CliConfig& config,
                                                                   std::string name) {
  // Fails if there is no store; Lock() below would create one.
  RETURN_IF_ERROR(WithLockAdvice(StoreFolder::Open(config.data_dir()).status(),
                                 "leave out --data_dir to ask the director"));
  ASSIGN_OR_RETURN(const std::unique_ptr<store::RocksDbStoreOpener> stores,
                   store::RocksDbStoreOpener::Lock({.data_dir = config.data_dir()}));
  ASSIGN_OR_RETURN(const std::unique_ptr<ports::EventStore> store,
                   stores->Open(ports::StoreAccess::kReadWrite));
  if (name.empty()) {
    name =
        absl::FormatTime("%Y%m%dT%H%M%E3SZ", system::SystemClock().WallNow(), absl::UTCTimeZone());
  }
  ASSIGN_OR_RETURN(const ports::Checkpoint made, store->CreateCheckpoint(name));
  v1::CreateCheckpointResponse response;
  response.set_path(made.path);
  response.set_sequence(made.sequence);
  response.set_size_bytes(made.size_bytes);
  return response;
}

absl::StatusOr<v1::CreateCheckpointResponse> RequestCheckpoint(const CliConfig& config,
                                                               const std::string& name) {
  v1::CreateCheckpointRequest request;
  request.set_name(name);
  return CallDirector(config, &v1::QueueService::Stub::CreateCheckpoint, request);
}

std::string CheckpointText(const v1::CreateCheckpointResponse& checkpoint) {
  return absl::StrCat("checkpoint ", checkpoint.path(), "\n",      //
                      "sequence   ", checkpoint.sequence(), "\n",  //
                      "bytes      ", checkpoint.size_bytes(), "\n");
}

std::string AsideText(const std::filesystem::path& aside) {
  return aside.empty() ? "" : absl::StrCat("aside      ", aside.string(), "\n");
}

std::string AsideJson(const std::filesystem::path& aside) {
  return aside.empty() ? "null" : base::JsonQuoted(aside.string());
}

// Describes the writes that are lost.
std::string LostText(const store::AcceptLossResult& loss) {
  if (!loss.high_water.has_value()) {
    return absl::StrCat("all writes committed after sequence ", loss.sequence,
                        ", if any; their number is unknown: the high water mark is lost as well");
  }
  if (*loss.high_water <= loss.sequence) return "the damaged records listed above";
  return absl::StrCat("sequences ", loss.sequence + 1, " to ", *loss.high_water, ": ",
                      *loss.high_water - loss.sequence, " committed writes");
}

}  // namespace

std::string RestoredText(const std::string& folder, const store::RestoreResult& restored) {
  return absl::StrCat("restored   ", folder, "\n",          //
                      "tasks      ", restored.tasks, "\n",  //
                      "sequence   ", restored.sequence, "\n", AsideText(restored.aside));
}

std::string RestoredJson(const std::string& folder, const store::RestoreResult& restored) {
  return absl::StrCat("{\"data_dir\":", base::JsonQuoted(folder), ",\"tasks\":", restored.tasks,
                      ",\"sequence\":", restored.sequence, ",\"aside\":", AsideJson(restored.aside),
                      "}\n");
}

std::string LossText(const std::string& folder, const store::AcceptLossResult& loss) {
  if (loss.findings.empty()) return absl::StrCat(folder, " is undamaged: nothing is lost\n");
  std::string text;
  for (const std::string& finding : loss.findings) {
    absl::StrAppend(&text, "damaged: ", finding, "\n");
  }
  absl::StrAppend(&text, "lost       ", LostText(loss), "\n",  //
                  "kept       ", loss.tasks, " tasks in ", folder, "\n", AsideText(loss.aside));
  return text;
}

std::string LossJson(const std::string& folder, const store::AcceptLossResult& loss) {
  return absl::StrCat("{\"data_dir\":", base::JsonQuoted(folder),
                      ",\"findings\":", ListJson(loss.findings), ",\"sequence\":", loss.sequence,
                      ",\"high_water\":", HighWaterJson(loss.high_water), ",\"tasks\":", loss.tasks,
                      ",\"aside\":", AsideJson(loss.aside), "}\n");
}

absl::Status CreateCheckpoint(const CliConfig& config, const DbArguments& arguments,
                              std::FILE* out) {
  const absl::StatusOr<v1::CreateCheckpointResponse> checkpoint =
      arguments.has_data_dir ? CreateLocalCheckpoint(config, arguments.name)
                             : RequestCheckpoint(config, arguments.name);
  if (!checkpoint.ok()) return ToUsageError(checkpoint.status());
  const std::string text = WantsJson(config) ? absl::StrCat(wire::ToJson(*checkpoint), "\n")
                                             : CheckpointText(*checkpoint);
  std::fputs(text.c_str(), out);
  return absl::OkStatus();
}

absl::Status RestoreStore(const CliConfig& config, const DbArguments& arguments, std::FILE* out) {
  if (arguments.from.empty() != arguments.accept_loss) {
    return UsageError(
        "give either --from=<checkpoint>, to replace the store by it, or --accept_loss, to keep "
        "what can be read of the store");
  }
  const std::string& folder = config.data_dir();
  std::optional<ProgressLine> line("records read:");
  const store::RestoreOptions options = {
      .data_dir = folder,
      .now = system::SystemClock().WallNow(),
      .progress = [&line](uint64_t records) { line->Show(records); }};
  if (arguments.accept_loss) {
    const absl::StatusOr<store::AcceptLossResult> loss = store::AcceptLoss(options);
    line.reset();
    if (!loss.ok()) return WithLockAdvice(loss.status(), kStopDirector);
    std::fputs((WantsJson(config) ? LossJson(folder, *loss) : LossText(folder, *loss)).c_str(),
               out);
    return absl::OkStatus();
  }
  const absl::StatusOr<store::RestoreResult> restored =
      store::RestoreCheckpoint(options, arguments.from);
  line.reset();
  if (!restored.ok()) return ToUsageError(WithLockAdvice(restored.status(), kStopDirector));
  std::fputs((WantsJson(config) ? RestoredJson(folder, *restored) : RestoredText(folder, *restored))
                 .c_str(),
             out);
  return absl::OkStatus();
}

// ---- get, export --------------------------------------------------------------------------------

namespace {

// Tasks that one thread reads at a time: enough to be worth the handover between threads, few
// enough for the memory, as a task can have more than a megabyte.
constexpr uint64_t kTasksPerBatch = 8;
constexpr uint64_t kTasksPerProgress = 256;
constexpr char kProgress[] = "tasks written:";

core::Task TaskOf(const SurveyedTask& surveyed, const ReadTaskResult& reading) {
  core::Task task = core::BuildTask(reading.records);
  task.position = surveyed.position;
  task.redriven_as = surveyed.redriven_as;
  return task;
}

// Writes a piece of text.
using TextSink = absl::FunctionRef<absl::Status(absl::string_view)>;

// Reads tasks in parallel and writes them to `sink` in the order of the survey. `line` may be null.
absl::Status WriteTasks(const StoreFolder& folder, const StoreSurvey& survey,
                        const std::stop_token& stop, const ProgressLine* line, TextSink sink) {
  const flow::LaneLimit limit = flow::ComputeLimits({}, system::ThisMachine()).cpu;
  flow::ThreadPool pool(limit.concurrency);
  using Tasks = absl::Span<const SurveyedTask>;
  auto next = [rest = Tasks(survey.tasks)]() mutable -> std::optional<Tasks> {
    if (rest.empty()) return std::nullopt;
    const Tasks some = rest.subspan(0, kTasksPerBatch);
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
      pool, next, read, {.limit = limit.max_pending, .order = flow::Order::kInput, .stop = stop});
  uint64_t written = 0;
  while (std::optional<absl::StatusOr<std::string>> text = texts.Next()) {
    RETURN_IF_ERROR(text->status());
    RETURN_IF_ERROR(sink(**text));
    written += kTasksPerBatch;
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
  // On a terminal the tasks themselves show the progress.
  std::optional<ProgressLine> line;
  if (isatty(fileno(out)) == 0) line.emplace(kProgress);
  const auto sink = [&](absl::string_view text) {
    const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
    return written ? absl::OkStatus() : error();
  };
  RETURN_IF_ERROR(WriteTasks(folder, survey, {}, line.has_value() ? &*line : nullptr, sink));
  return std::fflush(out) == 0 ? absl::OkStatus() : error();
}

}  // namespace

std::string TaskJson(const SurveyedTask& task, const ReadTaskResult& reading) {
  const std::vector<core::TaskEvent> events = core::BuildEvents(reading.records);
  return absl::StrCat(
      "{\"task\":", wire::ToJson(wire::ToProto(TaskOf(task, reading))), ",\"events\":[",
      absl::StrJoin(events, ",",
                    [](std::string* out, const core::TaskEvent& event) {
                      absl::StrAppend(out, wire::ToJson(wire::ToProto(event)));
                    }),
      "],\"damage\":", reading.damage.empty() ? "null" : base::JsonQuoted(reading.damage), "}\n");
}

std::string TaskText(const SurveyedTask& surveyed, const ReadTaskResult& reading) {
  const v1::Task task = wire::ToProto(TaskOf(surveyed, reading));
  std::string text = absl::StrCat("task       ", task.queue_id(), "\nstate      ",
                                  wire::EnumText(*v1::Task::State_descriptor(), task.state()));
  if (task.position() > 0) absl::StrAppend(&text, ", position ", task.position());
  absl::StrAppend(&text, "\nprompt     ", base::JsonQuoted(task.prompt()), "\nruns       ",
                  RunsText(task), "\n");
  if (!task.last_error().empty()) {
    absl::StrAppend(&text, "last error ", base::Escaped(task.last_error()), "\n");
  }
  if (!task.result().empty()) {
    absl::StrAppend(&text, "result     ", base::JsonQuoted(task.result()), "\n");
  }
  for (const core::TaskEvent& event : core::BuildEvents(reading.records)) {
    const v1::TaskEvent proto = wire::ToProto(event);
    absl::StrAppend(&text,
                    absl::StrFormat("%6d  %s  %-16s %s%s%s\n", event.number, Rfc3339Text(event.at),
                                    wire::EnumText(*v1::TaskEvent::Kind_descriptor(), proto.kind()),
                                    base::Escaped(event.who), event.why.empty() ? "" : ": ",
                                    base::Escaped(event.why)));
  }
  if (!reading.damage.empty()) absl::StrAppend(&text, "damaged    ", reading.damage, "\n");
  return text;
}

absl::Status ShowStoredTask(const CliConfig& config, const DbArguments& arguments, std::FILE* out) {
  const std::optional<core::QueueId> id = core::ParseQueueId(arguments.queue_id);
  if (!id.has_value()) {
    return UsageError(QueueIdError(arguments.queue_id));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<StoreFolder> folder, OpenFolder(config));
  const StoreSurvey survey = SurveyWithProgress(*folder);
  RETURN_IF_ERROR(CheckDamage(arguments, *folder, survey));
  const auto found = std::find_if(survey.tasks.begin(), survey.tasks.end(),
                                  [&id](const SurveyedTask& task) { return task.queue_id == *id; });
  if (found == survey.tasks.end()) {
    return absl::NotFoundError(
        absl::StrCat("there is no task ", arguments.queue_id, " in ", config.data_dir()));
  }
  const ReadTaskResult reading = folder->ReadTask(*id);
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
    const auto sink = [&file](absl::string_view text) { return file.Append(text); };
    RETURN_IF_ERROR(WriteTasks(folder, survey, stop, &line, sink));
  }
  return std::move(file).Promote(stop);
}

absl::Status ExportTasks(const CliConfig& config, const DbArguments& arguments, std::FILE* out) {
  InterruptHandler interrupts;
  ASSIGN_OR_RETURN(const std::unique_ptr<StoreFolder> folder, OpenFolder(config));
  const StoreSurvey survey = SurveyWithProgress(*folder);
  RETURN_IF_ERROR(CheckDamage(arguments, *folder, survey));
  if (arguments.to.empty()) return WriteToStream(*folder, survey, out);
  return ExportToFile(*folder, survey, arguments.to, interrupts.Defer());
}

}  // namespace callboard::cli
