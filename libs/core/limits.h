// How large things may be. What is not bounded here is bounded by one of these.
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
// Names, keys and labels: whatever people choose and filter by.
inline constexpr size_t kNameBytesMax = 256;
inline constexpr size_t kPathBytesMax = 4096;
// What a run produced; the end of it when there is more.
inline constexpr size_t kResultBytesMax = 64 * 1024;
// What went wrong, for people.
inline constexpr size_t kErrorBytesMax = 4096;
inline constexpr size_t kRetryRulesMax = 32;
inline constexpr size_t kConstraintsMax = 8;
inline constexpr uint32_t kMaxAttemptsMax = 100;
inline constexpr uint32_t kCostUnitsMax = 100;
inline constexpr uint32_t kOverlapMax = 1000;
// 30 days.
inline constexpr uint32_t kRunSecondsMax = 30 * 24 * 3600;

// Places that callers hold without a task: in a queue without bound, and by one caller in any.
inline constexpr uint32_t kTicketsMax = 1000;
inline constexpr uint32_t kTicketsPerCallerMax = 4;
// How long such a place is held: unless the caller says, and at most.
inline constexpr uint32_t kTicketSeconds = 30;
inline constexpr uint32_t kTicketSecondsMax = 300;
// Tasks that one call may redrive.
inline constexpr uint32_t kRedrivesMax = 1000;
// A schedule, and each of its expressions.
inline constexpr size_t kCronsMax = 32;
inline constexpr size_t kCronBytesMax = 256;
// A year, of `@every`.
inline constexpr uint32_t kEverySecondsMax = 366 * 24 * 3600;
// Jobs of a file, their names, and those of triggers and backfills: short enough for a request id
// with everything else that is in it.
inline constexpr size_t kJobsMax = 10'000;
inline constexpr size_t kJobNameBytesMax = 64;
inline constexpr size_t kCallNameBytesMax = 32;
// Missed occurrences that `catch_up: all` may run.
inline constexpr uint32_t kCatchUpMax = 100;
inline constexpr uint32_t kJitterSecondsMax = 24 * 3600;
inline constexpr uint32_t kQueueFullWaitSecondsMax = 24 * 3600;
// Occurrences that one call shows, and that one backfill runs.
inline constexpr int kPreviewedMax = 1000;
inline constexpr size_t kBackfillOccurrencesMax = 1000;
// Backfills that are known.
inline constexpr size_t kBackfillsMax = 100;
// Items of one page of a list.
inline constexpr int kPageSizeMax = 1000;
// Tasks in one message of SubmitTasks, and tasks that one WatchTasks names.
inline constexpr size_t kSubmitItemsMax = 1000;
inline constexpr size_t kWatchedTasksMax = 1000;
inline constexpr size_t kCheckpointNameBytesMax = 128;
// Agents that are known, and what one may have.
inline constexpr size_t kAgentsMax = 10'000;
// Features that an end of a Session announces.
inline constexpr int kFeaturesMax = 64;
// Agents that announced themselves and that no Session has reached yet.
inline constexpr ptrdiff_t kUnreachedAgentsMax = 1'000;
// host:port of an agent.
inline constexpr size_t kAddressBytesMax = 249;
static_assert(sizeof("grpc://") - 1 + kAddressBytesMax <= kNameBytesMax,
              "an address with its scheme is a name");
inline constexpr size_t kAgentLanesMax = 64;
inline constexpr uint32_t kLaneSlotsMax = 1000;
// Request ids that are remembered after their task is forgotten.
inline constexpr size_t kRememberedRequestsMax = 1'000'000;

inline constexpr size_t kMessageBytesMax = 4 * 1024 * 1024;
static_assert(kBodyBytesMax + kEnvBytesMax + 2 * kLabelsMax * 2 * kNameBytesMax < kMessageBytesMax,
              "a task within its limits fits into a message");

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_LIMITS_H_
