#include "libs/store/open_database.h"

#include <rocksdb/options.h>

#include <filesystem>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/error.h"
#include "libs/base/log.h"
#include "libs/store/record_codec.h"
#include "libs/store/store_swap.h"

namespace callboard::store {
namespace {

absl::Status PutFormat(rocksdb::DB& db, uint32_t format) {
  rocksdb::WriteOptions options;
  options.sync = true;
  const rocksdb::Status status = db.Put(options, ToSlice(kFormatKey), absl::StrCat(format));
  return status.ok() ? absl::OkStatus() : FromRocksDb(status);
}

absl::Status CreateStore(const StoreFiles& files, uint32_t format) {
  RETURN_IF_ERROR(HighWater::Create(files.high_water(), kBeingCreated));
  const std::filesystem::path building = files.events().string() + ".new";
  RETURN_IF_ERROR(Remove(building));
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<rocksdb::DB> db, CreateDatabase(building));
    RETURN_IF_ERROR(PutFormat(*db, format));
  }
  RETURN_IF_ERROR(Rename(building, files.events()));
  return SyncFolder(files.folder);
}

// Creates the store when it is missing and `access` allows it. Returns the high water.
absl::StatusOr<uint64_t> FindOrCreateStore(const StoreFiles& files, ports::StoreAccess access,
                                           uint32_t format) {
  ASSIGN_OR_RETURN(const std::optional<uint64_t> high_water, FindHighWater(files));
  if (high_water.has_value()) return *high_water;
  if (access == ports::StoreAccess::kReadOnly) return NoStoreError(files);
  RETURN_IF_ERROR(CreateStore(files, format));
  base::LogInfo("store", "created", {{"data_dir", files.folder.string()}});
  return kBeingCreated;
}

}  // namespace

absl::StatusOr<OpenedDatabase> OpenDatabase(const StoreFiles& files, ports::StoreAccess access,
                                            uint32_t format) {
  ASSIGN_OR_RETURN(const uint64_t high_water, FindOrCreateStore(files, access, format));
  ASSIGN_OR_RETURN(ReadOnlyDatabase database, OpenReadOnly(files.events()));
  RETURN_IF_ERROR(CheckComplete(database, files, high_water));
  RETURN_IF_ERROR(CheckFormat(*database.db, files, format));
  for (const std::string& warning : database.warnings) {
    base::LogWarning("store", "tail_dropped", {{"text", warning}});
  }
  if (access == ports::StoreAccess::kReadOnly) return OpenedDatabase{std::move(database.db), {}};
  database.db.reset();
  OpenedDatabase opened;
  ASSIGN_OR_RETURN(opened.db, OpenReadWrite(files.events()));
  ASSIGN_OR_RETURN(opened.high_water, HighWater::Open(files.high_water()));
  RETURN_IF_ERROR(opened.high_water->Advance(opened.db->GetLatestSequenceNumber()));
  return opened;
}

absl::Status NoStoreError(const StoreFiles& files) {
  return absl::NotFoundError(absl::StrCat("there is no store in ", files.folder.string()));
}

absl::Status CheckIsStore(const StoreFiles& files) {
  for (const std::filesystem::path& path : {files.events(), files.high_water()}) {
    ASSIGN_OR_RETURN(const bool exists, Exists(path));
    if (exists) return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::optional<std::filesystem::path> ready, FindInterruptedRestore(files));
  return ready.has_value() ? absl::OkStatus() : NoStoreError(files);
}

absl::StatusOr<std::optional<uint64_t>> FindHighWater(const StoreFiles& files) {
  ASSIGN_OR_RETURN(const std::optional<uint64_t> high_water, HighWater::Read(files.high_water()));
  ASSIGN_OR_RETURN(const bool has_events, Exists(files.events()));
  if (has_events && high_water.has_value()) return high_water;
  if (has_events) {
    return StoreRefusedError(absl::StrCat(files.high_water().string(), " is missing"));
  }
  if (high_water.value_or(kBeingCreated) != kBeingCreated) {
    return StoreRefusedError(absl::StrCat(files.events().string(), " is missing"));
  }
  return std::nullopt;
}

absl::Status CheckComplete(const ReadOnlyDatabase& database, const StoreFiles& files,
                           uint64_t high_water) {
  const uint64_t sequence = database.db->GetLatestSequenceNumber();
  if (sequence >= high_water) return absl::OkStatus();
  std::string what = absl::StrCat(files.events().string(), " ends at sequence ", sequence, ", but ",
                                  files.high_water().string(), " knows of ", high_water, ": ",
                                  high_water - sequence, " committed writes are missing");
  if (!database.warnings.empty()) {
    absl::StrAppend(&what, " (", absl::StrJoin(database.warnings, "; "), ")");
  }
  return StoreRefusedError(what);
}

absl::Status CheckFormat(rocksdb::DB& db, const StoreFiles& files, uint32_t format) {
  std::string text;
  const rocksdb::Status status = db.Get(rocksdb::ReadOptions(), ToSlice(kFormatKey), &text);
  if (!status.ok() && !status.IsNotFound()) return FromRocksDb(status);
  uint32_t found = 0;
  if (!absl::SimpleAtoi(text, &found) || found == 0) {
    return StoreRefusedError(absl::StrCat(files.events().string(), " has no format number"));
  }
  if (found == format) return absl::OkStatus();
  const std::string advice =
      found > format ? " was written by a newer version; use that version"
                     : absl::StrCat(
                           " was written by a version from before the first release, which "
                           "cannot be converted; move ",
                           files.folder.string(), " away to begin with an empty one");
  return base::WithReason(absl::FailedPreconditionError(
                              absl::StrCat(files.events().string(), advice, " (format ", found,
                                           ", this version reads format ", format, ")")),
                          ports::kStoreRefused);
}

absl::Status WithAdvice(const StoreFiles& files, const absl::Status& status) {
  if (status.code() != absl::StatusCode::kDataLoss) return status;
  return StoreRefusedError(absl::StrCat(
      status.message(), "; see `callboard db verify --data_dir=", files.folder.string(),
      "`; `callboard db restore` replaces it with a checkpoint"));
}

}  // namespace callboard::store
