#include "libs/config/jobs_file.h"

#include <fcntl.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "callboard/v1/queue.pb.h"
#include "callboard/v1/scheduler.pb.h"
#include "libs/base/error.h"
#include "libs/base/files.h"
#include "libs/base/log.h"
#include "libs/base/text.h"
#include "libs/config/setting_value.h"
#include "libs/config/settings.h"
#include "libs/config/yaml.h"
#include "libs/core/job.h"
#include "libs/core/limits.h"
#include "libs/wire/enums.h"
#include "libs/wire/job.h"
#include "libs/wire/spec.h"
#include "libs/wire/time.h"

namespace callboard::config {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using JobProto = callboard::v1::Job;
using SubmitProto = callboard::v1::SubmitTaskRequest;

absl::Status InvalidFile(absl::string_view what) { return absl::InvalidArgumentError(what); }

// ---- The keys of a job --------------------------------------------------------------------------

// A key that is not a field of the job's task, and the field of callboard.v1.Job that it sets.
struct JobKey {
  const char* name;
  const char* field;
};

// In the order in which errors list them.
constexpr JobKey kJobKeys[] = {
    {"name", "name"},
    {"schedule", "schedules"},
    {"seconds", "seconds"},
    {"time_zone", "time_zone"},
    {"overlap", "overlap"},
    {"catch_up", "catch_up"},
    {"catch_up.all", "catch_up_max"},
    {"on_queue_full", "queue_full_wait"},
    {"on_queue_full.wait", "queue_full_wait"},
    {"jitter", "jitter"},
    {"start", "start"},
    {"end", "end"},
    {"max_runs", "max_runs"},
    {"paused", "paused"},
    {"pause_after_failures", "pause_after_failures"},
    {"agent_url", "agent_url"},
};

// Fields that the scheduler sets, and times, which would be right for one task only.
const std::set<std::string>& SchedulerFields() {
  static const auto& names = *new std::set<std::string>{
      "request_id", "source",        "source_job",        "policy",     "ticket",
      "overlap",    "validate_only", "earliest_start_at", "deadline_at"};
  return names;
}

// Returns all keys of a job as settings: those above, and the fields of a submit that the scheduler
// does not set.
std::vector<SettingField> ListJobKeys() {
  std::vector<SettingField> keys;
  const auto add = [&keys](std::string name, std::vector<const FieldDescriptor*> path) {
    keys.push_back(
        {.name = std::move(name), .path = std::move(path), .entry = "", .default_text = ""});
  };
  for (const JobKey& key : kJobKeys) {
    add(key.name, {JobProto::descriptor()->FindFieldByName(key.field)});
  }
  const Descriptor& submit = *SubmitProto::descriptor();
  for (int i = 0; i < submit.field_count(); ++i) {
    const FieldDescriptor& field = *submit.field(i);
    if (SchedulerFields().contains(field.name())) continue;
    const Descriptor* group = field.is_map() ? nullptr : field.message_type();
    if (group == nullptr) add(field.name(), {&field});
    for (int j = 0; group != nullptr && j < group->field_count(); ++j) {
      add(absl::StrCat(field.name(), ".", group->field(j)->name()), {&field, group->field(j)});
    }
  }
  return keys;
}

std::string UnknownKeyText(absl::string_view key, const std::vector<std::string>& known) {
  const std::string nearest = base::Nearest(key, known);
  return absl::StrCat("there is no key '", base::EscapeForError(key), "'; ",
                      known.empty()     ? "write a map in the key before the dot"
                      : nearest.empty() ? absl::StrCat("keys are ", absl::StrJoin(known, ", "))
                                        : absl::StrCat("did you mean '", nearest, "'?"));
}

// ---- A job --------------------------------------------------------------------------------------

// Returns the path of the field that an error names; empty if it names none.
std::string ErrorField(const absl::Status& error) {
  const base::ErrorDetails details = base::GetErrorDetails(error);
  const auto field = details.metadata.find("field");
  if (field != details.metadata.end()) return field->second;
  return details.field_violations.empty() ? "" : details.field_violations.begin()->first;
}

// Checks a submit as the director does.
absl::Status CheckSubmit(const SubmitProto& request) {
  return wire::ReadSubmit(SubmitProto(request), core::QueueOptions().max_attempts).status();
}

// One job of the file. Reads its keys into messages and makes a core::Job of them.
class JobReader {
 public:
  // `keys` is ListJobKeys() and outlives the reader. REQUIRES: `node` is a map.
  JobReader(const std::string& path, const YAML::Node& node, const std::vector<SettingField>& keys)
      : path_(path),
        line_(LineOf(node)),
        reader_({path, SubjectOf(node["name"]), UnknownKeyText}, keys) {}

