#include "libs/adapters/jobs_file/job_reader.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "libs/adapters/jobs_file/task_fields.h"
#include "libs/adapters/jobs_file/time_zone.h"
#include "libs/adapters/jobs_file/yaml_text.h"
#include "libs/base/error.h"
#include "libs/base/nearest.h"
#include "libs/base/status_macros.h"
#include "libs/base/text.h"
#include "libs/core/host_port.h"
#include "libs/core/supported.h"
#include "libs/wire/task.h"
#include "libs/wire/time.h"

namespace callboard::adapters {
namespace {

absl::Status Wrong(absl::string_view what) { return absl::InvalidArgumentError(what); }

// ---- Single values ----

absl::StatusOr<std::string> ReadText(const YAML::Node& value) {
  if (!value.IsScalar()) return Wrong("wanted one value");
  return value.Scalar();
}

absl::StatusOr<bool> ReadBool(const YAML::Node& value) {
  if (value.IsScalar() && value.Scalar() == "true") return true;
  if (value.IsScalar() && value.Scalar() == "false") return false;
  return Wrong("wanted true or false");
}

absl::StatusOr<uint32_t> ReadNumber(const YAML::Node& value) {
  uint32_t number = 0;
  if (value.IsScalar() && absl::SimpleAtoi(value.Scalar(), &number)) return number;
  return Wrong(absl::StrCat("wanted a whole number in 0..", std::numeric_limits<uint32_t>::max()));
}

absl::StatusOr<absl::Duration> ReadDuration(const YAML::Node& value) {
  absl::Duration duration;
  if (value.IsScalar() && absl::ParseDuration(value.Scalar(), &duration) &&
      duration >= absl::ZeroDuration() && duration < absl::InfiniteDuration()) {
    return duration;
  }
  return Wrong("wanted a time span, as 90s, 5m or 1h30m");
}

absl::StatusOr<absl::Time> ReadTime(const YAML::Node& value) {
  const std::optional<absl::Time> time =
      value.IsScalar() ? wire::ParseTime(value.Scalar()) : std::nullopt;
  if (!time.has_value()) return Wrong("wanted a time, as 2026-01-31T08:00:00Z");
  return *time;
}

absl::StatusOr<absl::Time> ReadStart(const YAML::Node& value) {
  ASSIGN_OR_RETURN(const absl::Time time, ReadTime(value));
  const int64_t year = absl::ToCivilYear(time, absl::UTCTimeZone()).year();
  if (year >= core::kScheduleFirstYear && year < core::kScheduleEndYear) return time;
  return Wrong(absl::StrCat("wanted a time of the years ", core::kScheduleFirstYear, " to ",
                            core::kScheduleEndYear - 1));
}

// One, or a list of them.
absl::StatusOr<std::vector<std::string>> ReadTexts(const YAML::Node& value) {
  if (value.IsScalar()) return std::vector<std::string>{value.Scalar()};
  if (!value.IsSequence() || value.size() == 0) return Wrong("wanted an expression, or a list");
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
  return Wrong("wanted skip, queue_one or allow");
}

// The value of a map that has this key and no other.
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
  return Wrong("wanted latest, none, or all: with how many");
}

absl::StatusOr<absl::Duration> ReadQueueFull(const YAML::Node& value) {
  if (const std::optional<YAML::Node> wait = OnlyValue(value, "wait")) return ReadDuration(*wait);
  if (value.IsScalar() && value.Scalar() == "skip") return absl::ZeroDuration();
  return Wrong("wanted skip, or wait: with how long");
}

absl::StatusOr<std::string> ReadAgentUrl(const YAML::Node& value) {
  ASSIGN_OR_RETURN(std::string url, ReadText(value));
  absl::string_view address = url;
  if (!absl::ConsumePrefix(&address, "grpc://") || !core::IsHostPort(address)) {
    return Wrong("wanted grpc://host:port");
  }
  return url;
}

// ---- A job ----

using ReadKey = absl::Status (*)(const YAML::Node& value, core::Job& job);

// Reads a value with `Read` into the member `Field`.
template <auto Read, auto Field>
absl::Status Into(const YAML::Node& value, core::Job& job) {
  ASSIGN_OR_RETURN(job.*Field, Read(value));
  return absl::OkStatus();
}

struct OwnKey {
  const char* name;
  ReadKey read;
};

// The keys that are not the task's, in the order in which they are told.
constexpr OwnKey kOwnKeys[] = {
    {"name", Into<ReadText, &core::Job::name>},
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
    {"time_zone", Into<ReadText, &core::Job::time_zone>},
    {"overlap", Into<ReadOverlap, &core::Job::overlap>},
    {"catch_up", Into<ReadCatchUp, &core::Job::catch_up>},
    {"on_queue_full", Into<ReadQueueFull, &core::Job::queue_full_wait>},
    {"jitter", Into<ReadDuration, &core::Job::jitter>},
    {"start", Into<ReadStart, &core::Job::start>},
    {"end", Into<ReadTime, &core::Job::end>},
    {"max_runs", Into<ReadNumber, &core::Job::max_runs>},
    {"paused", Into<ReadBool, &core::Job::paused>},
    {"pause_after_failures", Into<ReadNumber, &core::Job::pause_after_failures>},
    {"agent_url", Into<ReadAgentUrl, &core::Job::agent_url>},
};

const OwnKey* FindOwnKey(absl::string_view name) {
  const auto* found = std::find_if(std::begin(kOwnKeys), std::end(kOwnKeys),
                                   [name](const OwnKey& key) { return key.name == name; });
  return found == std::end(kOwnKeys) ? nullptr : found;
}

std::string UnknownKeyText(const std::string& key, const std::vector<std::string>& known) {
  const std::string nearest = base::Nearest(key, known);
  return absl::StrCat("there is no key '", base::Echoed(key), "'; ",
                      nearest.empty() ? absl::StrCat("keys are ", absl::StrJoin(known, ", "))
                                      : absl::StrCat("did you mean '", nearest, "'?"));
}

// Reads the file from its top, and knows for every error where it is.
class FileReader {
 public:
  explicit FileReader(const std::string& path) : path_(path) {}

