// Where core::TaskRecord and its stored form meet.
#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_TASK_MESSAGE_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_TASK_MESSAGE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "callboard/storage/v1/record.pb.h"
#include "libs/adapters/rocksdb_store/storage_enums.h"
#include "libs/core/fingerprint.h"
#include "libs/core/ids.h"
#include "libs/core/record.h"

namespace callboard::adapters {

// What of a message this version does not understand.
class Doubts {
 public:
  // Keeps the first field named.
  void About(absl::string_view field) {
    if (field_.empty()) field_ = field;
  }
  // DATA_LOSS when there is one.
  absl::Status ToStatus() const;

 private:
  absl::string_view field_;
};

// One that is always written.
template <class Core, class Proto, size_t N>
Core ReadEnum(absl::string_view field, const EnumPair<Core, Proto> (&table)[N], Proto value,
              Doubts& doubts) {
  const std::optional<Core> core = wire::FromProto(table, value);
  if (!core.has_value()) doubts.About(field);
  return core.value_or(Core{});
}

// An id as bytes, which sort as ids do.
inline constexpr size_t kQueueIdBytes = 16;
void AppendQueueId(core::QueueId id, std::string& bytes);
core::QueueId ReadQueueId(absl::string_view field, absl::string_view bytes, Doubts& doubts);

// Fills an empty message. Task and number are left to the key.
void Write(const core::TaskRecord& record, storage::v1::TaskRecord& message);
// Fills a new record, but for task and number.
void Read(const storage::v1::TaskRecord& message, core::TaskRecord& record, Doubts& doubts);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_TASK_MESSAGE_H_
