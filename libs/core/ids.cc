#include "libs/core/ids.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace callboard::core {
namespace {

constexpr absl::string_view kQueueIdPrefix = "queue-";
constexpr absl::string_view kTaskIdPrefix = "task-";

}  // namespace

std::string ToString(QueueId id) { return absl::StrCat(kQueueIdPrefix, id.value().ToString()); }

std::optional<QueueId> ParseQueueId(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, kQueueIdPrefix)) return std::nullopt;
  const std::optional<Ulid> ulid = Ulid::Parse(text);
  if (!ulid.has_value()) return std::nullopt;
  return QueueId(*ulid);
}

std::string TaskIdText(QueueId id, DispatchNumber dispatch) {
  return absl::StrCat(kTaskIdPrefix, id.value().ToString(), "-", dispatch.value());
}

std::optional<std::pair<QueueId, DispatchNumber>> ParseTaskId(absl::string_view text) {
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, kTaskIdPrefix)) return std::nullopt;
  const size_t dash = rest.find('-');
  const std::optional<Ulid> ulid = Ulid::Parse(rest.substr(0, dash));
  uint64_t number = 0;
  if (!ulid.has_value() || dash == rest.npos || !absl::SimpleAtoi(rest.substr(dash + 1), &number)) {
    return std::nullopt;
  }
  const std::pair<QueueId, DispatchNumber> parsed(*ulid, number);
  if (TaskIdText(parsed.first, parsed.second) != text) return std::nullopt;
  return parsed;
}

}  // namespace callboard::core
