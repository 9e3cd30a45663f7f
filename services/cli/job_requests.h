// What the commands about cron jobs ask for.
#ifndef CALLBOARD_SERVICES_CLI_JOB_REQUESTS_H_
#define CALLBOARD_SERVICES_CLI_JOB_REQUESTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "callboard/v1/scheduler.pb.h"

namespace callboard::cli {

// What is said to one command alone.
struct JobArguments {
  std::string job = {};
  // Of `jobs check`.
  std::string file = {};
  bool force = false;
  std::string trigger_id = {};
  std::vector<std::string> schedules = {};
  std::string time_zone = {};
  bool seconds = false;
  std::string from = {};
  std::string until = {};
  int32_t limit = 10;
  bool dry_run = false;
  std::string backfill_id = {};
  std::string why = {};
};

// `text` as RFC 3339, or as a date, which is its midnight in UTC. A usage error names `flag`.
absl::StatusOr<absl::Time> InstantFrom(absl::string_view flag, const std::string& text);

// Each with a usage error for what contradicts itself.
absl::StatusOr<v1::PreviewJobRequest> PreviewRequest(const JobArguments& arguments);
absl::StatusOr<v1::PauseJobRequest> PauseRequest(const JobArguments& arguments);
// Repeatable also when no id was given: `made_up_id` is used then.
v1::TriggerJobRequest TriggerRequest(const JobArguments& arguments, const std::string& made_up_id);
absl::StatusOr<v1::BackfillJobRequest> BackfillRequest(const JobArguments& arguments,
                                                       const std::string& made_up_id);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_JOB_REQUESTS_H_
