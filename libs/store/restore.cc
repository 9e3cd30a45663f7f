#include "libs/store/restore.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <system_error>
#include <utility>
#include <variant>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/base/files.h"
#include "libs/base/text.h"
#include "libs/core/limits.h"
#include "libs/store/database.h"
#include "libs/store/open_database.h"
#include "libs/store/record_codec.h"
#include "libs/store/store_files.h"
#include "libs/store/store_folder.h"

namespace callboard::store {

// ---- Checkpoints --------------------------------------------------------------------------------

namespace {

// Folder in which a checkpoint is built, beside the finished ones.
constexpr char kBuilding[] = ".building";

absl::Status CheckName(const std::string& name) {
  if (name.empty() || name.size() > core::kCheckpointNameBytesMax || name.front() == '.' ||
      absl::StrContains(name, '/') || base::HasControl(name)) {
    return base::InvalidField(
        "name",
        absl::StrCat("'", base::EscapeForError(name), "' is not a valid checkpoint name: use 1 to ",
                     core::kCheckpointNameBytesMax,
                     " bytes without '/' or control characters, not beginning with '.'"));
  }
  return absl::OkStatus();
}

// Returns a sequence; the copy contains every write up to it.
absl::StatusOr<uint64_t> CopyDatabase(rocksdb::DB& db, const std::filesystem::path& folder) {
  rocksdb::Checkpoint* raw_checkpoint = nullptr;
  rocksdb::Status status = rocksdb::Checkpoint::Create(&db, &raw_checkpoint);
  if (!status.ok()) return FromRocksDb(status);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw_checkpoint);
  // Copy the logs without flushing them first. A failed flush, such as on a full disk, would make
  // later commits fail too.
  constexpr uint64_t kNeverFlush = std::numeric_limits<uint64_t>::max();
  uint64_t sequence = 0;
  status = checkpoint->CreateCheckpoint(std::filesystem::absolute(folder).string(), kNeverFlush,
                                        &sequence);
  if (!status.ok()) return FromRocksDb(status);
  return sequence;
}

absl::StatusOr<uint64_t> FolderSize(const std::filesystem::path& folder) {
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
  ASSIGN_OR_RETURN(const uint64_t size_bytes, FolderSize(building.folder));
  RETURN_IF_ERROR(Rename(building.folder, target));
  RETURN_IF_ERROR(SyncFolder(files.checkpoints()));
  RETURN_IF_ERROR(SyncFolder(files.folder));
  return ports::Checkpoint{.path = target.string(), .sequence = sequence, .size_bytes = size_bytes};
}

// ---- Restoring and repairing --------------------------------------------------------------------

namespace {

// Locks the folder, finishes an interrupted restore, and removes the remains of a failed one.
absl::StatusOr<base::Descriptor> LockAndCleanUp(const StoreFiles& files) {
  ASSIGN_OR_RETURN(base::Descriptor lock, LockToWrite(files));
  RETURN_IF_ERROR(FinishSwap(files));
  RETURN_IF_ERROR(Remove(files.restoring()));
  return lock;
}

// Begins an epoch in the store that is later than every epoch that an agent can have seen. Agents
// would reject a director of an older epoch, or assign a result to the wrong dispatch.
//
// The restored records may not contain the latest epoch. The current time in seconds is later,
// because directors begin fewer epochs than one per second.
absl::Status BeginLaterEpoch(const StoreFiles& files, uint64_t epoch, absl::Time now) {
  const auto seconds = static_cast<uint64_t>(std::max(int64_t{0}, absl::ToUnixSeconds(now)));
  ASSIGN_OR_RETURN(const std::unique_ptr<rocksdb::DB> db, OpenReadWrite(files.events()));
  rocksdb::WriteBatch batch;
  RecordEncoder().Append(core::EpochBegan{std::max(epoch + 1, seconds)}, batch);
  rocksdb::WriteOptions options;
  options.sync = true;
  const rocksdb::Status status = db->Write(options, &batch);
  if (!status.ok()) return FromRocksDb(status);
  return HighWater::Create(files.high_water(), db->GetLatestSequenceNumber());
}

// Surveys a store. Returns StoreRefusedError() when it is damaged.
absl::StatusOr<StoreSurvey> SurveyUndamaged(const StoreFolder& folder,
                                            const ProgressCallback& progress) {
  StoreSurvey survey = Survey(folder, progress);
  if (survey.findings.empty()) return survey;
  return StoreRefusedError(
      absl::StrCat(folder.files().folder.string(), " is damaged: ", survey.findings.front()));
}

// ---- Copying a damaged store --------------------------------------------------------------------

// Writes records in batches.
class RecordCopier {
 public:
  explicit RecordCopier(rocksdb::DB& db) : db_(db) {}

