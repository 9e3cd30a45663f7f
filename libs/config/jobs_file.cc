#include "libs/config/jobs_file.h"

#include <fcntl.h>
#include <google/protobuf/descriptor.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "callboard/v1/queue.pb.h"
#include "libs/base/error.h"
#include "libs/base/files.h"
#include "libs/base/log.h"
#include "libs/base/text.h"
#include "libs/config/yaml.h"
#include "libs/core/limits.h"
#include "libs/wire/job.h"
#include "libs/wire/json.h"
#include "libs/wire/task.h"
#include "libs/wire/time.h"

namespace callboard::config {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

absl::Status InvalidFile(absl::string_view what) { return absl::InvalidArgumentError(what); }

// ---- The task of a job --------------------------------------------------------------------------

// A few times the size limit of a task. Aliases can make a small file expand without bound.
constexpr size_t kJsonBytesMax = 4 * core::kBodyBytesMax;
constexpr int kDepthMax = 16;

// Fields that the scheduler sets, and times, which would be right for one task only.
const std::set<std::string>& SchedulerFields() {
  static const auto& names = *new std::set<std::string>{
      "request_id", "source",        "source_job",        "policy",     "ticket",
      "overlap",    "validate_only", "earliest_start_at", "deadline_at"};
  return names;
}

// Converts YAML to the JSON form of a message. YAML does not tell text from numbers; the type of
// the field does.
class JsonWriter {
 public:
  // `field` is null for an unknown field, which the JSON parser reports as an error.
  absl::Status Write(const YAML::Node& value, const FieldDescriptor* field, int depth = 0) {
    if (json_.size() > kJsonBytesMax || depth > kDepthMax) {
      return absl::InvalidArgumentError("the task is too large or too deeply nested");
    }
    switch (value.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        json_ += "null";
        break;
      case YAML::NodeType::Scalar:
        json_ += Literal(value.Scalar(), field);
        break;
      case YAML::NodeType::Sequence: {
        char separator = '[';
        for (const YAML::Node& element : value) {
          json_ += std::exchange(separator, ',');
          RETURN_IF_ERROR(Write(element, field, depth + 1));
        }
        json_ += separator == '[' ? "[]" : "]";
        break;
      }
      case YAML::NodeType::Map: {
        char separator = '{';
        for (const auto& entry : value) {
          absl::StrAppend(&json_, std::string(1, std::exchange(separator, ',')),
                          base::JsonQuoted(entry.first.Scalar()), ":");
          RETURN_IF_ERROR(Write(entry.second, FieldIn(field, entry.first.Scalar()), depth + 1));
        }
        json_ += separator == '{' ? "{}" : "}";
        break;
      }
    }
    return absl::OkStatus();
  }

  std::string& json() { return json_; }

 private:
  static const FieldDescriptor* FieldIn(const FieldDescriptor* field, const std::string& name) {
    if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return nullptr;
    return field->is_map() ? field->message_type()->map_value()
                           : field->message_type()->FindFieldByName(name);
  }

  static std::string Literal(const std::string& text, const FieldDescriptor* field) {
    if (field == nullptr) return base::JsonQuoted(text);
    if (field->type() == FieldDescriptor::TYPE_BYTES) {
      return base::JsonQuoted(absl::Base64Escape(text));
    }
    const bool is_bool = field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL;
    if (is_bool && (text == "true" || text == "false")) return text;
    int64_t number = 0;
    const bool is_number = field->cpp_type() == FieldDescriptor::CPPTYPE_UINT32;
    if (is_number && absl::SimpleAtoi(text, &number)) return absl::StrCat(number);
    return base::JsonQuoted(text);
  }

  std::string json_;
};

// Returns the keys of a job that describe its task: the fields of SubmitTaskRequest, except those
// that the scheduler sets.
std::vector<std::string> TaskFieldNames() {
  std::vector<std::string> names;
  const Descriptor& type = *callboard::v1::SubmitTaskRequest::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const std::string& name = type.field(i)->name();
    if (!SchedulerFields().contains(name)) names.push_back(name);
  }
  return names;
}

