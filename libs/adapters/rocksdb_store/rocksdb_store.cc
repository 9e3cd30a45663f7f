#include "libs/adapters/rocksdb_store/rocksdb_store.h"

#include <fcntl.h>
#include <rocksdb/db.h>
#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>
#include <sys/file.h>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/adapters/rocksdb_store/checkpoint.h"
#include "libs/adapters/rocksdb_store/database.h"
#include "libs/adapters/rocksdb_store/high_water.h"
#include "libs/adapters/rocksdb_store/record_codec.h"
#include "libs/base/error.h"
#include "libs/base/log.h"
#include "libs/base/mutex.h"
#include "libs/base/status_macros.h"

namespace callboard::adapters {
namespace {

// The version of keys and values that is written. All up to it are read.
constexpr uint32_t kFormat = 1;

absl::string_view ToView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }
rocksdb::Slice ToSlice(absl::string_view text) { return {text.data(), text.size()}; }

// To what was lost, adds what to do about it.
absl::Status WithAdvice(const StoreFiles& files, const absl::Status& status) {
  if (status.code() != absl::StatusCode::kDataLoss) return status;
  return StoreRefused(absl::StrCat(status.message(),
                                   "; see `callboard db verify --data_dir=", files.folder.string(),
                                   "`; `callboard db restore` puts a checkpoint in its place"));
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
      return absl::UnavailableError("an earlier commit failed; the store has to be opened anew");
    }
    const absl::Status status = Write(batch);
    failed_ = !status.ok();
    return status;
  }

  absl::Status Load(const std::function<void(const core::Record&)>& take) const override {
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
    }));
    return records;
  }

  absl::StatusOr<core::SpecPtr> TaskSpec(core::QueueId id) const override {
    const std::string key = TaskKey(id, 1);
    rocksdb::PinnableSlice value;
    const rocksdb::Status status =
        db_->Get(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), key, &value);
    if (status.IsNotFound()) return core::SpecPtr();
    if (!status.ok()) return FromRocksDb(status);
    core::Record record;
    RETURN_IF_ERROR(RecordDecoder().Decode(key, ToView(value), record));
    const auto* admitted = std::get_if<core::Admitted>(&std::get<core::TaskRecord>(record).change);
    if (admitted == nullptr) {
      return StoreRefused(absl::StrCat("record ", KeyText(key), " does not begin a task"));
    }
    return admitted->spec;
  }

  absl::StatusOr<ports::Checkpoint> CreateCheckpoint(const std::string& name) const override {
    RETURN_IF_ERROR(CheckWritable());
    base::MutexLock lock(checkpoint_mutex_);
    return adapters::CreateCheckpoint(*db_, files_, name);
  }

 private:
  static constexpr size_t kReadAheadBytes = 1 << 20;
  // A batch that needed more than this does not keep its memory.
  static constexpr size_t kKeptBatchBytes = 1 << 20;

  absl::Status CheckWritable() const {
    if (high_water_ != nullptr) return absl::OkStatus();
    return absl::FailedPreconditionError("the store is open for reading only");
  }

  absl::Status Write(absl::Span<const core::Record> records) {
    batch_.Clear();
    for (const core::Record& record : records) encoder_.Append(record, batch_);
    rocksdb::WriteOptions options;
    options.sync = true;
    const rocksdb::Status status = db_->Write(options, &batch_);
    if (batch_.GetDataSize() > kKeptBatchBytes) batch_ = rocksdb::WriteBatch();
    if (!status.ok()) return FromRocksDb(status);
    return high_water_->Advance(db_->GetLatestSequenceNumber());
  }

  // Hands over what lies between the bounds of the options, in the order of the keys.
  absl::Status Read(const rocksdb::ReadOptions& options,
                    const std::function<void(const core::Record&)>& take) const {
    RecordDecoder decoder;
    core::Record record;
    const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(options));
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      const absl::string_view key = ToView(iterator->key());
      if (key == kFormatKey) continue;
      RETURN_IF_ERROR(decoder.Decode(key, ToView(iterator->value()), record));
      take(record);
    }
    return iterator->status().ok() ? absl::OkStatus() : FromRocksDb(iterator->status());
  }

  // Constant after construction.
  const StoreFiles files_;
  const std::unique_ptr<rocksdb::DB> db_;

  // Touched by Commit() only.
  const std::unique_ptr<HighWater> high_water_;
  RecordEncoder encoder_;
  rocksdb::WriteBatch batch_;
  bool failed_ = false;

  // One checkpoint at a time.
  mutable base::Mutex checkpoint_mutex_;
};

// ---- Opening ------------------------------------------------------------------------------------

// What the high water says while a store is being created: nothing has been committed yet, so a
// missing database is no loss. A finished one has at least its format in it.
constexpr uint64_t kBeingCreated = 0;

absl::Status CreateStore(const StoreFiles& files) {
  RETURN_IF_ERROR(HighWater::Create(files.high_water(), kBeingCreated));
  const std::filesystem::path building = files.events().string() + ".new";
  RETURN_IF_ERROR(Remove(building));
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<rocksdb::DB> db, CreateDatabase(building));
    rocksdb::WriteOptions options;
    options.sync = true;
    const rocksdb::Status status = db->Put(options, ToSlice(kFormatKey), absl::StrCat(kFormat));
    if (!status.ok()) return FromRocksDb(status);
  }
  RETURN_IF_ERROR(Rename(building, files.events()));
  return SyncFolder(files.folder);
}