  absl::Status Add(const core::Record& record) {
    encoder_.Append(record, batch_);
    return batch_.GetDataSize() < kBatchBytes ? absl::OkStatus() : Write();
  }
  absl::Status Finish() {
    RETURN_IF_ERROR(Write());
    const rocksdb::Status status = db_.SyncWAL();
    return status.ok() ? absl::OkStatus() : FromRocksDb(status);
  }

 private:
  static constexpr size_t kBatchBytes = 1 << 20;

  absl::Status Write() {
    const rocksdb::Status status = db_.Write(rocksdb::WriteOptions(), &batch_);
    batch_.Clear();
    return status.ok() ? absl::OkStatus() : FromRocksDb(status);
  }

  rocksdb::DB& db_;
  RecordEncoder encoder_;
  rocksdb::WriteBatch batch_;
};

// Copies all readable and valid records into `db`.
absl::Status CopyReadable(const StoreFolder& folder, const StoreSurvey& survey, rocksdb::DB& db) {
  const rocksdb::Status formatted =
      db.Put(rocksdb::WriteOptions(), ToSlice(kFormatKey), absl::StrCat(kFormat));
  if (!formatted.ok()) return FromRocksDb(formatted);
  RecordCopier copier(db);
  absl::Status status;
  folder.Read(
      [&](const core::Record& record) {
        if (!std::holds_alternative<core::TaskRecord>(record)) status.Update(copier.Add(record));
      },
      [](const absl::Status&) {});
  RETURN_IF_ERROR(status);
  for (const SurveyedTask& task : survey.tasks) {
    ReadTaskResult result = folder.ReadTask(task.queue_id);
    for (core::TaskRecord& record : result.records) {
      RETURN_IF_ERROR(copier.Add(std::move(record)));
    }
  }
  return copier.Finish();
}

// Builds a new store from the readable records, beside the damaged one.
absl::Status Salvage(const StoreFolder& folder, const StoreSurvey& survey,
                     const RestoreOptions& options) {
  const StoreFiles building = {folder.files().restoring()};
  RETURN_IF_ERROR(CreateFolders(building.folder));
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<rocksdb::DB> db, CreateDatabase(building.events()));
    RETURN_IF_ERROR(CopyReadable(folder, survey, *db));
  }
  RETURN_IF_ERROR(SyncFolder(building.events()));
  RETURN_IF_ERROR(BeginLaterEpoch(building, survey.epoch, options.now));
  ASSIGN_OR_RETURN(const std::unique_ptr<StoreFolder> copy, StoreFolder::OpenLocked(building));
  ASSIGN_OR_RETURN(const StoreSurvey copied, SurveyUndamaged(*copy, options.progress));
  if (copied.tasks.size() == survey.tasks.size() && copied.counts == survey.counts &&
      copied.remembered_requests == survey.remembered_requests &&
      copied.marked_agents == survey.marked_agents) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat(folder.files().folder.string(),
                   " could not be read the same way twice; nothing was changed; try again"));
}

// Whether the store would be undamaged if its high water were lower.
bool LostOnlyLogTail(const StoreFolder& folder, const StoreSurvey& survey) {
  return !folder.open_status().ok() && survey.findings.size() == 1 && folder.format() != 0;
}

}  // namespace

