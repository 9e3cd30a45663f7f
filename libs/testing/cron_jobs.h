// Cron jobs for tests.
#ifndef CALLBOARD_LIBS_TESTING_CRON_JOBS_H_
#define CALLBOARD_LIBS_TESTING_CRON_JOBS_H_

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "callboard/v1/queue.pb.h"
#include "libs/base/check.h"
#include "libs/core/job.h"

namespace callboard::test {

// Returns the task of a job as its file declares it.
inline core::JobTask JobTaskOf(v1::SubmitTaskRequest task, const std::string& job) {
  task.set_source("scheduler");
  task.set_source_job(job);
  return std::make_shared<const std::string>(task.SerializeAsString());
}
inline core::JobTask JobTaskOf(const std::string& prompt, const std::string& job) {
  v1::SubmitTaskRequest task;
  task.set_prompt(prompt);
  return JobTaskOf(std::move(task), job);
}

// Returns a job with the cron expression `expression`, of five or six fields.
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
  job.task = JobTaskOf("do it", name);
  return job;
}

// Parses a UTC time such as "2026-01-05 00:10:00".
inline absl::Time At(const std::string& text) {
  absl::Time time;
  std::string error;
  CHECK(absl::ParseTime("%Y-%m-%d %H:%M:%S", text, &time, &error)) << error;
  return time;
}

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_CRON_JOBS_H_