  absl::StatusOr<core::Job> Read(const YAML::Node& node) {
    for (const auto& entry : node) {
      // To the reader, `catch_up.all` is the key `all` in the map `catch_up`.
      const std::string key = entry.first.Scalar();
      if (absl::StrContains(key, '.')) return reader_.Error(entry.first, UnknownKeyText(key, {}));
    }
    RETURN_IF_ERROR(reader_.ReadMap(node));
    for (const FileValue& value : reader_.values()) RETURN_IF_ERROR(Assign(value));
    for (const char* key : {"name", "schedule"}) {
      if (Find(key) == nullptr) return KeyError(key, "is required");
    }
    core::Job job = DeclaredJob();
    RETURN_IF_ERROR(ReadTimes(job));
    RETURN_IF_ERROR(ReadTask(job));
    for (const JobKey& key : kJobKeys) {
      if (absl::StrContains(key.name, '.')) continue;
      job.origins[key.name] = Find(key.name) != nullptr ? "file" : "default";
    }
    return job;
  }

 private:
  // Returns the beginning of all errors, after their line.
  static std::string SubjectOf(const YAML::Node& name) {
    const std::string text = name.IsDefined() && name.IsScalar() ? name.Scalar() : "";
    return text.empty() ? "a job: " : absl::StrCat("job ", base::EscapeForError(text), ": ");
  }

  absl::Status Assign(const FileValue& value) {
    const std::string& key = value.setting.name;
    const std::string text = value.elements.size() == 1 ? value.elements.front().text : "";
    if (key == "catch_up" && text != "latest" && text != "none") {
      return KeyError(key, "expected latest, none or `all: <count>`");
    }
    if (key == "on_queue_full") {
      return text == "skip" ? absl::OkStatus()
                            : KeyError(key, "expected skip or `wait: <duration>`");
    }
    const bool is_task = value.setting.path.front()->containing_type() == submit_.GetDescriptor();
    google::protobuf::Message& message = is_task ? static_cast<google::protobuf::Message&>(submit_)
                                                 : static_cast<google::protobuf::Message&>(job_);
    const absl::Status status = AssignElements(value.setting, value.elements, message);
    if (!status.ok()) return reader_.Error(value.line, status.message());
    if (key == "catch_up.all") job_.set_catch_up(JobProto::CATCH_UP_ALL);
    return absl::OkStatus();
  }

  core::Job DeclaredJob() const {
    core::Job job = {.name = job_.name()};
    job.text = {.expressions = {job_.schedules().begin(), job_.schedules().end()},
                .seconds = job_.seconds(),
                .hash_key = job_.name()};
    job.time_zone = job_.time_zone();
    job.overlap = wire::FromProto(wire::kOverlapPolicies, job_.overlap())
                      .value_or(core::OverlapPolicy::kSkip);
    job.catch_up = {.kind = wire::FromProto(wire::kCatchUps, job_.catch_up())
                                .value_or(core::CatchUp::Kind::kLatest),
                    .count = job_.catch_up_max()};
    job.queue_full_wait = *wire::FromProto(job_.queue_full_wait());
    job.jitter = *wire::FromProto(job_.jitter());
    if (job_.has_start()) job.start = *wire::FromProto(job_.start());
    if (job_.has_start()) job.text.anchor = job.start;
    if (job_.has_end()) job.end = *wire::FromProto(job_.end());
    job.max_runs = job_.max_runs();
    job.paused = job_.paused();
    job.pause_after_failures = job_.pause_after_failures();
    job.agent_url = job_.agent_url();
    return job;
  }