  absl::StatusOr<std::vector<core::Job>> Read(const YAML::Node& document) {
    if (document.IsNull()) return At(document, NoJobs());
    if (!document.IsMap()) return At(document, Wrong("wanted a map with the key 'jobs'"));
    std::vector<core::Job> jobs;
    bool seen = false;
    for (const auto& entry : document) {
      const std::string key = entry.first.Scalar();
      if (key != "jobs") return At(entry.first, Wrong(UnknownKeyText(key, {"jobs"})));
      if (std::exchange(seen, true)) return At(entry.first, Wrong("jobs: is there twice"));
      if (entry.second.IsNull()) return At(entry.first, NoJobs());
      ASSIGN_OR_RETURN(jobs, ReadList(entry.first, entry.second));
    }
    if (!seen) return At(document, NoJobs());
    return jobs;
  }

 private:
  // A file that lost its jobs must not be taken for one that wants none.
  static absl::Status NoJobs() {
    return Wrong("it has no jobs; write `jobs: []` if there are to be none");
  }

  absl::StatusOr<std::vector<core::Job>> ReadList(const YAML::Node& key, const YAML::Node& list) {
    if (!list.IsSequence()) {
      return At(key, Wrong("jobs: wanted a list, whose entries begin with - name:"));
    }
    if (list.size() > core::kJobsMax) {
      return At(key, Wrong(absl::StrCat("jobs: has ", list.size(), " entries, at most ",
                                        core::kJobsMax, " are allowed")));
    }
    std::vector<core::Job> jobs;
    std::map<std::string, int> lines;
    for (const YAML::Node& node : list) {
      ASSIGN_OR_RETURN(core::Job job, ReadJob(node));
      const auto [first, is_new] = lines.emplace(job.name, LineOf(node));
      if (!is_new) {
        return At(node, Wrong(absl::StrCat("job ", job.name, ": is declared in line ",
                                           first->second, " already")));
      }
      jobs.push_back(std::move(job));
    }
    return jobs;
  }

  absl::StatusOr<core::Job> ReadJob(const YAML::Node& node) {
    if (!node.IsMap()) return At(node, Wrong("jobs: wanted a map, which begins with name:"));
    // What errors are told with; it is checked in its turn.
    const YAML::Node name = node["name"];
    job_ = name.IsDefined() && name.IsScalar() ? name.Scalar() : "";
    std::map<std::string, YAML::Node> keys;
    std::map<std::string, YAML::Node> task;
    core::Job job;
    for (const auto& entry : node) {
      const std::string key = entry.first.Scalar();
      if (!keys.emplace(key, entry.first).second) return At(entry.first, Of(key, "is there twice"));
      if (const OwnKey* own = FindOwnKey(key); own != nullptr) {
        if (absl::Status status = own->read(entry.second, job); !status.ok()) {
          return At(OwnPlace(entry.first, entry.second), Of(key, status.message()));
        }
      } else if (IsTaskField(key)) {
        task.emplace(key, entry.second);
      } else {
        return At(entry.first, Of("", UnknownKeyText(key, KeyNames())));
      }
    }
    return Finish(std::move(job), node, keys, task);
  }