// Checks a submit as the director does.
absl::Status CheckSubmit(const callboard::v1::SubmitTaskRequest& request) {
  ASSIGN_OR_RETURN(const auto submission, wire::FromProto(request));
  return core::CheckSupported(submission.spec);
}

// Parses a job's task from the values of these keys. Returns INVALID_ARGUMENT with a field
// violation for each invalid value.
absl::StatusOr<callboard::v1::SubmitTaskRequest> ReadTaskFields(
    const std::map<std::string, YAML::Node>& fields) {
  JsonWriter writer;
  for (const auto& [name, value] : fields) {
    absl::StrAppend(&writer.json(), writer.json().empty() ? "{" : ",", base::JsonQuoted(name), ":");
    RETURN_IF_ERROR(
        writer.Write(value, callboard::v1::SubmitTaskRequest::descriptor()->FindFieldByName(name)));
  }
  callboard::v1::SubmitTaskRequest request;
  if (!fields.empty()) RETURN_IF_ERROR(wire::FromJson(writer.json() + "}", request));
  RETURN_IF_ERROR(CheckSubmit(request));
  return request;
}

// ---- Single values ------------------------------------------------------------------------------

absl::StatusOr<std::string> ReadText(const YAML::Node& value) {
  if (!value.IsScalar()) return InvalidFile("expected one value");
  return value.Scalar();
}

absl::StatusOr<bool> ReadBool(const YAML::Node& value) {
  if (value.IsScalar() && value.Scalar() == "true") return true;
  if (value.IsScalar() && value.Scalar() == "false") return false;
  return InvalidFile("expected true or false");
}

absl::StatusOr<uint32_t> ReadNumber(const YAML::Node& value) {
  uint32_t number = 0;
  if (value.IsScalar() && absl::SimpleAtoi(value.Scalar(), &number)) return number;
  return InvalidFile(
      absl::StrCat("expected a whole number in 0..", std::numeric_limits<uint32_t>::max()));
}

absl::StatusOr<absl::Duration> ReadDuration(const YAML::Node& value) {
  absl::Duration duration;
  if (value.IsScalar() && absl::ParseDuration(value.Scalar(), &duration) &&
      duration >= absl::ZeroDuration() && duration < absl::InfiniteDuration()) {
    return duration;
  }
  return InvalidFile("expected a duration such as 90s, 5m or 1h30m");
}

absl::StatusOr<absl::Time> ReadTime(const YAML::Node& value) {
  const std::optional<absl::Time> time =
      value.IsScalar() ? wire::ParseTime(value.Scalar()) : std::nullopt;
  if (!time.has_value()) return InvalidFile("expected a time such as 2026-01-31T08:00:00Z");
  return *time;
}

absl::StatusOr<absl::Time> ReadStart(const YAML::Node& value) {
  ASSIGN_OR_RETURN(const absl::Time time, ReadTime(value));
  const int64_t year = absl::ToCivilYear(time, absl::UTCTimeZone()).year();
  if (year >= core::kScheduleFirstYear && year < core::kScheduleEndYear) return time;
  return InvalidFile(absl::StrCat("expected a time between the years ", core::kScheduleFirstYear,
                                  " and ", core::kScheduleEndYear - 1));
}

// Reads one text, or a list of texts.
absl::StatusOr<std::vector<std::string>> ReadTexts(const YAML::Node& value) {
  if (value.IsScalar()) return std::vector<std::string>{value.Scalar()};
  if (!value.IsSequence() || value.size() == 0)
    return InvalidFile("expected an expression or a list of expressions");
  std::vector<std::string> texts;
  for (const YAML::Node& element : value) {
    ASSIGN_OR_RETURN(std::string text, ReadText(element));
    texts.push_back(std::move(text));
  }
  return texts;
}

