// Names of tasks and of their dispatches.
#ifndef CALLBOARD_LIBS_CORE_IDS_H_
#define CALLBOARD_LIBS_CORE_IDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "libs/base/strong_id.h"
#include "libs/core/ulid.h"

namespace callboard::core {

// A task's name, written `queue-<ulid>`. Never reused.
using QueueId = base::StrongId<struct QueueIdTag, Ulid>;

std::string ToString(QueueId id);
// Null for what ToString() does not write.
std::optional<QueueId> ParseQueueId(absl::string_view text);

// Counts the times a task was given to an agent, from 1.
using DispatchNumber = base::StrongId<struct DispatchNumberTag, uint64_t>;

// Name of one dispatch: `task-<ulid>-<dispatch>`.
std::string TaskIdText(QueueId id, DispatchNumber dispatch);
// Null for what TaskIdText() does not write.
std::optional<std::pair<QueueId, DispatchNumber>> ParseTaskId(absl::string_view text);

// Names one dispatch of one director: whoever shows it speaks of that dispatch alone.
struct FenceToken {
  QueueId queue_id;
  DispatchNumber dispatch;
  // Grows at each start of the director and each reopening of its store.
  uint64_t director_epoch = 0;

  friend auto operator<=>(const FenceToken&, const FenceToken&) = default;
};

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_IDS_H_