  // Reads the schedule and checks the other values that are not fields of the task.
  absl::Status ReadTimes(core::Job& job) const {
    const int64_t year = absl::ToCivilYear(job.start, absl::UTCTimeZone()).year();
    if (job_.has_start() && (year < core::kScheduleFirstYear || year >= core::kScheduleEndYear)) {
      return KeyError("start",
                      absl::StrCat("expected a time between the years ", core::kScheduleFirstYear,
                                   " and ", core::kScheduleEndYear - 1));
    }
    absl::string_view address = job.agent_url;
    if (!address.empty() &&
        (!absl::ConsumePrefix(&address, "grpc://") || !base::IsHostPort(address))) {
      return KeyError("agent_url", "expected grpc://host:port");
    }
    const absl::StatusOr<absl::TimeZone> zone = LoadZone(job.time_zone);
    if (!zone.ok()) return KeyError("time_zone", zone.status().message());
    absl::StatusOr<core::Schedule> schedule = core::Schedule::Parse(job.text, *zone);
    if (schedule.ok()) {
      job.schedule = *std::move(schedule);
      return absl::OkStatus();
    }
    const auto is_valid = [&](const FileValue&, const SettingElement& expression) {
      core::ScheduleText one = job.text;
      one.expressions = {expression.text};
      return core::Schedule::Parse(one, *zone).ok();
    };
    return reader_.Error(LineOfField("schedule", is_valid),
                         absl::StrCat("schedule: ", schedule.status().message()));
  }

  absl::Status ReadTask(core::Job& job) {
    RETURN_IF_ERROR(CheckTask(submit_));
    if (const absl::Status status = core::CheckJob(job); !status.ok()) {
      const int line = LineOfField(ErrorField(status));
      return InvalidFile(absl::StrCat(path_, ":", line, ": ", status.message()));
    }
    submit_.set_source(std::string(core::Name(core::TaskSource::kScheduler)));
    submit_.set_source_job(job.name);
    job.task = std::make_shared<const std::string>(submit_.SerializeAsString());
    // The submits of a backfill have the longest request ids.
    return CheckTask(wire::ToProto(core::MakeJobSubmission(
        job,
        core::BackfillRequestId(job.name, std::string(core::kCallNameBytesMax, 'x'),
                                absl::FromUnixSeconds(std::numeric_limits<int64_t>::min())),
        job.overlap)));
  }

  absl::Status CheckTask(const SubmitProto& submit) const {
    const absl::Status status = CheckSubmit(submit);
    if (status.ok()) return status;
    const auto is_valid = [](const FileValue& value, const SettingElement& element) {
      SubmitProto alone;
      alone.set_prompt("p");
      return AssignElements(value.setting, {element}, alone).ok() && CheckSubmit(alone).ok();
    };
    return reader_.Error(LineOfField(ErrorField(status), is_valid), status.message());
  }

  // Returns the value of a key, or the first one of a group of keys. Null if the job has none.
  const FileValue* Find(absl::string_view key) const {
    for (const FileValue& value : reader_.values()) {
      absl::string_view rest = value.setting.name;
      if (absl::ConsumePrefix(&rest, key) && (rest.empty() || rest.front() == '.')) return &value;
    }
    return nullptr;
  }

  using IsValid = std::function<bool(const FileValue&, const SettingElement&)>;

  // Returns the line of the key of a field such as `retry_on[3]`, or that of the job if it does not
  // have the key. Of a list or a map, returns the line of the first element that is not valid by
  // itself.
  int LineOfField(absl::string_view path, const IsValid& is_valid = nullptr) const {
    const FileValue* value = Find(path);
    if (value == nullptr) value = Find(path.substr(0, path.find_first_of(".[")));
    if (value == nullptr) return line_;
    for (const SettingElement& element : value->elements) {
      const bool is_part = value->setting.field().is_repeated() && is_valid != nullptr;
      if (is_part && !is_valid(*value, element)) return element.line;
    }
    return value->line;
  }

  absl::Status KeyError(absl::string_view key, absl::string_view problem) const {
    return reader_.Error(LineOfField(key), absl::StrCat(key, ": ", problem));
  }

  const std::string& path_;
  const int line_;
  YamlReader reader_;
  // The values of the keys so far.
  JobProto job_;
  SubmitProto submit_;
};

// Reads the jobs of a document. Every error has its path and line.
class FileReader {
 public:
  explicit FileReader(const std::string& path) : path_(path) {}