absl::StatusOr<core::OverlapPolicy> ReadOverlap(const YAML::Node& value) {
  const std::string text = value.IsScalar() ? value.Scalar() : "";
  if (text == "skip") return core::OverlapPolicy::kSkip;
  if (text == "queue_one") return core::OverlapPolicy::kQueueOne;
  if (text == "allow") return core::OverlapPolicy::kAllow;
  return InvalidFile("expected skip, queue_one or allow");
}

// Returns the value of a map that has only this key; otherwise nullopt.
std::optional<YAML::Node> OnlyValue(const YAML::Node& map, const std::string& key) {
  if (!map.IsMap() || map.size() != 1 || map.begin()->first.Scalar() != key) return std::nullopt;
  return map.begin()->second;
}

absl::StatusOr<core::CatchUp> ReadCatchUp(const YAML::Node& value) {
  if (const std::optional<YAML::Node> all = OnlyValue(value, "all")) {
    ASSIGN_OR_RETURN(const uint32_t count, ReadNumber(*all));
    return core::CatchUp{core::CatchUp::Kind::kAll, count};
  }
  const std::string text = value.IsScalar() ? value.Scalar() : "";
  if (text == "latest") return core::CatchUp{core::CatchUp::Kind::kLatest};
  if (text == "none") return core::CatchUp{core::CatchUp::Kind::kNone};
  return InvalidFile("expected latest, none or `all: <count>`");
}

absl::StatusOr<absl::Duration> ReadQueueFull(const YAML::Node& value) {
  if (const std::optional<YAML::Node> wait = OnlyValue(value, "wait")) return ReadDuration(*wait);
  if (value.IsScalar() && value.Scalar() == "skip") return absl::ZeroDuration();
  return InvalidFile("expected skip or `wait: <duration>`");
}

absl::StatusOr<std::string> ReadAgentUrl(const YAML::Node& value) {
  ASSIGN_OR_RETURN(std::string url, ReadText(value));
  absl::string_view address = url;
  if (!absl::ConsumePrefix(&address, "grpc://") || !base::IsHostPort(address)) {
    return InvalidFile("expected grpc://host:port");
  }
  return url;
}

// ---- A job --------------------------------------------------------------------------------------

using ReadKey = absl::Status (*)(const YAML::Node& value, core::Job& job);

// Reads a value with `Read` into the member `Field`.
template <auto Read, auto Field>
absl::Status ReadInto(const YAML::Node& value, core::Job& job) {
  ASSIGN_OR_RETURN(job.*Field, Read(value));
  return absl::OkStatus();
}

struct JobKey {
  const char* name;
  ReadKey read;
};

// The keys of a job that are not fields of its task, in the order in which errors list them.
constexpr JobKey kJobKeys[] = {
    {"name", ReadInto<ReadText, &core::Job::name>},
    {"schedule",
     [](const YAML::Node& value, core::Job& job) -> absl::Status {
       ASSIGN_OR_RETURN(job.text.expressions, ReadTexts(value));
       return absl::OkStatus();
     }},
    {"seconds",
     [](const YAML::Node& value, core::Job& job) -> absl::Status {
       ASSIGN_OR_RETURN(job.text.seconds, ReadBool(value));
       return absl::OkStatus();
     }},
    {"time_zone", ReadInto<ReadText, &core::Job::time_zone>},
    {"overlap", ReadInto<ReadOverlap, &core::Job::overlap>},
    {"catch_up", ReadInto<ReadCatchUp, &core::Job::catch_up>},
    {"on_queue_full", ReadInto<ReadQueueFull, &core::Job::queue_full_wait>},
    {"jitter", ReadInto<ReadDuration, &core::Job::jitter>},
    {"start", ReadInto<ReadStart, &core::Job::start>},
    {"end", ReadInto<ReadTime, &core::Job::end>},
    {"max_runs", ReadInto<ReadNumber, &core::Job::max_runs>},
    {"paused", ReadInto<ReadBool, &core::Job::paused>},
    {"pause_after_failures", ReadInto<ReadNumber, &core::Job::pause_after_failures>},
    {"agent_url", ReadInto<ReadAgentUrl, &core::Job::agent_url>},
};

