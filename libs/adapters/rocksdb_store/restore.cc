#include "libs/adapters/rocksdb_store/restore.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <memory>
#include <system_error>
#include <utility>
#include <variant>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "libs/adapters/rocksdb_store/database.h"
#include "libs/adapters/rocksdb_store/high_water.h"
#include "libs/adapters/rocksdb_store/record_codec.h"
#include "libs/adapters/rocksdb_store/slice.h"
#include "libs/adapters/rocksdb_store/store_checks.h"
#include "libs/adapters/rocksdb_store/store_error.h"
#include "libs/adapters/rocksdb_store/store_files.h"
#include "libs/adapters/rocksdb_store/store_folder.h"
#include "libs/adapters/rocksdb_store/store_lock.h"
#include "libs/adapters/rocksdb_store/store_survey.h"
#include "libs/base/private_folder.h"
#include "libs/base/status_macros.h"

namespace callboard::adapters {
namespace {

// The folder, for us alone, with nothing left of an earlier try.
absl::StatusOr<File> Prepare(const StoreFiles& files) {
  ASSIGN_OR_RETURN(File lock, LockToWrite(files));
  RETURN_IF_ERROR(FinishSwap(files));
  RETURN_IF_ERROR(Remove(files.restoring()));
  return lock;
}

// Begins an epoch in the store that is later than all that agents can know of, although what is
// restored does not: directors do not begin one every second. Else agents would refuse the next
// director, or take a result for one of a dispatch that came later.
absl::Status BeginLaterEpoch(const StoreFiles& files, uint64_t epoch, absl::Time now) {
  const auto seconds = static_cast<uint64_t>(std::max(int64_t{0}, absl::ToUnixSeconds(now)));
  ASSIGN_OR_RETURN(const std::unique_ptr<rocksdb::DB> db, OpenToWrite(files.events()));
  rocksdb::WriteBatch batch;
  RecordEncoder().Append(core::EpochBegan{std::max(epoch + 1, seconds)}, batch);
  rocksdb::WriteOptions options;
  options.sync = true;
  const rocksdb::Status status = db->Write(options, &batch);
  if (!status.ok()) return FromRocksDb(status);
  return HighWater::Create(files.high_water(), db->GetLatestSequenceNumber());
}

// What a director would open and go on with.
absl::StatusOr<StoreSurvey> SurveyOfWhole(const StoreFolder& folder, const Progress& progress) {
  StoreSurvey survey = Survey(folder, progress);
  if (survey.findings.empty()) return survey;
  return StoreRefused(
      absl::StrCat(folder.files().folder.string(), " is damaged: ", survey.findings.front()));
}

// ---- What can be read of a damaged store --------------------------------------------------------

// Writes records in batches.
class Copier {
 public:
  explicit Copier(rocksdb::DB& db) : db_(db) {}

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

// Copies into `db` what makes sense of the store.
absl::Status CopyReadable(const StoreFolder& folder, const StoreSurvey& survey, rocksdb::DB& db) {
  const rocksdb::Status formatted =
      db.Put(rocksdb::WriteOptions(), ToSlice(kFormatKey), absl::StrCat(kFormat));
  if (!formatted.ok()) return FromRocksDb(formatted);
  Copier copier(db);
  absl::Status status;
  folder.Read(
      [&](const core::Record& record) {
        if (!std::holds_alternative<core::TaskRecord>(record)) status.Update(copier.Add(record));
      },
      [](const absl::Status&) {});
  RETURN_IF_ERROR(status);
  for (const SurveyedTask& task : survey.tasks) {
    TaskReading reading = folder.ReadTask(task.queue_id);
    for (core::TaskRecord& record : reading.records) {
      RETURN_IF_ERROR(copier.Add(std::move(record)));
    }
  }
  return copier.Finish();
}

// Builds a store of what can be read, beside the damaged one.
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
  ASSIGN_OR_RETURN(const StoreSurvey copied, SurveyOfWhole(*copy, options.progress));
  if (copied.tasks.size() == survey.tasks.size() && copied.counts == survey.counts &&
      copied.remembered_requests == survey.remembered_requests &&
      copied.marked_agents == survey.marked_agents) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat(folder.files().folder.string(),
                   " gave something else when it was read again; nothing was changed: try again"));
}

// Whether a director would take the store if the high water said less.
bool LostOnlyTheEnd(const StoreFolder& folder, const StoreSurvey& survey) {
  return !folder.refusal().ok() && survey.findings.size() == 1 && folder.format() != 0;
}

}  // namespace

