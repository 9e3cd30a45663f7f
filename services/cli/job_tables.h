// Cron jobs and their occurrences for people.
#ifndef CALLBOARD_SERVICES_CLI_JOB_TABLES_H_
#define CALLBOARD_SERVICES_CLI_JOB_TABLES_H_

#include <string>

#include "callboard/v1/scheduler.pb.h"

namespace callboard::cli {

// A line for each.
std::string JobsTable(const v1::ListJobsResponse& jobs);
// That a jobs file is right, and how many jobs it has.
std::string CheckedText(const std::string& path, const v1::ListJobsResponse& jobs);
// What is wrong with the newest version of the jobs file; empty when nothing is.
std::string FileErrorText(const v1::SchedulerStatus& status);
// One with everything that is in force for it, its next occurrences and what became of the last.
std::string JobTable(const v1::Job& job);
// Of a pause that has begun.
std::string PausedText(const v1::Job& job);
std::string ResumedText(const v1::ResumeJobResponse& response);
// `request` had the limit that it may end at.
std::string PreviewTable(const v1::PreviewJobRequest& request,
                         const v1::PreviewJobResponse& response);
std::string BackfillText(const v1::BackfillJobRequest& request,
                         const v1::BackfillJobResponse& response);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_JOB_TABLES_H_
