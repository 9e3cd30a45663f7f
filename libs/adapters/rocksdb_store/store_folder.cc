#include "libs/adapters/rocksdb_store/store_folder.h"

#include <rocksdb/db.h>
#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <algorithm>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/adapters/rocksdb_store/high_water.h"
#include "libs/adapters/rocksdb_store/record_codec.h"
#include "libs/adapters/rocksdb_store/slice.h"
#include "libs/adapters/rocksdb_store/store_checks.h"
#include "libs/adapters/rocksdb_store/store_error.h"
#include "libs/adapters/rocksdb_store/store_lock.h"
#include "libs/adapters/rocksdb_store/store_swap.h"
#include "libs/base/status_macros.h"
#include "libs/core/life.h"

namespace callboard::adapters {
namespace {

absl::Status CheckNotInterrupted(const StoreFiles& files) {
  ASSIGN_OR_RETURN(const std::optional<std::filesystem::path> ready, FindReadyStore(files));
  if (!ready.has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "a restore of ", files.folder.string(),
      " was interrupted; start its director, or run `callboard db restore` again, to finish it"));
}

// ---- Around damage ------------------------------------------------------------------------------

// More than any key has that is not a request's.
constexpr size_t kSteppedBytes = 32;

// The key, as a number of so many bytes, plus 2 to the `bit`; nothing when that is too large.
std::optional<std::string> Plus(std::string key, size_t bit) {
  key.resize(kSteppedBytes, '\0');
  uint32_t carry = uint32_t{1} << bit % 8;
  for (size_t i = kSteppedBytes - bit / 8; carry != 0; --i) {
    if (i == 0) return std::nullopt;
    carry += static_cast<unsigned char>(key[i - 1]);
    key[i - 1] = static_cast<char>(carry & 0xff);
    carry >>= 8;
  }
  return key;
}

// A key after `last`, behind which nothing can be read, from which on something can be: found in
// steps that double until one is over the damage, and then halve. Nothing when there is none.
std::optional<std::string> FindReadable(rocksdb::DB& db, std::string last) {
  const auto can_read_from = [&db](const std::string& key) {
    const std::unique_ptr<rocksdb::Iterator> iterator(db.NewIterator(rocksdb::ReadOptions()));
    iterator->Seek(key);
    return iterator->status().ok();
  };
  size_t bit = 0;
  std::optional<std::string> found = Plus(last, bit);
  while (found.has_value() && !can_read_from(*found)) found = Plus(last, ++bit);
  while (found.has_value() && bit > 0) {
    std::optional<std::string> nearer = Plus(last, --bit);
    if (can_read_from(*nearer)) {
      found = std::move(nearer);
    } else {
      last = *std::move(nearer);
    }
  }
  return found;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoreFolder>> StoreFolder::Open(
    const std::filesystem::path& data_dir) {
  const StoreFiles files = {data_dir};
  RETURN_IF_ERROR(CheckReadable(files));
  RETURN_IF_ERROR(CheckNotInterrupted(files));
  RETURN_IF_ERROR(CheckIsStore(files));
  ASSIGN_OR_RETURN(std::optional<File> lock, LockToRead(files));
  // Or since then.
  RETURN_IF_ERROR(CheckNotInterrupted(files));
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
                       const std::function<void(const absl::Status&)>& damaged) const {
  if (!is_readable()) return;
  RecordDecoder decoder;
  core::Record record;
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  options.readahead_size = 1 << 20;
  std::string last;
  std::optional<std::string> start = "";
  while (start.has_value()) {
    const std::unique_ptr<rocksdb::Iterator> iterator(database_.db->NewIterator(options));
    for (iterator->Seek(*start); iterator->Valid(); iterator->Next()) {
      last.assign(iterator->key().data(), iterator->key().size());
      if (last == kFormatKey) continue;
      const absl::Status status = decoder.Decode(last, ToView(iterator->value()), record);
      if (status.ok()) {
        take(record);
      } else {
        damaged(status);
      }
    }
    if (iterator->status().ok()) return;
    const absl::Status error = FromRocksDb(iterator->status());
    damaged(absl::Status(error.code(),
                         absl::StrCat("after record ", KeyText(last), ": ", error.message())));
    last = std::max(last, *start);
    start = FindReadable(*database_.db, last);
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
