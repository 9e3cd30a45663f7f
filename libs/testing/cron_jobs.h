// Cron jobs for tests, in as few words as they need.
#ifndef CALLBOARD_LIBS_TESTING_CRON_JOBS_H_
#define CALLBOARD_LIBS_TESTING_CRON_JOBS_H_

#include <algorithm>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "libs/base/check.h"
#include "libs/core/job.h"

namespace callboard::test {

// Of five fields, or of six when it has so many; in UTC unless told otherwise.
inline core::Job CronJob(const std::string& name, const std::string& expression,
                         const std::string& zone_name = "UTC") {
  absl::TimeZone zone;
  CHECK(absl::LoadTimeZone(zone_name, &zone)) << zone_name;
  core::ScheduleText text = {.expressions = {expression}, .hash_key = name};
  text.seconds = std::count(expression.begin(), expression.end(), ' ') == 5;
  absl::StatusOr<core::Schedule> schedule = core::Schedule::Parse(text, zone);
  CHECK(schedule.ok()) << schedule.status().ToString();
  core::Job job = {.name = name, .schedule = *std::move(schedule)};
  job.text = std::move(text);
  job.time_zone = zone_name;
  job.task.prompt = "do it";
  return job;
}

// "2026-01-05 00:10:00" in UTC.
inline absl::Time At(const std::string& text) {
  absl::Time time;
  std::string error;
  CHECK(absl::ParseTime("%Y-%m-%d %H:%M:%S", text, &time, &error)) << error;
  return time;
}

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_CRON_JOBS_H_
