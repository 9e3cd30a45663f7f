#include "libs/adapters/rocksdb_store/checkpoint.h"

#include <rocksdb/utilities/checkpoint.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/adapters/rocksdb_store/high_water.h"
#include "libs/adapters/rocksdb_store/store_error.h"
#include "libs/base/error.h"
#include "libs/base/status_macros.h"
#include "libs/base/text.h"
#include "libs/core/limits.h"

namespace callboard::adapters {
namespace {

// A checkpoint in the making, beside the finished ones.
constexpr char kBuilding[] = ".building";

absl::Status CheckName(const std::string& name) {
  if (name.empty() || name.size() > core::kCheckpointNameBytesMax || name.front() == '.' ||
      absl::StrContains(name, '/') || base::HasControl(name)) {
    return base::InvalidField(
        "name",
        absl::StrCat("'", base::Echoed(name), "' cannot name a checkpoint: 1 to ",
                     core::kCheckpointNameBytesMax,
                     " bytes without '/' and control characters, the first of them no '.', can"));
  }
  return absl::OkStatus();
}

// Returns a sequence up to which everything is in the copy.
absl::StatusOr<uint64_t> CopyDatabase(rocksdb::DB& db, const std::filesystem::path& folder) {
  rocksdb::Checkpoint* unowned = nullptr;
  rocksdb::Status status = rocksdb::Checkpoint::Create(&db, &unowned);
  if (!status.ok()) return FromRocksDb(status);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(unowned);
  // The logs are copied, not flushed first: a flush that fails, as for want of space, would end the
  // commits too.
  constexpr uint64_t kNeverFlush = std::numeric_limits<uint64_t>::max();
  uint64_t sequence = 0;
  status = checkpoint->CreateCheckpoint(std::filesystem::absolute(folder).string(), kNeverFlush,
                                        &sequence);
  if (!status.ok()) return FromRocksDb(status);
  return sequence;
}

absl::StatusOr<uint64_t> SizeOf(const std::filesystem::path& folder) {
  std::error_code error;
  uint64_t size = 0;
  for (auto file = std::filesystem::recursive_directory_iterator(folder, error);
       !error && file != std::filesystem::recursive_directory_iterator(); file.increment(error)) {
    if (file->is_regular_file()) size += file->file_size();
  }
  if (error) return FileError(error.value(), folder.string());
  return size;
}

}  // namespace

absl::StatusOr<ports::Checkpoint> CreateCheckpoint(rocksdb::DB& db, const StoreFiles& files,
                                                   const std::string& name) {
  RETURN_IF_ERROR(CheckName(name));
  const std::filesystem::path target = files.checkpoints() / name;
  ASSIGN_OR_RETURN(const bool exists, Exists(target));
  if (exists) {
    return base::WithReason(
        absl::AlreadyExistsError(absl::StrCat(target.string(), " exists already")),
        "CHECKPOINT_EXISTS");
  }

  const StoreFiles building = {files.checkpoints() / kBuilding};
  RETURN_IF_ERROR(Remove(building.folder));
  const absl::Cleanup remove_leftovers = [&] { Remove(building.folder).IgnoreError(); };
  RETURN_IF_ERROR(CreateFolders(building.folder));
  ASSIGN_OR_RETURN(const uint64_t sequence, CopyDatabase(db, building.events()));
  RETURN_IF_ERROR(HighWater::Create(building.high_water(), sequence));
  ASSIGN_OR_RETURN(const uint64_t size_bytes, SizeOf(building.folder));
  RETURN_IF_ERROR(Rename(building.folder, target));
  RETURN_IF_ERROR(SyncFolder(files.checkpoints()));
  RETURN_IF_ERROR(SyncFolder(files.folder));
  return ports::Checkpoint{.path = target.string(), .sequence = sequence, .size_bytes = size_bytes};
}

}  // namespace callboard::adapters