const JobKey* FindJobKey(absl::string_view name) {
  const auto* found = std::find_if(std::begin(kJobKeys), std::end(kJobKeys),
                                   [name](const JobKey& key) { return key.name == name; });
  return found == std::end(kJobKeys) ? nullptr : found;
}

std::string UnknownKeyText(const std::string& key, const std::vector<std::string>& known) {
  const std::string nearest = base::Nearest(key, known);
  return absl::StrCat("there is no key '", base::EscapeForError(key), "'; ",
                      nearest.empty() ? absl::StrCat("keys are ", absl::StrJoin(known, ", "))
                                      : absl::StrCat("did you mean '", nearest, "'?"));
}

// Reads the jobs of a document. Every error has its path and line.
class FileReader {
 public:
  explicit FileReader(const std::string& path) : path_(path) {}

  absl::StatusOr<std::vector<core::Job>> Read(const YAML::Node& document) {
    if (document.IsNull()) return AtLocation(document, NoJobs());
    if (!document.IsMap())
      return AtLocation(document, InvalidFile("expected a map with the key 'jobs'"));
    std::vector<core::Job> jobs;
    bool seen = false;
    for (const auto& entry : document) {
      const std::string key = entry.first.Scalar();
      if (key != "jobs") return AtLocation(entry.first, InvalidFile(UnknownKeyText(key, {"jobs"})));
      if (std::exchange(seen, true))
        return AtLocation(entry.first, InvalidFile("jobs: duplicate key"));
      if (entry.second.IsNull()) return AtLocation(entry.first, NoJobs());
      ASSIGN_OR_RETURN(jobs, ReadList(entry.first, entry.second));
    }
    if (!seen) return AtLocation(document, NoJobs());
    return jobs;
  }

 private:
  // A file that has lost its content must not remove all jobs.
  static absl::Status NoJobs() {
    return InvalidFile("the file has no jobs; write `jobs: []` if it should have none");
  }

  absl::StatusOr<std::vector<core::Job>> ReadList(const YAML::Node& key, const YAML::Node& list) {
    if (!list.IsSequence()) {
      return AtLocation(key,
                        InvalidFile("jobs: expected a list whose entries begin with `- name:`"));
    }
    if (list.size() > core::kJobsMax) {
      return AtLocation(key,
                        InvalidFile(absl::StrCat("jobs: has ", list.size(), " entries, at most ",
                                                 core::kJobsMax, " are allowed")));
    }
    std::vector<core::Job> jobs;
    std::map<std::string, int> lines;
    for (const YAML::Node& node : list) {
      ASSIGN_OR_RETURN(core::Job job, ReadJob(node));
      const auto [first, is_new] = lines.emplace(job.name, LineOf(node));
      if (!is_new) {
        return AtLocation(node,
                          InvalidFile(absl::StrCat("job ", job.name, ": already declared in line ",
                                                   first->second)));
      }
      jobs.push_back(std::move(job));
    }
    return jobs;
  }

  absl::StatusOr<core::Job> ReadJob(const YAML::Node& node) {
    if (!node.IsMap())
      return AtLocation(node, InvalidFile("jobs: expected a map that begins with `name:`"));
    // The name is needed for error messages. It is checked later, like every key.
    const YAML::Node name = node["name"];
    job_ = name.IsDefined() && name.IsScalar() ? name.Scalar() : "";
    std::map<std::string, YAML::Node> keys;
    std::map<std::string, YAML::Node> task;
    core::Job job;
    for (const auto& entry : node) {
      const std::string key = entry.first.Scalar();
      if (!keys.emplace(key, entry.first).second)
        return AtLocation(entry.first, KeyError(key, "duplicate key"));
      if (const JobKey* job_key = FindJobKey(key); job_key != nullptr) {
        if (absl::Status status = job_key->read(entry.second, job); !status.ok()) {
          return AtLocation(JobKeyLocation(entry.first, entry.second),
                            KeyError(key, status.message()));
        }
      } else if (IsTaskField(key)) {
        task.emplace(key, entry.second);
      } else {
        return AtLocation(entry.first, KeyError("", UnknownKeyText(key, KeyNames())));
      }
    }
    return BuildJob(std::move(job), node, keys, task);
  }

