#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORE_FOLDER_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORE_FOLDER_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/adapters/rocksdb_store/database.h"
#include "libs/adapters/rocksdb_store/store_files.h"
#include "libs/core/ids.h"
#include "libs/core/record.h"

namespace callboard::adapters {

// What a store takes on disk, in bytes.
struct DiskUse {
  uint64_t logs = 0;
  uint64_t tables = 0;
  uint64_t others = 0;

  uint64_t total() const { return logs + tables + others; }
};

// What can be read of a task.
struct TaskReading {
  // Oldest first, up to the first that cannot be read or cannot come next.
  std::vector<core::TaskRecord> records;
  // What is wrong with the one after them; empty when there is none.
  std::string damage;
};

// A data folder, or a checkpoint, opened to be looked at: also when a director would refuse it.
// Changes nothing in it but for the lock, and keeps directors out.
class StoreFolder {
 public:
  // NOT_FOUND when there is no store. FAILED_PRECONDITION: reason ports::kStoreLocked when a
  // director uses it; or a restore was interrupted.
  static absl::StatusOr<std::unique_ptr<StoreFolder>> Open(const std::filesystem::path& data_dir);
  // As Open(), for who has the lock already.
  static absl::StatusOr<std::unique_ptr<StoreFolder>> OpenLocked(const StoreFiles& files);

  const StoreFiles& files() const { return files_; }
  // Why a director would not open it, if it would not.
  const absl::Status& refusal() const { return refusal_; }
  // What was torn off the end of the log, which was never acknowledged; or, when the store was
  // refused, what RocksDB has to say about it.
  const std::vector<std::string>& complaints() const { return database_.complaints; }
  // Whether anything can be read at all. When not, refusal() says why.
  bool is_readable() const { return database_.db != nullptr; }

  // The last write that can be read.
  uint64_t sequence() const;
  // The last write that was acknowledged; null when that is not known any more.
  std::optional<uint64_t> high_water() const { return high_water_; }
  // 0 when it is not known.
  uint32_t format() const { return format_; }
  absl::StatusOr<DiskUse> MeasureDiskUse() const;
  // About how many records there are.
  uint64_t EstimateRecords() const;

  // Hands over every record that can be read, in the order of the keys, and to `damaged` why others
  // cannot: DATA_LOSS, or something that may pass. What lies before, between and behind damaged
  // blocks is read.
  void Read(const std::function<void(const core::Record&)>& take,
            const std::function<void(const absl::Status&)>& damaged) const;
  // Nothing, and no damage, of a task that is not there.
  TaskReading ReadTask(core::QueueId id) const;
  // Whether every block of every table is as it was written, those included that Read() has no use
  // for.
  absl::Status CheckTables() const;

 private:
  explicit StoreFolder(StoreFiles files) : files_(std::move(files)) {}

  // Opens what can be opened.
  void Look();

  const StoreFiles files_;
  std::optional<File> lock_;
  absl::Status refusal_;
  std::optional<uint64_t> high_water_;
  uint32_t format_ = 0;
  ReadOnlyDatabase database_;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORE_FOLDER_H_
