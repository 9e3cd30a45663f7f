// Limits on the sizes of values and collections. Every other bound follows from one of these.
#ifndef CALLBOARD_LIBS_CORE_LIMITS_H_
#define CALLBOARD_LIBS_CORE_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace callboard::core {

// A prompt and its payload together.
inline constexpr size_t kBodyBytesMax = 1024 * 1024;
inline constexpr size_t kEnvEntriesMax = 64;
// Names and values of an environment together.
inline constexpr size_t kEnvBytesMax = 32 * 1024;
inline constexpr size_t kLabelsMax = 32;
inline constexpr size_t kRequestIdBytesMax = 128;
// Names, keys and labels that users choose and filter by.
inline constexpr size_t kNameBytesMax = 256;
inline constexpr size_t kPathBytesMax = 4096;
// The result of a run. Only the end of a longer result is kept.
inline constexpr size_t kResultBytesMax = 64 * 1024;
// A human-readable error.
inline constexpr size_t kErrorBytesMax = 4096;
inline constexpr size_t kRetryRulesMax = 32;
inline constexpr size_t kConstraintsMax = 8;
inline constexpr uint32_t kMaxAttemptsMax = 100;
inline constexpr uint32_t kCostUnitsMax = 100;
inline constexpr uint32_t kOverlapMax = 1000;
// 30 days.
inline constexpr uint32_t kRunSecondsMax = 30 * 24 * 3600;

// Tickets, which reserve places in the queue: in a queue without a bound, and of one caller in any
// queue.
inline constexpr uint32_t kTicketsMax = 1000;
inline constexpr uint32_t kTicketsPerCallerMax = 4;
// Lifetime of a ticket: the default and the maximum.
inline constexpr uint32_t kTicketSeconds = 30;
inline constexpr uint32_t kTicketSecondsMax = 300;
// Tasks that one call can redrive.
inline constexpr uint32_t kRedrivesMax = 1000;
// Expressions of a schedule, and the length of each.
inline constexpr size_t kCronsMax = 32;
inline constexpr size_t kCronBytesMax = 256;
// Longest period of `@every`: one year.
inline constexpr uint32_t kEverySecondsMax = 366 * 24 * 3600;
// Jobs in a file, and the lengths of the names of jobs, triggers and backfills. The names are short
// enough to be parts of a request id.
inline constexpr size_t kJobsMax = 10'000;
inline constexpr size_t kJobNameBytesMax = 64;
inline constexpr size_t kCallNameBytesMax = 32;
// Missed occurrences that `catch_up: all` can run.
inline constexpr uint32_t kCatchUpMax = 100;
inline constexpr uint32_t kJitterSecondsMax = 24 * 3600;
inline constexpr uint32_t kQueueFullWaitSecondsMax = 24 * 3600;
// Occurrences that one call previews, and that one backfill runs.
inline constexpr int kPreviewMax = 1000;
inline constexpr size_t kBackfillOccurrencesMax = 1000;
// Backfills that the scheduler keeps.
inline constexpr size_t kBackfillsMax = 100;
// Items on one page of a list.
inline constexpr int kPageSizeMax = 1000;
// Tasks in one message of SubmitTasks, and tasks in one WatchTasks call.
inline constexpr size_t kSubmitItemsMax = 1000;
inline constexpr size_t kWatchedTasksMax = 1000;
inline constexpr size_t kCheckpointNameBytesMax = 128;
// Agents that the director keeps.
inline constexpr size_t kAgentsMax = 10'000;
// Features that one end of a Session announces.
inline constexpr int kFeaturesMax = 64;
// Agents that have announced themselves and have not been reached by a Session yet.
inline constexpr ptrdiff_t kUnreachedAgentsMax = 1'000;
// host:port of an agent.
inline constexpr size_t kAddressBytesMax = 249;
static_assert(sizeof("grpc://") - 1 + kAddressBytesMax <= kNameBytesMax,
              "an address with its scheme is a name");
inline constexpr size_t kAgentLanesMax = 64;
inline constexpr uint32_t kLaneSlotsMax = 1000;
// Request ids that are kept after their tasks have been deleted.
inline constexpr size_t kRememberedRequestsMax = 1'000'000;

inline constexpr size_t kMessageBytesMax = 4 * 1024 * 1024;
static_assert(kBodyBytesMax + kEnvBytesMax + 2 * kLabelsMax * 2 * kNameBytesMax < kMessageBytesMax,
              "a task within its limits fits into a message");

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_LIMITS_H_