absl::Status CheckFormat(rocksdb::DB& db, const StoreFiles& files) {
  std::string text;
  const rocksdb::Status status = db.Get(rocksdb::ReadOptions(), ToSlice(kFormatKey), &text);
  if (!status.ok() && !status.IsNotFound()) return FromRocksDb(status);
  uint32_t format = 0;
  if (!absl::SimpleAtoi(text, &format) || format == 0) {
    return StoreRefused(absl::StrCat(files.events().string(), " does not say its format"));
  }
  if (format > kFormat) {
    return base::WithReason(absl::FailedPreconditionError(absl::StrCat(
                                files.events().string(), " was written by a newer version (format ",
                                format, "; this version reads up to ", kFormat, ")")),
                            ports::kStoreRefused);
  }
  return absl::OkStatus();
}

// Whether all is there that was committed. `high_water` is what was written last.
absl::Status CheckComplete(const ReadOnlyDatabase& database, const StoreFiles& files,
                           uint64_t high_water) {
  const uint64_t sequence = database.db->GetLatestSequenceNumber();
  if (sequence >= high_water) return absl::OkStatus();
  std::string what = absl::StrCat(files.events().string(), " ends at sequence ", sequence, ", but ",
                                  files.high_water().string(), " knows of ", high_water, ": ",
                                  high_water - sequence, " committed writes are missing");
  if (!database.complaints.empty()) {
    absl::StrAppend(&what, " (", absl::StrJoin(database.complaints, "; "), ")");
  }
  return StoreRefused(what);
}

// Makes sure that there is a store, and returns what its high water is.
absl::StatusOr<uint64_t> FindStore(const StoreFiles& files, ports::StoreAccess access) {
  ASSIGN_OR_RETURN(const std::optional<uint64_t> high_water, HighWater::Read(files.high_water()));
  ASSIGN_OR_RETURN(const bool has_events, Exists(files.events()));
  if (has_events && high_water.has_value()) return *high_water;
  if (has_events) return StoreRefused(absl::StrCat(files.high_water().string(), " is missing"));
  if (high_water.value_or(kBeingCreated) != kBeingCreated) {
    return StoreRefused(absl::StrCat(files.events().string(), " is missing"));
  }
  if (access == ports::StoreAccess::kReadOnly) {
    return absl::NotFoundError(absl::StrCat("there is no store in ", files.folder.string()));
  }
  RETURN_IF_ERROR(CreateStore(files));
  return kBeingCreated;
}

absl::StatusOr<std::unique_ptr<ports::EventStore>> OpenStore(const StoreFiles& files,
                                                             ports::StoreAccess access) {
  ASSIGN_OR_RETURN(const uint64_t high_water, FindStore(files, access));
  ASSIGN_OR_RETURN(ReadOnlyDatabase database, OpenToRead(files.events()));
  RETURN_IF_ERROR(CheckComplete(database, files, high_water));
  RETURN_IF_ERROR(CheckFormat(*database.db, files));
  for (const std::string& complaint : database.complaints) {
    base::LogWarning("store", "tail_dropped", {{"text", complaint}});
  }
  if (access == ports::StoreAccess::kReadOnly) {
    return std::make_unique<RocksDbStore>(files, std::move(database.db), nullptr);
  }
  database.db.reset();
  ASSIGN_OR_RETURN(std::unique_ptr<rocksdb::DB> db, OpenToWrite(files.events()));
  ASSIGN_OR_RETURN(std::unique_ptr<HighWater> high_water_file, HighWater::Open(files.high_water()));
  RETURN_IF_ERROR(high_water_file->Advance(db->GetLatestSequenceNumber()));
  return std::make_unique<RocksDbStore>(files, std::move(db), std::move(high_water_file));
}

}  // namespace

RocksDbStores::RocksDbStores(StoreFiles files, File lock)
    : files_(std::move(files)), lock_(std::move(lock)) {}

absl::StatusOr<std::unique_ptr<RocksDbStores>> RocksDbStores::Lock(const RocksDbOptions& options) {
  StoreFiles files = {options.data_dir};
  ASSIGN_OR_RETURN(File lock, File::Open(files.lock(), O_RDWR | O_CREAT));
  if (flock(lock.descriptor(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FileError(errno, files.lock().string());
    return base::WithReason(absl::FailedPreconditionError(
                                absl::StrCat("another director uses ", files.folder.string())),
                            ports::kStoreLocked);
  }
  return std::unique_ptr<RocksDbStores>(new RocksDbStores(std::move(files), std::move(lock)));
}

absl::StatusOr<std::unique_ptr<ports::EventStore>> RocksDbStores::Open(ports::StoreAccess access) {
  auto store = OpenStore(files_, access);
  if (!store.ok()) return WithAdvice(files_, store.status());
  return store;
}

}  // namespace callboard::adapters