  absl::StatusOr<core::Job> BuildJob(core::Job job, const YAML::Node& node,
                                     const std::map<std::string, YAML::Node>& keys,
                                     const std::map<std::string, YAML::Node>& task) {
    // Returns the location of a field path such as `retry_on[3]`, or the job if it has no such key.
    const auto location = [&](const std::string& path) {
      const std::string key = path.substr(0, path.find_first_of(".["));
      const auto found = keys.find(key);
      if (found == keys.end()) return node;
      if (FindJobKey(key) != nullptr) return JobKeyLocation(found->second, node[key]);
      return FindLocation(found->second, node[key], absl::string_view(path).substr(key.size()));
    };
    for (const char* required : {"name", "schedule"}) {
      if (!keys.contains(required)) return AtLocation(node, KeyError(required, "is required"));
    }
    job.text.hash_key = job.name;
    if (job.start != absl::InfinitePast()) job.text.anchor = job.start;
    const absl::StatusOr<absl::TimeZone> zone = LoadZone(job.time_zone);
    if (!zone.ok())
      return AtLocation(location("time_zone"), KeyError("time_zone", zone.status().message()));
    absl::StatusOr<core::Schedule> schedule = core::Schedule::Parse(job.text, *zone);
    if (!schedule.ok()) {
      return AtLocation(WrongExpressionLocation(job, node["schedule"], location("schedule"), *zone),
                        KeyError("schedule", schedule.status().message()));
    }
    absl::StatusOr<callboard::v1::SubmitTaskRequest> request = ReadTaskFields(task);
    if (!request.ok()) {
      const std::string field = ErrorField(request.status());
      const auto found = task.find(field);
      return AtLocation(found == task.end()
                            ? location(field)
                            : WrongEntryLocation(field, found->second, location(field)),
                        KeyError("", request.status().message()));
    }
    job.schedule = *std::move(schedule);
    request->set_source(std::string(core::Name(core::TaskSource::kScheduler)));
    request->set_source_job(job.name);
    job.task = std::make_shared<const std::string>(request->SerializeAsString());
    for (const JobKey& key : kJobKeys) {
      job.origins[key.name] = keys.contains(key.name) ? "file" : "default";
    }
    if (absl::Status status = core::CheckJob(job); !status.ok()) {
      return AtLocation(location(ErrorField(status)), status);
    }
    if (absl::Status status = CheckLongestSubmit(job); !status.ok()) {
      return AtLocation(location(ErrorField(status)), KeyError("", status.message()));
    }
    return job;
  }

  // Returns the invalid expression, or the key if each expression by itself is valid.
  static YAML::Node WrongExpressionLocation(const core::Job& job, const YAML::Node& value,
                                            const YAML::Node& key, absl::TimeZone zone) {
    for (size_t i = 0; value.IsSequence() && i < value.size(); ++i) {
      core::ScheduleText one = job.text;
      one.expressions = {job.text.expressions[i]};
      if (!core::Schedule::Parse(one, zone).ok()) return value[i];
    }
    return key;
  }

  // Returns the invalid part of the value of a job key, or the key.
  static YAML::Node JobKeyLocation(const YAML::Node& key, const YAML::Node& value) {
    if (value.IsMap() && value.size() == 1) return value.begin()->first;
    for (size_t i = 0; value.IsSequence() && i < value.size(); ++i) {
      if (!value[i].IsScalar()) return value[i];
    }
    return key;
  }

