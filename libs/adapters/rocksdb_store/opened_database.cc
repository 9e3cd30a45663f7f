#include "libs/adapters/rocksdb_store/opened_database.h"

#include <rocksdb/options.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/adapters/rocksdb_store/database.h"
#include "libs/adapters/rocksdb_store/record_codec.h"
#include "libs/adapters/rocksdb_store/slice.h"
#include "libs/adapters/rocksdb_store/store_checks.h"
#include "libs/adapters/rocksdb_store/store_error.h"
#include "libs/base/log.h"
#include "libs/base/status_macros.h"

namespace callboard::adapters {
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

// Makes sure that there is a store, and returns what its high water is.
absl::StatusOr<uint64_t> FindStore(const StoreFiles& files, ports::StoreAccess access,
                                   uint32_t format) {
  ASSIGN_OR_RETURN(const std::optional<uint64_t> high_water, FindHighWater(files));
  if (high_water.has_value()) return *high_water;
  if (access == ports::StoreAccess::kReadOnly) return NoStoreIn(files);
  RETURN_IF_ERROR(CreateStore(files, format));
  base::LogInfo("store", "created", {{"data_dir", files.folder.string()}});
  return kBeingCreated;
}

}  // namespace

absl::StatusOr<OpenedDatabase> OpenDatabase(const StoreFiles& files, ports::StoreAccess access,
                                            uint32_t format) {
  ASSIGN_OR_RETURN(const uint64_t high_water, FindStore(files, access, format));
  ASSIGN_OR_RETURN(ReadOnlyDatabase database, OpenToRead(files.events()));
  RETURN_IF_ERROR(CheckComplete(database, files, high_water));
  ASSIGN_OR_RETURN(const uint32_t found, ReadFormat(*database.db, files, format));
  for (const std::string& complaint : database.complaints) {
    base::LogWarning("store", "tail_dropped", {{"text", complaint}});
  }
  if (access == ports::StoreAccess::kReadOnly) return OpenedDatabase{std::move(database.db), {}};
  database.db.reset();
  OpenedDatabase opened;
  ASSIGN_OR_RETURN(opened.db, OpenToWrite(files.events()));
  ASSIGN_OR_RETURN(opened.high_water, HighWater::Open(files.high_water()));
  // What older formats hold is read as it is, but what is written from now on an older version
  // could not read.
  if (found < format) RETURN_IF_ERROR(PutFormat(*opened.db, format));
  RETURN_IF_ERROR(opened.high_water->Advance(opened.db->GetLatestSequenceNumber()));
  return opened;
}

}  // namespace callboard::adapters