absl::StatusOr<RestoreResult> RestoreCheckpoint(const RestoreOptions& options,
                                                const std::filesystem::path& checkpoint) {
  const StoreFiles files = {options.data_dir};
  std::error_code error;
  if (std::filesystem::equivalent(checkpoint, options.data_dir, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(checkpoint.string(), " is the data folder itself; name a checkpoint"));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<StoreFolder> source, StoreFolder::Open(checkpoint));
  if (!source->open_status().ok() && !absl::IsDataLoss(source->open_status())) {
    return source->open_status();
  }
  ASSIGN_OR_RETURN(const StoreSurvey survey, SurveyUndamaged(*source, options.progress));

  RETURN_IF_ERROR(base::MakePrivateFolder(files.folder));
  ASSIGN_OR_RETURN(const base::Descriptor lock, LockAndCleanUp(files));
  const StoreFiles building = {files.restoring()};
  absl::Cleanup remove_partial_copy = [&building] { Remove(building.folder).IgnoreError(); };
  RETURN_IF_ERROR(CreateFolders(building.folder));
  RETURN_IF_ERROR(CopyAll(source->files().events(), building.events()));
  RETURN_IF_ERROR(BeginLaterEpoch(building, survey.epoch, options.now));
  RETURN_IF_ERROR(SyncFolder(building.events()));
  RETURN_IF_ERROR(SyncFolder(building.folder));
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<StoreFolder> copy, StoreFolder::OpenLocked(building));
    RETURN_IF_ERROR(SurveyUndamaged(*copy, options.progress).status());
  }
  std::move(remove_partial_copy).Cancel();
  ASSIGN_OR_RETURN(std::filesystem::path aside,
                   SwapStores(files, options.now, options.before_step));
  return RestoreResult{
      .tasks = survey.tasks.size(), .sequence = source->sequence(), .aside = std::move(aside)};
}

absl::StatusOr<AcceptLossResult> AcceptLoss(const RestoreOptions& options) {
  const StoreFiles files = {options.data_dir};
  RETURN_IF_ERROR(CheckIsStore(files));
  ASSIGN_OR_RETURN(const base::Descriptor lock, LockAndCleanUp(files));
  ASSIGN_OR_RETURN(std::unique_ptr<StoreFolder> folder, StoreFolder::OpenLocked(files));
  if (!folder->open_status().ok() && !absl::IsDataLoss(folder->open_status())) {
    return folder->open_status();
  }
  if (!folder->is_readable()) {
    return StoreRefusedError(absl::StrCat(folder->open_status().message(), "; nothing of ",
                                          files.events().string(), " can be read"));
  }
  const StoreSurvey survey = Survey(*folder, options.progress);
  AcceptLossResult loss = {.findings = survey.findings,
                           .sequence = folder->sequence(),
                           .high_water = folder->high_water(),
                           .tasks = survey.tasks.size(),
                           .aside = {}};
  if (survey.findings.empty()) return loss;
  if (survey.may_be_transient) {
    return absl::UnavailableError(
        absl::StrCat(survey.findings.front(),
                     "; this may be a transient error; nothing was changed; try again"));
  }
  if (LostOnlyLogTail(*folder, survey)) {
    folder.reset();
    RETURN_IF_ERROR(options.before_step ? options.before_step() : absl::OkStatus());
    RETURN_IF_ERROR(BeginLaterEpoch(files, survey.epoch, options.now));
    return loss;
  }
  absl::Cleanup remove_partial_copy = [&files] { Remove(files.restoring()).IgnoreError(); };
  RETURN_IF_ERROR(Salvage(*folder, survey, options));
  std::move(remove_partial_copy).Cancel();
  folder.reset();
  ASSIGN_OR_RETURN(loss.aside, SwapStores(files, options.now, options.before_step));
  return loss;
}

}  // namespace callboard::store
