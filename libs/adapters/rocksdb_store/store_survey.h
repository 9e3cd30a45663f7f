#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORE_SURVEY_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORE_SURVEY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/adapters/rocksdb_store/store_folder.h"
#include "libs/core/ids.h"
#include "libs/core/queue.h"

namespace callboard::adapters {

// What a task's own records do not say.
struct SurveyedTask {
  core::QueueId queue_id = {};
  // 1 + the pending tasks ahead; 0 when it is not pending.
  uint64_t position = 0;
  std::optional<core::QueueId> redriven_as = {};
};

// A store, read from one end to the other.
struct StoreSurvey {
  // What is damaged or missing, for people; none when a director would open the store and go on.
  std::vector<std::string> findings;
  // Whether some of it may be there the next time: it could not be read, which is no damage.
  bool may_pass = false;
  // Live tasks in line order, then ended ones, the last to end first.
  std::vector<SurveyedTask> tasks;
  core::StateCounts counts;
  // The pending task that was accepted first.
  std::optional<core::QueueId> oldest_pending;
  absl::Time oldest_pending_at = absl::InfiniteFuture();
  // Of tasks and of the queue.
  uint64_t records = 0;
  uint64_t epoch = 0;
  bool paused = false;
  bool draining = false;
  // Request ids that outlive their tasks, and agents that are drained or cordoned.
  uint64_t remembered_requests = 0;
  uint64_t marked_agents = 0;
};

// Told now and then how many records were read; may be null.
using Progress = std::function<void(uint64_t)>;

// Reads everything; a task with damage in it counts as what it was before.
StoreSurvey Survey(const StoreFolder& folder, const Progress& progress = nullptr);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORE_SURVEY_H_
