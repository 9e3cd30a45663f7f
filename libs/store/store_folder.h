// A data folder read for inspection, and a survey of its content.

#ifndef CALLBOARD_LIBS_STORE_STORE_FOLDER_H_
#define CALLBOARD_LIBS_STORE_STORE_FOLDER_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/files.h"
#include "libs/core/ids.h"
#include "libs/core/queue.h"
#include "libs/core/record.h"
#include "libs/store/database.h"
#include "libs/store/store_files.h"

namespace callboard::store {

// Disk space that a store uses, in bytes.
struct DiskUsage {
  uint64_t logs = 0;
  uint64_t tables = 0;
  uint64_t others = 0;

  uint64_t total() const { return logs + tables + others; }
};

// The records of one task.
struct ReadTaskResult {
  // Oldest first. Ends before the first record that cannot be read, or that cannot follow the
  // records before it.
  std::vector<core::TaskRecord> records;
  // Describes what is wrong with the next record; empty when all records were read.
  std::string damage;
};

// A data folder, or a checkpoint, opened for inspection, even if a director would refuse to open
// it. Changes nothing in the folder except the lock. No director can open the folder while the
// object lives.
class StoreFolder {
 public:
  // Returns NOT_FOUND when there is no store. Returns FAILED_PRECONDITION when a restore was
  // interrupted, and, with the reason ports::kStoreLocked, when a director uses the folder.
  static absl::StatusOr<std::unique_ptr<StoreFolder>> Open(const std::filesystem::path& data_dir);
  // Like Open(). REQUIRES: the caller holds the lock of the folder.
  static absl::StatusOr<std::unique_ptr<StoreFolder>> OpenLocked(const StoreFiles& files);

  const StoreFiles& files() const { return files_; }
  // The error with which a director would fail to open the store, or OK.
  const absl::Status& open_status() const { return open_status_; }
  // Warnings of RocksDB. When open_status() is OK, they are about bytes that it dropped from the
  // end of the log, which were never acknowledged.
  const std::vector<std::string>& warnings() const { return database_.warnings; }
  // Whether records can be read at all. When not, open_status() tells why.
  bool is_readable() const { return database_.db != nullptr; }

  // The last write that can be read.
  uint64_t sequence() const;
  // The last write that was acknowledged; null when the high water cannot be read.
  std::optional<uint64_t> high_water() const { return high_water_; }
  // 0 when it is not known.
  uint32_t format() const { return format_; }
  absl::StatusOr<DiskUsage> MeasureDiskUsage() const;
  // Returns the approximate number of records.
  uint64_t EstimateRecords() const;

  // Calls `on_record` with every readable record, in the order of the keys. Calls `on_damage` with
  // the reason whenever records cannot be read: DATA_LOSS, or an error that may be transient.
  // Records before, between and after damaged blocks are read.
  void Read(const std::function<void(const core::Record&)>& on_record,
            const std::function<void(const absl::Status&)>& on_damage) const;
  // Returns no records and no damage when there is no such task.
  ReadTaskResult ReadTask(core::QueueId id) const;
  // Verifies the checksum of every block of every table, including blocks that Read() does not use.
  absl::Status CheckTables() const;

 private:
  explicit StoreFolder(StoreFiles files) : files_(std::move(files)) {}

  // Opens as much of the store as can be opened, and sets the members below.
  void OpenStore();

  const StoreFiles files_;
  // None when there is no lock file and none can be created.
  base::Descriptor lock_;
  absl::Status open_status_;
  std::optional<uint64_t> high_water_;
  uint32_t format_ = 0;
  ReadOnlyDatabase database_;
};

// ---- Survey ----

// Facts about a task that follow from the records of all tasks.
struct SurveyedTask {
  core::QueueId queue_id = {};
  // 1 + the number of pending tasks ahead; 0 when the task is not pending.
  uint64_t position = 0;
  std::optional<core::QueueId> redriven_as = {};
};

// The result of reading a whole store.
struct StoreSurvey {
  // Readable descriptions of all damage. Empty when a director would open the store and continue.
  std::vector<std::string> findings;
  // Whether some findings are read errors other than damage, which may not occur the next time.
  bool may_be_transient = false;
  // Live tasks in queue order, then ended tasks, the last to end first.
  std::vector<SurveyedTask> tasks;
  core::StateCounts counts;
  // The pending task that was accepted first.
  std::optional<core::QueueId> oldest_pending;
  absl::Time oldest_pending_at = absl::InfiniteFuture();
  // Number of records, of tasks and of the queue.
  uint64_t records = 0;
  uint64_t epoch = 0;
  bool paused = false;
  bool draining = false;
  // Number of request ids that are remembered after their tasks were forgotten.
  uint64_t remembered_requests = 0;
  // Number of agents that are drained or cordoned.
  uint64_t marked_agents = 0;
};

// Called from time to time with the number of records read so far; may be null.
using ProgressCallback = std::function<void(uint64_t)>;

// Reads the whole store. A task with a damaged record counts with its state before that record.
StoreSurvey Survey(const StoreFolder& folder, const ProgressCallback& progress = nullptr);

}  // namespace callboard::store

#endif  // CALLBOARD_LIBS_STORE_STORE_FOLDER_H_
