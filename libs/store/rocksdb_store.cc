#include "libs/store/rocksdb_store.h"

#include <rocksdb/db.h>
#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/base/log.h"
#include "libs/base/mutex.h"
#include "libs/store/database.h"
#include "libs/store/open_database.h"
#include "libs/store/record_codec.h"
#include "libs/store/restore.h"
#include "libs/store/store_swap.h"

namespace callboard::store {
namespace {

// Returns the task of a record, for sorting. Records of the queue have no task and come first.
core::QueueId TaskId(const core::Record& record) {
  if (const auto* task = std::get_if<core::TaskRecord>(&record)) return task->queue_id;
  if (const auto* forgotten = std::get_if<core::TaskForgotten>(&record)) return forgotten->queue_id;
  return {};
}

// ---- The store ----------------------------------------------------------------------------------

class RocksDbStore final : public ports::EventStore {
 public:
  // `high_water` is null when the store is open for reading only.
  RocksDbStore(StoreFiles files, std::unique_ptr<rocksdb::DB> db,
               std::unique_ptr<HighWater> high_water)
      : files_(std::move(files)), db_(std::move(db)), high_water_(std::move(high_water)) {}

  absl::Status Commit(absl::Span<const core::Record> batch) override {
    RETURN_IF_ERROR(CheckWritable());
    if (failed_) {
      return absl::UnavailableError("an earlier commit failed; close the store and open it again");
    }
    const absl::Status status = Write(batch);
    failed_ = !status.ok();
    return status;
  }

  absl::Status Load(const ports::RecordVisitor& take) const override {
    rocksdb::ReadOptions options;
    options.fill_cache = false;
    options.readahead_size = kReadAheadBytes;
    return WithAdvice(files_, Read(options, take));
  }

  absl::StatusOr<std::vector<core::TaskRecord>> TaskRecords(core::QueueId id) const override {
    const std::string first = TaskKey(id, 0);
    const std::string last = TaskKey(id, std::numeric_limits<uint64_t>::max());
    const rocksdb::Slice lower_bound = first;
    const rocksdb::Slice upper_bound = last;
    rocksdb::ReadOptions options;
    options.iterate_lower_bound = &lower_bound;
    options.iterate_upper_bound = &upper_bound;
    std::vector<core::TaskRecord> records;
    RETURN_IF_ERROR(Read(options, [&records](const core::Record& record) {
      records.push_back(std::get<core::TaskRecord>(record));
      return absl::OkStatus();
    }));
    return records;
  }

  absl::StatusOr<core::SpecBytes> Spec(core::QueueId id) const override {
    const std::string key = TaskKey(id, 1);
    rocksdb::PinnableSlice value;
    const rocksdb::Status status =
        db_->Get(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), key, &value);
    if (status.IsNotFound()) return core::SpecBytes();
    if (!status.ok()) return FromRocksDb(status);
    core::Record record;
    RETURN_IF_ERROR(RecordDecoder().Decode(key, ToView(value), record));
    const auto* admitted =
        std::get_if<core::TaskAdmitted>(&std::get<core::TaskRecord>(record).change);
    if (admitted == nullptr) {
      return StoreRefusedError(absl::StrCat("record ", KeyText(key), " does not begin a task"));
    }
    return admitted->spec->bytes;
  }

  absl::StatusOr<ports::Checkpoint> CreateCheckpoint(const std::string& name) const override {
    RETURN_IF_ERROR(CheckWritable());
    base::MutexLock lock(checkpoint_mutex_);
    return store::CreateCheckpoint(*db_, files_, name);
  }

 private:
  static constexpr size_t kReadAheadBytes = 1 << 20;
  // The memory of a larger batch is released after the commit.
  static constexpr size_t kKeptBatchBytes = 1 << 20;

  absl::Status CheckWritable() const {
    if (high_water_ != nullptr) return absl::OkStatus();
    return absl::FailedPreconditionError("the store is open for reading only");
  }

  absl::Status Write(absl::Span<const core::Record> records) {
    // RocksDB inserts a key faster when it is close to the previous one, so the batch is sorted by
    // task. The batch is atomic, so only records of the same task have to keep their order.
    by_task_.clear();
    for (const core::Record& record : records) by_task_.push_back({TaskId(record), &record});
    std::sort(by_task_.begin(), by_task_.end());
    batch_.Clear();
    for (const auto& [task, record] : by_task_) encoder_.Append(*record, batch_);
    rocksdb::WriteOptions options;
    options.sync = true;
    const rocksdb::Status status = db_->Write(options, &batch_);
    if (batch_.GetDataSize() > kKeptBatchBytes) batch_ = rocksdb::WriteBatch();
    if (!status.ok()) return FromRocksDb(status);
    return high_water_->Advance(db_->GetLatestSequenceNumber());
  }

  // Calls `take` with every record between the bounds of the options, in the order of the keys.
  absl::Status Read(const rocksdb::ReadOptions& options, const ports::RecordVisitor& take) const {
    RecordDecoder decoder;
    core::Record record;
    const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(options));
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      const absl::string_view key = ToView(iterator->key());
      if (key == kFormatKey) continue;
      RETURN_IF_ERROR(decoder.Decode(key, ToView(iterator->value()), record));
      RETURN_IF_ERROR(take(record));
    }
    return iterator->status().ok() ? absl::OkStatus() : FromRocksDb(iterator->status());
  }

  // Constant after construction.
  const StoreFiles files_;
  const std::unique_ptr<rocksdb::DB> db_;

  // Used by Commit() only.
  const std::unique_ptr<HighWater> high_water_;
  std::vector<std::pair<core::QueueId, const core::Record*>> by_task_;
  RecordEncoder encoder_;
  rocksdb::WriteBatch batch_;
  bool failed_ = false;

  // Held during CreateCheckpoint().
  mutable base::Mutex checkpoint_mutex_;
};

}  // namespace

RocksDbStoreOpener::RocksDbStoreOpener(StoreFiles files, base::Descriptor lock)
    : files_(std::move(files)), lock_(std::move(lock)) {}

absl::StatusOr<std::unique_ptr<RocksDbStoreOpener>> RocksDbStoreOpener::Lock(
    const RocksDbOptions& options) {
  StoreFiles files = {options.data_dir};
  ASSIGN_OR_RETURN(base::Descriptor lock, LockToWrite(files));
  return std::unique_ptr<RocksDbStoreOpener>(
      new RocksDbStoreOpener(std::move(files), std::move(lock)));
}

absl::StatusOr<std::unique_ptr<ports::EventStore>> RocksDbStoreOpener::Open(
    ports::StoreAccess access) {
  RETURN_IF_ERROR(CheckInPlace(lock_, files_.lock()));
  // A store that disappeared must not be replaced by an empty one.
  if (has_opened_) RETURN_IF_ERROR(CheckIsStore(files_));
  ASSIGN_OR_RETURN(const std::optional<std::filesystem::path> ready,
                   FindInterruptedRestore(files_));
  if (ready.has_value()) {
    RETURN_IF_ERROR(FinishSwap(files_));
    base::LogWarning("store", "restore_finished", {{"restored", ready->string()}});
  }
  absl::StatusOr<OpenedDatabase> opened = OpenDatabase(files_, access, kFormat);
  if (!opened.ok()) return WithAdvice(files_, opened.status());
  has_opened_ = true;
  return std::make_unique<RocksDbStore>(files_, std::move(opened->db),
                                        std::move(opened->high_water));
}

}  // namespace callboard::store
