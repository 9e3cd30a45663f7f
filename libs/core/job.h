// A cron job as its file declares it: when it happens, what it submits, and what to do when that
// cannot be done.
#ifndef CALLBOARD_LIBS_CORE_JOB_H_
#define CALLBOARD_LIBS_CORE_JOB_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/core/limits.h"
#include "libs/core/schedule.h"
#include "libs/core/task.h"

namespace callboard::core {

inline constexpr absl::Duration kJitterMax = absl::Seconds(kJitterSecondsMax);
inline constexpr absl::Duration kQueueFullWaitMax = absl::Seconds(kQueueFullWaitSecondsMax);
static_assert(kJobNameBytesMax + kCallNameBytesMax + sizeof("backfill///-9223372036854775808") <=
                  kRequestIdBytesMax,
              "every request id of a job is one");

// What to do about occurrences that were missed.
struct CatchUp {
  enum class Kind {
    // Run the last one, if it is not older than a day.
    kLatest,
    // Run none that is late.
    kNone,
    // Run the last `count`, in their order.
    kAll,
  };

  Kind kind = Kind::kLatest;
  uint32_t count = 0;

  friend bool operator==(const CatchUp&, const CatchUp&) = default;
};

struct Job {
  std::string name = {};
  // What `text` and `time_zone` say.
  Schedule schedule = {};
  ScheduleText text = {};
  // IANA name; UTC when empty.
  std::string time_zone = {};
  OverlapPolicy overlap = OverlapPolicy::kSkip;
  CatchUp catch_up = {};
  // How long an occurrence waits for a place in a full queue; zero to skip it.
  absl::Duration queue_full_wait = {};
  // An occurrence is submitted later by less than this, by the same each time.
  absl::Duration jitter = {};
  // There are no occurrences before the first and from the second on.
  absl::Time start = absl::InfinitePast();
  absl::Time end = absl::InfiniteFuture();
  // Occurrences that may run; 0 for no limit.
  uint32_t max_runs = 0;
  bool paused = false;
  // Failures in a row after which it is paused; 0 for never.
  uint32_t pause_after_failures = 0;
  // Where to start a task when the director cannot be reached, past the queue; nowhere when empty.
  std::string agent_url = {};
  // What each occurrence asks for; without request id, source and overlap.
  TaskSpec task = {};
  // Where effective values come from, by field: `file` or `default`.
  std::map<std::string, std::string> origins = {};
};

// Whether it stays within the limits: INVALID_ARGUMENT with a field violation that names the key of
// its file.
absl::Status CheckJob(const Job& job);
// Of jobs, triggers and backfills: letters, digits, `.`, `_` and `-`. `what` is for the message.
absl::Status CheckName(absl::string_view name, size_t bytes_max, absl::string_view what);

// Whether two versions of a job happen at the same times.
bool HaveSameTimes(const Job& one, const Job& other);

// The nearest occurrence of the job strictly after, or strictly before `time`, those that do not
// fire included.
std::optional<Occurrence> NextOf(const Job& job, absl::Time after);
std::optional<Occurrence> LastOf(const Job& job, absl::Time before);
// The nearest occurrence strictly after `after` that fires. Only such a one ends the wait of the
// occurrence before it: a suppressed or skipped one runs nothing in its place.
std::optional<Occurrence> NextFiringOf(const Job& job, absl::Time after);

// Those from the first to, not including, the second; at most so many.
std::vector<Occurrence> OccurrencesOf(const Job& job, absl::Time from, absl::Time until,
                                      size_t most);

// How much later an occurrence is submitted: less than the jitter, and before the next one.
absl::Duration JitterOf(const Job& job, const Occurrence& occurrence);

std::string CronRequestId(absl::string_view job, absl::Time nominal);
std::string TriggerRequestId(absl::string_view job, absl::string_view trigger);
std::string BackfillRequestId(absl::string_view job, absl::string_view backfill,
                              absl::Time nominal);

// A submit of the job under that request id.
Submission SubmissionOf(const Job& job, std::string request_id, OverlapPolicy overlap);

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_JOB_H_