  absl::StatusOr<core::Job> Finish(core::Job job, const YAML::Node& node,
                                   const std::map<std::string, YAML::Node>& keys,
                                   const std::map<std::string, YAML::Node>& task) {
    // The place that a path as `retry_on[3]` leads to, or the job when it has no key of that name.
    const auto place = [&](const std::string& path) {
      const std::string key = path.substr(0, path.find_first_of(".["));
      const auto found = keys.find(key);
      if (found == keys.end()) return node;
      if (FindOwnKey(key) != nullptr) return OwnPlace(found->second, node[key]);
      return PlaceIn(found->second, node[key], absl::string_view(path).substr(key.size()));
    };
    for (const char* required : {"name", "schedule"}) {
      if (!keys.contains(required)) return At(node, Of(required, "is required"));
    }
    job.text.hash_key = job.name;
    if (job.start != absl::InfinitePast()) job.text.anchor = job.start;
    const absl::StatusOr<absl::TimeZone> zone = LoadZone(job.time_zone);
    if (!zone.ok()) return At(place("time_zone"), Of("time_zone", zone.status().message()));
    absl::StatusOr<core::Schedule> schedule = core::Schedule::Parse(job.text, *zone);
    if (!schedule.ok()) {
      return At(ExpressionPlace(job, node["schedule"], place("schedule"), *zone),
                Of("schedule", schedule.status().message()));
    }
    absl::StatusOr<core::TaskSpec> spec = ReadTaskFields(task);
    if (!spec.ok()) {
      const std::string field = FieldIn(spec.status());
      const auto found = task.find(field);
      return At(found == task.end() ? place(field) : EntryPlace(field, found->second, place(field)),
                Of("", spec.status().message()));
    }
    job.schedule = *std::move(schedule);
    job.task = *std::move(spec);
    for (const OwnKey& key : kOwnKeys) {
      job.origins[key.name] = keys.contains(key.name) ? "file" : "default";
    }
    if (absl::Status status = core::CheckJob(job); !status.ok()) {
      return At(place(FieldIn(status)), status);
    }
    if (absl::Status status = CheckSubmit(job); !status.ok()) {
      return At(place(FieldIn(status)), Of("", status.message()));
    }
    return job;
  }

  // The expression that is wrong, or the key when none is alone.
  static YAML::Node ExpressionPlace(const core::Job& job, const YAML::Node& value,
                                    const YAML::Node& key, absl::TimeZone zone) {
    for (size_t i = 0; value.IsSequence() && i < value.size(); ++i) {
      core::ScheduleText one = job.text;
      one.expressions = {job.text.expressions[i]};
      if (!core::Schedule::Parse(one, zone).ok()) return value[i];
    }
    return key;
  }

  // The part of the value of one of our own keys that is wrong, or the key.
  static YAML::Node OwnPlace(const YAML::Node& key, const YAML::Node& value) {
    if (value.IsMap() && value.size() == 1) return value.begin()->first;
    for (size_t i = 0; value.IsSequence() && i < value.size(); ++i) {
      if (!value[i].IsScalar()) return value[i];
    }
    return key;
  }

  // The element or entry of `value` that `path`, as `[3]` or `.LEVEL`, leads to; `place` where the
  // path ends or leads nowhere.
  static YAML::Node PlaceIn(const YAML::Node& place, const YAML::Node& value,
                            absl::string_view path) {
    size_t index = 0;
    const size_t end = path.find(']');
    if (value.IsSequence() && absl::ConsumePrefix(&path, "[") && end != absl::string_view::npos &&
        absl::SimpleAtoi(path.substr(0, end - 1), &index) && index < value.size()) {
      return PlaceIn(value[index], value[index], path.substr(end));
    }
    if (!value.IsMap() || !absl::ConsumePrefix(&path, ".")) return place;
    // Keys may have dots: the longest one that fits; and the last one, when it is there twice.
    auto best = value.end();
    size_t best_size = 0;
    for (auto entry = value.begin(); entry != value.end(); ++entry) {
      const std::string key = base::Echoed(entry->first.Scalar());
      absl::string_view rest = path;
      if (!absl::ConsumePrefix(&rest, key) || key.size() < best_size) continue;
      if (!rest.empty() && rest.front() != '.' && rest.front() != '[') continue;
      best = entry;
      best_size = key.size();
    }
    if (best == value.end()) return place;
    return PlaceIn(best->first, best->second, path.substr(best_size));
  }