  absl::StatusOr<std::vector<core::Job>> Read(const YAML::Node& document) const {
    if (document.IsNull()) return NoJobs(document);
    if (!document.IsMap()) return Error(document, "expected a map with the key 'jobs'");
    std::vector<core::Job> jobs;
    bool seen = false;
    for (const auto& entry : document) {
      const std::string key = entry.first.Scalar();
      if (key != "jobs") return Error(entry.first, UnknownKeyText(key, {"jobs"}));
      if (std::exchange(seen, true)) return Error(entry.first, "jobs is duplicated");
      if (entry.second.IsNull()) return NoJobs(entry.first);
      ASSIGN_OR_RETURN(jobs, ReadList(entry.first, entry.second));
    }
    if (!seen) return NoJobs(document);
    return jobs;
  }

 private:
  absl::StatusOr<std::vector<core::Job>> ReadList(const YAML::Node& key,
                                                  const YAML::Node& list) const {
    if (!list.IsSequence()) {
      return Error(key, "jobs: expected a list whose entries begin with `- name:`");
    }
    if (list.size() > core::kJobsMax) {
      return Error(key, absl::StrCat("jobs: has ", list.size(), " entries, at most ",
                                     core::kJobsMax, " are allowed"));
    }
    std::vector<core::Job> jobs;
    std::map<std::string, int> lines;
    for (const YAML::Node& node : list) {
      if (!node.IsMap()) return Error(node, "jobs: expected a map that begins with `name:`");
      ASSIGN_OR_RETURN(core::Job job, JobReader(path_, node, keys_).Read(node));
      const auto [first, is_new] = lines.emplace(job.name, LineOf(node));
      if (!is_new) {
        return Error(node,
                     absl::StrCat("job ", job.name, ": already declared in line ", first->second));
      }
      jobs.push_back(std::move(job));
    }
    return jobs;
  }

  absl::Status Error(const YAML::Node& node, absl::string_view problem) const {
    return InvalidFile(absl::StrCat(path_, ":", LineOf(node), ": ", problem));
  }
  // A file that has lost its content must not remove all jobs.
  absl::Status NoJobs(const YAML::Node& node) const {
    return Error(node, "the file has no jobs; write `jobs: []` if it should have none");
  }

  const std::string& path_;
  const std::vector<SettingField> keys_ = ListJobKeys();
};

}  // namespace

absl::StatusOr<std::vector<core::Job>> ReadJobs(const std::string& text, const std::string& path) {
  const auto wrong_at = [&](int line, absl::string_view what) {
    const std::string job = JobAtLine(text, line);
    return InvalidFile(absl::StrCat(path, ":", line, ": ", job.empty() ? "" : "job ",
                                    base::EscapeForError(job), job.empty() ? "" : ": ", what));
  };
  if (const std::optional<TextError> bad = FindBadByte(text)) return wrong_at(bad->line, bad->what);
  // yaml-cpp throws exceptions; they are converted to a Status here.
  try {
    if (const std::optional<TextError> open = FindUnclosedQuote(text)) {
      return wrong_at(open->line, open->what);
    }
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1) {
      return InvalidFile(absl::StrCat(path, ":", documents[1].Mark().line + 1,
                                      ": expected one document, found another one after `---`"));
    }
    return FileReader(path).Read(documents.empty() ? YAML::Node() : documents[0]);
  } catch (const YAML::Exception& error) {
    const int line = error.mark.line + 1;
    return wrong_at(line, absl::StrCat(base::EscapeForError(error.msg), QuoteAdvice(text, line)));
  }
}

// ---- JobsFile -----------------------------------------------------------------------------------

namespace {

absl::Status Unreadable(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat("jobs_file: ", base::SystemError(absl::StrCat("read ", path)).message()));
}

absl::StatusOr<std::string> ReadFileText(const std::string& path) {
  const base::Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return Unreadable(path);
  std::string text;
  char buffer[1 << 16];
  ssize_t count = 0;
  while ((count = read(file.get(), buffer, sizeof(buffer))) != 0) {
    if (count < 0) return Unreadable(path);
    text.append(buffer, static_cast<size_t>(count));
    if (text.size() > JobsFile::kBytesMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("jobs_file: ", path, " has more than ", JobsFile::kBytesMax >> 20, " MiB"));
    }
  }
  return text;
}

FileStamp ReadFileStamp(const std::string& path) {
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) return {};
  return {found.st_dev, found.st_ino, found.st_size, absl::TimeFromTimespec(found.st_mtim),
          absl::TimeFromTimespec(found.st_ctim)};
}

}  // namespace

