#include "libs/core/job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/core/hash.h"

namespace callboard::core {
namespace {

absl::Status FieldError(const Job& job, absl::string_view field, absl::string_view problem) {
  return base::WithFieldViolation(
      absl::InvalidArgumentError(
          absl::StrCat("job ", base::EscapeForError(job.name), ": ", field, " ", problem)),
      field, problem);
}

}  // namespace

absl::Status CheckName(absl::string_view name, size_t bytes_max, absl::string_view what) {
  const bool is_plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
  });
  if (!name.empty() && name.size() <= bytes_max && is_plain) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " \"", base::EscapeForError(name),
                                                 "\" must have 1 to ", bytes_max,
                                                 " letters, digits, '.', '_' or '-'"));
}

absl::Status CheckJob(const Job& job) {
  if (absl::Status status = CheckName(job.name, kJobNameBytesMax, "job: name"); !status.ok()) {
    return base::WithFieldViolation(status, "name", status.message());
  }
  const bool all = job.catch_up.kind == CatchUp::Kind::kAll;
  if (all && (job.catch_up.count == 0 || job.catch_up.count > kCatchUpMax)) {
    return FieldError(job, "catch_up", absl::StrCat("all: must be 1 to ", kCatchUpMax));
  }
  if (job.queue_full_wait < absl::ZeroDuration() || job.queue_full_wait > kQueueFullWaitMax) {
    return FieldError(
        job, "on_queue_full",
        absl::StrCat("wait: must be at most ", absl::FormatDuration(kQueueFullWaitMax)));
  }
  if (job.jitter < absl::ZeroDuration() || job.jitter > kJitterMax) {
    return FieldError(job, "jitter",
                      absl::StrCat("must be at most ", absl::FormatDuration(kJitterMax)));
  }
  if (job.start >= job.end) return FieldError(job, "end", "must be after start");
  return absl::OkStatus();
}

bool HaveSameTimes(const Job& one, const Job& other) {
  return one.text.expressions == other.text.expressions && one.text.seconds == other.text.seconds &&
         one.text.hash_key == other.text.hash_key && one.text.anchor == other.text.anchor &&
         one.time_zone == other.time_zone && one.start == other.start && one.end == other.end;
}

std::optional<Occurrence> NextOccurrence(const Job& job, absl::Time after) {
  std::optional<Occurrence> next =
      job.schedule.NextAfter(std::max(after, job.start - absl::Nanoseconds(1)));
  if (!next.has_value() || next->at >= job.end) return std::nullopt;
  return next;
}

std::optional<Occurrence> PreviousOccurrence(const Job& job, absl::Time before) {
  std::optional<Occurrence> last = job.schedule.LastBefore(std::min(before, job.end));
  if (!last.has_value() || last->at < job.start) return std::nullopt;
  return last;
}

std::optional<Occurrence> NextFiringOccurrence(const Job& job, absl::Time after) {
  std::optional<Occurrence> next = NextOccurrence(job, after);
  while (next.has_value() && !next->Fires()) next = NextOccurrence(job, next->at);
  return next;
}

std::vector<Occurrence> ListOccurrences(const Job& job, absl::Time from, absl::Time until,
                                        size_t count_max) {
  std::vector<Occurrence> occurrences;
  for (auto next = NextOccurrence(job, from - absl::Nanoseconds(1));
       next.has_value() && next->at < until && occurrences.size() < count_max;
       next = NextOccurrence(job, next->at)) {
    occurrences.push_back(*next);
  }
  return occurrences;
}

absl::Duration OccurrenceJitter(const Job& job, const Occurrence& occurrence) {
  absl::Duration max = job.jitter;
  if (max <= absl::ZeroDuration() || !occurrence.Fires()) return absl::ZeroDuration();
  if (const auto next = NextOccurrence(job, occurrence.at)) {
    max = std::min(max, next->at - occurrence.at);
  }
  const uint64_t hash = StableHash()
                            .Add(job.name)
                            .Add(static_cast<uint64_t>(absl::ToUnixSeconds(occurrence.at)))
                            .value();
  return absl::Milliseconds(hash % std::max<int64_t>(1, absl::ToInt64Milliseconds(max)));
}

std::string CronRequestId(absl::string_view job, absl::Time nominal) {
  return absl::StrCat("cron/", job, "/", absl::ToUnixSeconds(nominal));
}

std::string TriggerRequestId(absl::string_view job, absl::string_view trigger) {
  return absl::StrCat("trigger/", job, "/", trigger);
}

std::string BackfillRequestId(absl::string_view job, absl::string_view backfill,
                              absl::Time nominal) {
  return absl::StrCat("backfill/", job, "/", backfill, "/", absl::ToUnixSeconds(nominal));
}

JobSubmission MakeJobSubmission(const Job& job, std::string request_id, OverlapPolicy overlap) {
  return {.job = job.name,
          .task = job.task,
          .request_id = std::move(request_id),
          .overlap = {.key = job.name, .policy = overlap}};
}

}  // namespace callboard::core