  // The entry of a map of the task that is wrong also when it is the only one; `place` when there
  // is none, as when there are too many.
  static YAML::Node EntryPlace(const std::string& field, const YAML::Node& value,
                               const YAML::Node& place) {
    const auto is_wrong = [&field](const YAML::Node& map) {
      return !ReadTaskFields({{"prompt", YAML::Node("p")}, {field, map}}).ok();
    };
    // Not a map at all, or one where none belongs.
    if (!value.IsMap() || is_wrong(YAML::Node(YAML::NodeType::Map))) return place;
    for (const auto& entry : value) {
      YAML::Node alone(YAML::NodeType::Map);
      alone[entry.first.Scalar()] = entry.second.Scalar();
      if (is_wrong(alone)) return entry.first;
    }
    return place;
  }

  // Whether the director would take what an occurrence submits. Its longest request id is that of a
  // backfill.
  static absl::Status CheckSubmit(const core::Job& job) {
    const core::Submission submission = core::SubmissionOf(
        job,
        core::BackfillRequestId(job.name, std::string(core::kCallNameBytesMax, 'x'),
                                absl::FromUnixSeconds(std::numeric_limits<int64_t>::min())),
        job.overlap);
    RETURN_IF_ERROR(wire::FromProto(wire::ToProto(submission)).status());
    return core::CheckSupported(submission.spec);
  }

  // The path to the value that the message of an error is about; empty when it does not say.
  static std::string FieldIn(const absl::Status& error) {
    const base::ErrorDetails details = base::DetailsOf(error);
    const auto field = details.metadata.find("field");
    if (field != details.metadata.end()) return field->second;
    return details.field_violations.empty() ? "" : details.field_violations.begin()->first;
  }

  bool IsTaskField(const std::string& key) const {
    return std::find(task_fields_.begin(), task_fields_.end(), key) != task_fields_.end();
  }
  std::vector<std::string> KeyNames() const {
    std::vector<std::string> names;
    for (const OwnKey& key : kOwnKeys) names.push_back(key.name);
    names.insert(names.end(), task_fields_.begin(), task_fields_.end());
    return names;
  }

  absl::Status Of(absl::string_view key, absl::string_view what) const {
    return Wrong(absl::StrCat(job_.empty() ? "a job" : absl::StrCat("job ", base::Echoed(job_)),
                              ": ", key, key.empty() ? "" : ": ", what));
  }
  // The mark of a document without anything has no line.
  static int LineOf(const YAML::Node& node) { return std::max(node.Mark().line, 0) + 1; }
  absl::Status At(const YAML::Node& node, const absl::Status& error) const {
    return Wrong(absl::StrCat(path_, ":", LineOf(node), ": ", error.message()));
  }

  const std::string& path_;
  const std::vector<std::string> task_fields_ = TaskFieldNames();
  // The name of the job that is being read.
  std::string job_;
};

}  // namespace

absl::StatusOr<std::vector<core::Job>> ReadJobs(const std::string& text, const std::string& path) {
  const auto wrong_at = [&](int line, absl::string_view what) {
    const std::string job = JobAtLine(text, line);
    return Wrong(absl::StrCat(path, ":", line, ": ", job.empty() ? "" : "job ", base::Echoed(job),
                              job.empty() ? "" : ": ", what));
  };
  if (const std::optional<TextError> bad = FindBadByte(text)) return wrong_at(bad->line, bad->what);
  // yaml-cpp speaks in exceptions; this is where they end.
  try {
    if (const std::optional<TextError> open = FindUnclosedQuote(text)) {
      return wrong_at(open->line, open->what);
    }
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1) {
      return Wrong(absl::StrCat(path, ":", documents[1].Mark().line + 1,
                                ": wanted one document, found another behind `---`"));
    }
    return FileReader(path).Read(documents.empty() ? YAML::Node() : documents[0]);
  } catch (const YAML::Exception& error) {
    const int line = error.mark.line + 1;
    return wrong_at(line, absl::StrCat(base::Echoed(error.msg), QuoteAdvice(text, line)));
  }
}

}  // namespace callboard::adapters
