#include "libs/core/ids.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace callboard::core {
namespace {

constexpr absl::string_view kQueueIdPrefix = "queue-";

}  // namespace

std::string ToString(QueueId id) { return absl::StrCat(kQueueIdPrefix, id.value().ToString()); }

std::optional<QueueId> ParseQueueId(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, kQueueIdPrefix)) return std::nullopt;
  const std::optional<Ulid> ulid = Ulid::Parse(text);
  if (!ulid.has_value()) return std::nullopt;
  return QueueId(*ulid);
}

std::string TaskIdText(QueueId id, DispatchNumber dispatch) {
  return absl::StrCat("task-", id.value().ToString(), "-", dispatch.value());
}

}  // namespace callboard::core