JobsFile::JobsFile(const std::string& path, const ports::Clock& clock, OnJobs on_jobs,
                   absl::Duration check_period)
    : path_(path), clock_(clock), on_jobs_(std::move(on_jobs)), check_period_(check_period) {}

absl::StatusOr<std::unique_ptr<JobsFile>> JobsFile::Open(const std::string& path,
                                                         const ports::Clock& clock, OnJobs on_jobs,
                                                         absl::Duration check_period) {
  std::unique_ptr<JobsFile> file(new JobsFile(path, clock, std::move(on_jobs), check_period));
  RETURN_IF_ERROR(file->WaitUntilStable());
  RETURN_IF_ERROR(file->Read());
  file->thread_ = std::thread([&file = *file] { file.Run(); });
  return file;
}

JobsFile::~JobsFile() {
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void JobsFile::Reload() {
  base::MutexLock lock(mutex_);
  reload_ = true;
  changed_.NotifyAll();
}

JobsFile::State JobsFile::state() const {
  base::MutexLock lock(mutex_);
  return state_;
}

absl::Status JobsFile::WaitUntilStable() {
  FileStamp last = ReadFileStamp(path_);
  for (int check = 0; check < kFirstChecksMax; ++check) {
    {
      base::MutexLock lock(mutex_);
      changed_.WaitFor(mutex_, check_period_, [] { return false; });
    }
    const FileStamp now = ReadFileStamp(path_);
    if (now == last) return absl::OkStatus();
    last = now;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("jobs_file: ", path_, " is being written continuously; try again"));
}

void JobsFile::Run() {
  // The check starts without a stamp, so the file is read again soon after the start: it may have
  // been written while Open() was reading it.
  StabilityCheck check;
  while (true) {
    bool reload = false;
    {
      base::MutexLock lock(mutex_);
      changed_.WaitFor(mutex_, check_period_,
                       [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopping_ || reload_; });
      if (stopping_) return;
      reload = std::exchange(reload_, false);
    }
    const FileStamp now = ReadFileStamp(path_);
    if (reload) {
      text_.reset();
      check.Restart(now);
    } else if (check.ShouldRead(now)) {
      ReadAndReport();
    }
  }
}

absl::Status JobsFile::Read() {
  absl::StatusOr<std::string> text = ReadFileText(path_);
  if (!text.ok()) {
    text_.reset();
    return text.status();
  }
  if (*text == text_) return absl::OkStatus();
  text_ = *std::move(text);
  ASSIGN_OR_RETURN(std::vector<core::Job> jobs, ReadJobs(*text_, path_));
  base::LogInfo("jobs_file", "read", {{"path", path_}, {"jobs", jobs.size()}});
  {
    base::MutexLock lock(mutex_);
    state_ = {.read_at = clock_.WallNow()};
  }
  on_jobs_(std::move(jobs));
  return absl::OkStatus();
}

void JobsFile::ReadAndReport() {
  const absl::Status status = Read();
  if (status.ok()) return;
  base::LogWarning("jobs_file", "refused",
                   {{"error", status.message()}, {"next", "the previous jobs stay in use"}});
  base::MutexLock lock(mutex_);
  state_ = {.read_at = clock_.WallNow(), .error = std::string(status.message())};
}

absl::StatusOr<std::vector<core::Job>> ReadJobsFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFileText(path));
  return ReadJobs(text, path);
}

// ---- Time zones ---------------------------------------------------------------------------------

namespace {

// Excludes other names that Abseil accepts: file paths, and names for the zone of this machine.
bool IsZoneName(const std::string& name) {
  return name != "localtime" && absl::ascii_isalpha(static_cast<unsigned char>(name.front())) &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || absl::StrContains("/_+-", static_cast<char>(c));
         });
}

}  // namespace

absl::StatusOr<absl::TimeZone> LoadZone(const std::string& name) {
  absl::TimeZone zone = absl::UTCTimeZone();
  if (name.empty() || (IsZoneName(name) && absl::LoadTimeZone(name, &zone))) return zone;
  return absl::InvalidArgumentError(
      absl::StrCat("\"", base::EscapeForError(name),
                   "\" is not a time zone of the IANA database; use a name such as Europe/Berlin"));
}

}  // namespace callboard::config
