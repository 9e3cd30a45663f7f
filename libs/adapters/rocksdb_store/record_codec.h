// Records as they lie in RocksDB: one key and one value each. docs/FORMAT.md describes both.
#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_RECORD_CODEC_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_RECORD_CODEC_H_

#include <google/protobuf/arena.h>
#include <rocksdb/write_batch.h>

#include <array>
#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libs/core/ids.h"
#include "libs/core/record.h"

namespace callboard::adapters {

// Says in decimal how everything else is written.
inline constexpr absl::string_view kFormatKey = "format";

// What the keys of all records of tasks begin with.
inline constexpr absl::string_view kTaskPrefix = "task/";

std::string TaskKey(core::QueueId id, uint64_t number);
// What the keys of a task's records begin with.
std::string TaskPrefix(core::QueueId id);

// A key as people can read it.
std::string KeyText(absl::string_view key);

// Memory for one message after the other.
class MessageMemory {
 public:
  MessageMemory();

  // Empty; gone with the next.
  template <class Message>
  Message& New() {
    arena_.Reset();
    return *google::protobuf::Arena::CreateMessage<Message>(&arena_);
  }

 private:
  // Holds a usual task, so that a usual record allocates little.
  alignas(std::max_align_t) std::array<char, 4096> block_;
  google::protobuf::Arena arena_;
};

class RecordEncoder {
 public:
  // Appends what the record puts and deletes. REQUIRES: an identity has no NUL in it.
  void Append(const core::Record& record, rocksdb::WriteBatch& batch);

 private:
  struct Step;

  MessageMemory memory_;
  std::string key_;
  std::string value_;
};

class RecordDecoder {
 public:
  // Sets `record` to what was put under the key. StoreRefused(), naming the key, for what this
  // version does not understand. REQUIRES: key != kFormatKey.
  absl::Status Decode(absl::string_view key, absl::string_view value, core::Record& record);

 private:
  struct Parsing;

  MessageMemory memory_;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_RECORD_CODEC_H_