  // Returns the element or entry of `value` at `path`, such as `[3]` or `.LEVEL`. Returns
  // `location` if the path is empty or does not exist.
  static YAML::Node FindLocation(const YAML::Node& location, const YAML::Node& value,
                                 absl::string_view path) {
    size_t index = 0;
    const size_t end = path.find(']');
    if (value.IsSequence() && absl::ConsumePrefix(&path, "[") && end != absl::string_view::npos &&
        absl::SimpleAtoi(path.substr(0, end - 1), &index) && index < value.size()) {
      return FindLocation(value[index], value[index], path.substr(end));
    }
    if (!value.IsMap() || !absl::ConsumePrefix(&path, ".")) return location;
    // Keys may contain dots, so take the longest one that matches. Of equal keys, take the last.
    auto best = value.end();
    size_t best_size = 0;
    for (auto entry = value.begin(); entry != value.end(); ++entry) {
      const std::string key = base::EscapeForError(entry->first.Scalar());
      absl::string_view rest = path;
      if (!absl::ConsumePrefix(&rest, key) || key.size() < best_size) continue;
      if (!rest.empty() && rest.front() != '.' && rest.front() != '[') continue;
      best = entry;
      best_size = key.size();
    }
    if (best == value.end()) return location;
    return FindLocation(best->first, best->second, path.substr(best_size));
  }

  // Returns the entry of a task's map that is invalid by itself. Returns `location` if there is
  // none, for example if there are too many entries.
  static YAML::Node WrongEntryLocation(const std::string& field, const YAML::Node& value,
                                       const YAML::Node& location) {
    const auto is_wrong = [&field](const YAML::Node& map) {
      return !ReadTaskFields({{"prompt", YAML::Node("p")}, {field, map}}).ok();
    };
    // The value is not a map, or the field does not allow a map.
    if (!value.IsMap() || is_wrong(YAML::Node(YAML::NodeType::Map))) return location;
    for (const auto& entry : value) {
      YAML::Node alone(YAML::NodeType::Map);
      alone[entry.first.Scalar()] = entry.second.Scalar();
      if (is_wrong(alone)) return entry.first;
    }
    return location;
  }

  // Checks the submit of a backfill, which has the longest request ids.
  static absl::Status CheckLongestSubmit(const core::Job& job) {
    return CheckSubmit(wire::ToProto(core::MakeJobSubmission(
        job,
        core::BackfillRequestId(job.name, std::string(core::kCallNameBytesMax, 'x'),
                                absl::FromUnixSeconds(std::numeric_limits<int64_t>::min())),
        job.overlap)));
  }

  // Returns the path of the field that an error names; empty if it names none.
  static std::string ErrorField(const absl::Status& error) {
    const base::ErrorDetails details = base::GetErrorDetails(error);
    const auto field = details.metadata.find("field");
    if (field != details.metadata.end()) return field->second;
    return details.field_violations.empty() ? "" : details.field_violations.begin()->first;
  }

  bool IsTaskField(const std::string& key) const {
    return std::find(task_fields_.begin(), task_fields_.end(), key) != task_fields_.end();
  }
  std::vector<std::string> KeyNames() const {
    std::vector<std::string> names;
    for (const JobKey& key : kJobKeys) names.push_back(key.name);
    names.insert(names.end(), task_fields_.begin(), task_fields_.end());
    return names;
  }

  absl::Status KeyError(absl::string_view key, absl::string_view what) const {
    return InvalidFile(
        absl::StrCat(job_.empty() ? "a job" : absl::StrCat("job ", base::EscapeForError(job_)),
                     ": ", key, key.empty() ? "" : ": ", what));
  }
  // The mark of an empty document has no line.
  static int LineOf(const YAML::Node& node) { return std::max(node.Mark().line, 0) + 1; }
  absl::Status AtLocation(const YAML::Node& node, const absl::Status& error) const {
    return InvalidFile(absl::StrCat(path_, ":", LineOf(node), ": ", error.message()));
  }

  const std::string& path_;
  const std::vector<std::string> task_fields_ = TaskFieldNames();
  // The job that is being read.
  std::string job_;
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