absl::StatusOr<Restored> RestoreCheckpoint(const RestoreOptions& options,
                                           const std::filesystem::path& checkpoint) {
  const StoreFiles files = {options.data_dir};
  std::error_code error;
  if (std::filesystem::equivalent(checkpoint, options.data_dir, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(checkpoint.string(), " cannot take its own place"));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<StoreFolder> source, StoreFolder::Open(checkpoint));
  if (!source->refusal().ok() && !absl::IsDataLoss(source->refusal())) return source->refusal();
  ASSIGN_OR_RETURN(const StoreSurvey survey, SurveyOfWhole(*source, options.progress));

  RETURN_IF_ERROR(base::MakePrivateFolder(files.folder));
  ASSIGN_OR_RETURN(const File lock, Prepare(files));
  const StoreFiles building = {files.restoring()};
  absl::Cleanup remove_half_of_it = [&building] { Remove(building.folder).IgnoreError(); };
  RETURN_IF_ERROR(CreateFolders(building.folder));
  RETURN_IF_ERROR(CopyAll(source->files().events(), building.events()));
  RETURN_IF_ERROR(BeginLaterEpoch(building, survey.epoch, options.now));
  RETURN_IF_ERROR(SyncFolder(building.events()));
  RETURN_IF_ERROR(SyncFolder(building.folder));
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<StoreFolder> copy, StoreFolder::OpenLocked(building));
    RETURN_IF_ERROR(SurveyOfWhole(*copy, options.progress).status());
  }
  std::move(remove_half_of_it).Cancel();
  ASSIGN_OR_RETURN(std::filesystem::path aside, Swap(files, options.now, options.before));
  return Restored{
      .tasks = survey.tasks.size(), .sequence = source->sequence(), .aside = std::move(aside)};
}

absl::StatusOr<AcceptedLoss> AcceptLoss(const RestoreOptions& options) {
  const StoreFiles files = {options.data_dir};
  RETURN_IF_ERROR(CheckIsStore(files));
  ASSIGN_OR_RETURN(const File lock, Prepare(files));
  ASSIGN_OR_RETURN(std::unique_ptr<StoreFolder> folder, StoreFolder::OpenLocked(files));
  if (!folder->refusal().ok() && !absl::IsDataLoss(folder->refusal())) return folder->refusal();
  if (!folder->is_readable()) {
    return StoreRefused(absl::StrCat(folder->refusal().message(), "; nothing of ",
                                     files.events().string(), " can be read"));
  }
  const StoreSurvey survey = Survey(*folder, options.progress);
  AcceptedLoss loss = {.findings = survey.findings,
                       .sequence = folder->sequence(),
                       .high_water = folder->high_water(),
                       .tasks = survey.tasks.size(),
                       .aside = {}};
  if (survey.findings.empty()) return loss;
  if (survey.may_pass) {
    return absl::UnavailableError(absl::StrCat(
        survey.findings.front(), "; this may be no damage, and nothing was changed: try again"));
  }
  if (LostOnlyTheEnd(*folder, survey)) {
    folder.reset();
    RETURN_IF_ERROR(options.before ? options.before() : absl::OkStatus());
    RETURN_IF_ERROR(BeginLaterEpoch(files, survey.epoch, options.now));
    return loss;
  }
  absl::Cleanup remove_half_of_it = [&files] { Remove(files.restoring()).IgnoreError(); };
  RETURN_IF_ERROR(Salvage(*folder, survey, options));
  std::move(remove_half_of_it).Cancel();
  folder.reset();
  ASSIGN_OR_RETURN(loss.aside, Swap(files, options.now, options.before));
  return loss;
}

}  // namespace callboard::adapters
