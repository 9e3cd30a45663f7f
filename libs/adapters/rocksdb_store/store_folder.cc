#include "libs/adapters/rocksdb_store/store_folder.h"

#include <rocksdb/db.h>
#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/adapters/rocksdb_store/high_water.h"
#include "libs/adapters/rocksdb_store/record_codec.h"
#include "libs/adapters/rocksdb_store/store_checks.h"
#include "libs/adapters/rocksdb_store/store_error.h"
#include "libs/adapters/rocksdb_store/store_lock.h"
#include "libs/adapters/rocksdb_store/store_swap.h"
#include "libs/base/status_macros.h"
#include "libs/core/life.h"

namespace callboard::adapters {
namespace {

absl::string_view ToView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

absl::Status CheckNotInterrupted(const StoreFiles& files) {
  ASSIGN_OR_RETURN(const std::optional<std::filesystem::path> ready, FindReadyStore(files));
  if (!ready.has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "a restore of ", files.folder.string(),
      " was interrupted; start its director, or run `callboard db restore` again, to finish it"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoreFolder>> StoreFolder::Open(
    const std::filesystem::path& data_dir) {
  const StoreFiles files = {data_dir};
  RETURN_IF_ERROR(CheckNotInterrupted(files));
  RETURN_IF_ERROR(CheckIsStore(files));
  ASSIGN_OR_RETURN(std::optional<File> lock, LockToRead(files));
  ASSIGN_OR_RETURN(std::unique_ptr<StoreFolder> folder, OpenLocked(files));
  if (lock.has_value()) folder->lock_.emplace(*std::move(lock));
  return folder;
}

absl::StatusOr<std::unique_ptr<StoreFolder>> StoreFolder::OpenLocked(const StoreFiles& files) {
  RETURN_IF_ERROR(CheckIsStore(files));
  std::unique_ptr<StoreFolder> folder(new StoreFolder(files));
  folder->Look();
  if (absl::IsNotFound(folder->refusal_)) return folder->refusal_;
  return folder;
}

void StoreFolder::Look() {
  const absl::StatusOr<std::optional<uint64_t>> high_water = FindHighWater(files_);
  if (!high_water.ok()) {
    refusal_ = high_water.status();
  } else if (!high_water->has_value()) {
    refusal_ = NoStoreIn(files_);
    return;
  } else {
    high_water_ = *high_water;
  }
  absl::StatusOr<ReadOnlyDatabase> database = OpenToRead(files_.events());
  if (!database.ok()) {
    refusal_.Update(database.status());
    return;
  }
  database_ = *std::move(database);
  if (high_water_.has_value()) refusal_.Update(CheckComplete(database_, files_, *high_water_));
  const absl::StatusOr<uint32_t> format = ReadFormat(*database_.db, files_);
  if (format.ok()) {
    format_ = *format;
    return;
  }
  refusal_.Update(format.status());
  // What a newer version wrote is not damaged, and not ours to interpret.
  if (absl::IsFailedPrecondition(format.status())) database_.db.reset();
}

uint64_t StoreFolder::sequence() const {
  return is_readable() ? database_.db->GetLatestSequenceNumber() : 0;
}

absl::StatusOr<DiskUse> StoreFolder::MeasureDiskUse() const {
  DiskUse use;
  std::error_code error;
  for (auto file = std::filesystem::directory_iterator(files_.events(), error);
       !error && file != std::filesystem::directory_iterator(); file.increment(error)) {
    const uint64_t size = file->file_size(error);
    const std::string extension = file->path().extension().string();
    (extension == ".log" ? use.logs : extension == ".sst" ? use.tables : use.others) += size;
  }
  if (error) return FileError(error.value(), files_.events().string());
  return use;
}

uint64_t StoreFolder::EstimateRecords() const {
  uint64_t estimate = 0;
  if (is_readable()) {
    database_.db->GetIntProperty(rocksdb::DB::Properties::kEstimateNumKeys, &estimate);
  }
  return estimate;
}

void StoreFolder::Read(const std::function<void(const core::Record&)>& take,
                       const std::function<void(const std::string&)>& damaged) const {
  if (!is_readable()) return;
  RecordDecoder decoder;
  core::Record record;
  const auto decode = [&](absl::string_view key, absl::string_view value) {
    if (key == kFormatKey) return;
    const absl::Status status = decoder.Decode(key, value, record);
    if (!status.ok()) return damaged(std::string(status.message()));
    take(record);
  };
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  options.readahead_size = 1 << 20;
  std::string last;
  std::unique_ptr<rocksdb::Iterator> iterator(database_.db->NewIterator(options));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    last.assign(iterator->key().data(), iterator->key().size());
    decode(ToView(iterator->key()), ToView(iterator->value()));
  }
  if (iterator->status().ok()) return;
  damaged(absl::StrCat("after record ", KeyText(last), ": ",
                       FromRocksDb(iterator->status()).message()));
  // From the other end, up to the damage.
  std::vector<std::pair<std::string, std::string>> rest;
  iterator.reset(database_.db->NewIterator(options));
  for (iterator->SeekToLast(); iterator->Valid() && iterator->key().compare(last) > 0;
       iterator->Prev()) {
    rest.emplace_back(iterator->key().ToString(), iterator->value().ToString());
  }
  for (auto entry = rest.rbegin(); entry != rest.rend(); ++entry) {
    decode(entry->first, entry->second);
  }
}

TaskReading StoreFolder::ReadTask(core::QueueId id) const {
  TaskReading reading;
  if (!is_readable()) return reading;
  const std::string first = TaskKey(id, 0);
  const std::string last = TaskKey(id, std::numeric_limits<uint64_t>::max());
  const rocksdb::Slice lower_bound = first;
  const rocksdb::Slice upper_bound = last;
  rocksdb::ReadOptions options;
  options.iterate_lower_bound = &lower_bound;
  options.iterate_upper_bound = &upper_bound;
  RecordDecoder decoder;
  core::TermsPool terms;
  core::Life life;
  const std::unique_ptr<rocksdb::Iterator> iterator(database_.db->NewIterator(options));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    core::Record decoded;
    const absl::Status status =
        decoder.Decode(ToView(iterator->key()), ToView(iterator->value()), decoded);
    if (!status.ok()) {
      reading.damage = std::string(status.message());
      return reading;
    }
    auto& record = std::get<core::TaskRecord>(decoded);
    if (const std::string why = core::WhyImpossible(record, life); !why.empty()) {
      reading.damage = absl::StrCat("record ", KeyText(ToView(iterator->key())), " ", why);
      return reading;
    }
    core::Apply(record, terms, life);
    reading.records.push_back(std::move(record));
  }
  if (!iterator->status().ok()) {
    reading.damage = std::string(FromRocksDb(iterator->status()).message());
  }
  return reading;
}

absl::Status StoreFolder::CheckTables() const {
  if (!is_readable()) return absl::OkStatus();
  const rocksdb::Status status = database_.db->VerifyChecksum();
  return status.ok() ? absl::OkStatus() : FromRocksDb(status);
}

}  // namespace callboard::adapters
