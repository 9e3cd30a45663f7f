// The stored form of records: one key and one value each. docs/FORMAT.md describes both.

#ifndef CALLBOARD_LIBS_STORE_RECORD_CODEC_H_
#define CALLBOARD_LIBS_STORE_RECORD_CODEC_H_

#include <google/protobuf/arena.h>
#include <rocksdb/write_batch.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "callboard/storage/v1/record.pb.h"
#include "libs/core/ids.h"
#include "libs/core/queue.h"
#include "libs/core/record.h"
#include "libs/core/task.h"
#include "libs/wire/enums.h"

namespace callboard::store {

// ---- Task records and their messages ----

// The fields of a message that this version does not understand.
class DecodeErrors {
 public:
  // Adds a field. Only the first one is kept.
  void Add(absl::string_view field) {
    if (field_.empty()) field_ = field;
  }
  // Returns DATA_LOSS with the name of the field when there is one.
  absl::Status ToStatus() const;

 private:
  absl::string_view field_;
};

// Decodes an enum that is always written: an unspecified value is an error.
template <class Core, class Proto, size_t N>
Core ReadEnum(absl::string_view field, const wire::EnumPair<Core, Proto> (&table)[N], Proto value,
              DecodeErrors& errors) {
  const std::optional<Core> core = wire::FromProto(table, value);
  if (!core.has_value()) errors.Add(field);
  return core.value_or(Core{});
}

// Fills an empty message. The queue id and the number are not written: they are in the key.
void Write(const core::TaskRecord& record, storage::v1::TaskRecord& message);
// Fills an empty record, except for the queue id and the number.
void Read(const storage::v1::TaskRecord& message, core::TaskRecord& record, DecodeErrors& errors);

// ---- Keys and values ----

// Key of the store's format number, which is stored in decimal.
inline constexpr absl::string_view kFormatKey = "format";

// Prefix of the keys of all task records.
inline constexpr absl::string_view kTaskPrefix = "task/";

std::string TaskKey(core::QueueId id, uint64_t number);

// Returns a readable form of a key.
std::string KeyText(absl::string_view key);

// Memory for one message at a time.
class MessageArena {
 public:
  MessageArena();

  // Returns an empty message, which lives until the next call.
  template <class Message>
  Message& New() {
    arena_.Reset();
    return *google::protobuf::Arena::CreateMessage<Message>(&arena_);
  }

 private:
  // Large enough for a typical task, so that a typical record needs few allocations.
  alignas(std::max_align_t) std::array<char, 4096> block_;
  google::protobuf::Arena arena_;
};

// Turns records into writes of RocksDB. Not thread-safe.
class RecordEncoder {
 public:
  // Appends the puts and deletes of the record to `batch`. REQUIRES: identities contain no NUL.
  void Append(const core::Record& record, rocksdb::WriteBatch& batch);

 private:
  struct BatchAppender;

  MessageArena arena_;
  std::string key_;
  std::string value_;
};

// Turns keys and values of RocksDB into records. Not thread-safe.
class RecordDecoder {
 public:
  // Decodes a key and its value into `record`. Returns StoreRefusedError(), which names the key,
  // when this version does not understand them. REQUIRES: key != kFormatKey.
  absl::Status Decode(absl::string_view key, absl::string_view value, core::Record& record);

 private:
  struct Parser;

  MessageArena arena_;
};

}  // namespace callboard::store

#endif  // CALLBOARD_LIBS_STORE_RECORD_CODEC_H_
