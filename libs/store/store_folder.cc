#include "libs/store/store_folder.h"

#include <rocksdb/db.h>
#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/error.h"
#include "libs/core/record.h"
#include "libs/core/task_state.h"
#include "libs/ports/event_store.h"
#include "libs/store/open_database.h"
#include "libs/store/record_codec.h"
#include "libs/store/store_swap.h"

namespace callboard::store {
namespace {

absl::Status CheckNotInterrupted(const StoreFiles& files) {
  ASSIGN_OR_RETURN(const std::optional<std::filesystem::path> ready, FindInterruptedRestore(files));
  if (!ready.has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "a restore of ", files.folder.string(),
      " was interrupted; start its director, or run `callboard db restore` again, to finish it"));
}

// ---- Reading around damage ----------------------------------------------------------------------

// Longer than every key except those of requests.
constexpr size_t kNumericKeyBytes = 32;

// Returns key + 2^bit, where the key is taken as a number of kNumericKeyBytes bytes. Returns null
// on overflow.
std::optional<std::string> AddPowerOfTwo(std::string key, size_t bit) {
  key.resize(kNumericKeyBytes, '\0');
  uint32_t carry = uint32_t{1} << bit % 8;
  for (size_t i = kNumericKeyBytes - bit / 8; carry != 0; --i) {
    if (i == 0) return std::nullopt;
    carry += static_cast<unsigned char>(key[i - 1]);
    key[i - 1] = static_cast<char>(carry & 0xff);
    carry >>= 8;
  }
  return key;
}

// Returns a key after `last` from which records can be read, or null when there is none.
// The search makes steps that double until one is past the damage, and then halve, so that few
// readable records are skipped. REQUIRES: the block after `last` is damaged.
std::optional<std::string> FindReadableKey(rocksdb::DB& db, std::string last) {
  const auto can_read_from = [&db](const std::string& key) {
    const std::unique_ptr<rocksdb::Iterator> iterator(db.NewIterator(rocksdb::ReadOptions()));
    iterator->Seek(key);
    return iterator->status().ok();
  };
  size_t bit = 0;
  std::optional<std::string> found = AddPowerOfTwo(last, bit);
  while (found.has_value() && !can_read_from(*found)) found = AddPowerOfTwo(last, ++bit);
  while (found.has_value() && bit > 0) {
    std::optional<std::string> nearer = AddPowerOfTwo(last, --bit);
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
  ASSIGN_OR_RETURN(base::Descriptor lock, LockToRead(files));
  // Check again: a restore may have been interrupted before the lock was taken.
  RETURN_IF_ERROR(CheckNotInterrupted(files));
  ASSIGN_OR_RETURN(std::unique_ptr<StoreFolder> folder, OpenLocked(files));
  folder->lock_ = std::move(lock);
  return folder;
}

absl::StatusOr<std::unique_ptr<StoreFolder>> StoreFolder::OpenLocked(const StoreFiles& files) {
  RETURN_IF_ERROR(CheckIsStore(files));
  std::unique_ptr<StoreFolder> folder(new StoreFolder(files));
  folder->OpenStore();
  if (absl::IsNotFound(folder->open_status_)) return folder->open_status_;
  return folder;
}

void StoreFolder::OpenStore() {
  const absl::StatusOr<std::optional<uint64_t>> high_water = FindHighWater(files_);
  if (!high_water.ok()) {
    open_status_ = high_water.status();
  } else if (!high_water->has_value()) {
    open_status_ = NoStoreError(files_);
    return;
  } else {
    high_water_ = *high_water;
  }
  absl::StatusOr<ReadOnlyDatabase> database = OpenReadOnly(files_.events());
  if (!database.ok()) {
    open_status_.Update(database.status());
    return;
  }
  database_ = *std::move(database);
  if (high_water_.has_value()) open_status_.Update(CheckComplete(database_, files_, *high_water_));
  const absl::Status format = CheckFormat(*database_.db, files_);
  open_status_.Update(format);
  if (format.ok()) format_ = kFormat;
  // A store of another version is not damaged, but this version must not interpret it.
  if (absl::IsFailedPrecondition(format)) database_.db.reset();
}

uint64_t StoreFolder::sequence() const {
  return is_readable() ? database_.db->GetLatestSequenceNumber() : 0;
}

absl::StatusOr<DiskUsage> StoreFolder::MeasureDiskUsage() const {
  DiskUsage use;
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

void StoreFolder::Read(const std::function<void(const core::Record&)>& on_record,
                       const std::function<void(const absl::Status&)>& on_damage) const {
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
        on_record(record);
      } else {
        on_damage(status);
      }
    }
    if (iterator->status().ok()) return;
    const absl::Status error = FromRocksDb(iterator->status());
    on_damage(absl::Status(error.code(),
                           absl::StrCat("after record ", KeyText(last), ": ", error.message())));
    last = std::max(last, *start);
    start = FindReadableKey(*database_.db, last);
  }
}

ReadTaskResult StoreFolder::ReadTask(core::QueueId id) const {
  ReadTaskResult result;
  if (!is_readable()) return result;
  const std::string first = TaskKey(id, 0);
  const std::string last = TaskKey(id, std::numeric_limits<uint64_t>::max());
  const rocksdb::Slice lower_bound = first;
  const rocksdb::Slice upper_bound = last;
  rocksdb::ReadOptions options;
  options.iterate_lower_bound = &lower_bound;
  options.iterate_upper_bound = &upper_bound;
  RecordDecoder decoder;
  core::PlacementTermsPool terms;
  core::TaskState task;
  const std::unique_ptr<rocksdb::Iterator> iterator(database_.db->NewIterator(options));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    core::Record decoded;
    const absl::Status status =
        decoder.Decode(ToView(iterator->key()), ToView(iterator->value()), decoded);
    if (!status.ok()) {
      result.damage = std::string(status.message());
      return result;
    }
    auto& record = std::get<core::TaskRecord>(decoded);
    if (const std::string why = core::TransitionError(record, task); !why.empty()) {
      result.damage = absl::StrCat("record ", KeyText(ToView(iterator->key())), " ", why);
      return result;
    }
    core::Apply(record, terms, task);
    result.records.push_back(std::move(record));
  }
  if (!iterator->status().ok()) {
    result.damage = std::string(FromRocksDb(iterator->status()).message());
  }
  return result;
}

absl::Status StoreFolder::CheckTables() const {
  if (!is_readable()) return absl::OkStatus();
  const rocksdb::Status status = database_.db->VerifyChecksum();
  return status.ok() ? absl::OkStatus() : FromRocksDb(status);
}

// ---- Survey -------------------------------------------------------------------------------------

namespace {

constexpr uint64_t kRecordsPerProgress = 1024;

// The state of a task after the records that were applied so far.
struct ReplayedTask {
  core::TaskState state;
  std::optional<core::QueueId> redrive_of;
  // A record did not fit the state. Later records are ignored.
  bool is_broken = false;
};

// Builds a survey from the records of a store.
class SurveyBuilder {
 public:
  void AddRecord(const core::Record& record) {
    ++survey_.records;
    std::visit([this](const auto& kind) { Apply(kind); }, record);
  }
  void AddFinding(std::string finding) { survey_.findings.push_back(std::move(finding)); }
  // Adds the finding unless an earlier one contains it.
  void AddFindingOnce(absl::string_view finding) {
    for (const std::string& known : survey_.findings) {
      if (absl::StrContains(known, finding)) return;
    }
    AddFinding(std::string(finding));
  }
  void ClassifyError(const absl::Status& error) {
    survey_.may_be_transient |= !absl::IsDataLoss(error);
  }
  uint64_t records() const { return survey_.records; }

  StoreSurvey Finish() {
    std::vector<const ReplayedTask*> tasks;
    for (const auto& [id, task] : tasks_) {
      if (task.state.last_record > 0) tasks.push_back(&task);
      if (task.redrive_of.has_value()) redriven_as_[*task.redrive_of] = id;
    }
    std::sort(tasks.begin(), tasks.end(), ComesBefore);
    for (const ReplayedTask* task : tasks) AddTask(task->state);
    return std::move(survey_);
  }

 private:
  void Apply(const core::TaskRecord& record) {
    ReplayedTask& task = tasks_[record.queue_id];
    if (task.is_broken) return;
    if (const std::string why = core::TransitionError(record, task.state); !why.empty()) {
      task.is_broken = true;
      return AddFinding(absl::StrCat("task ", core::ToString(record.queue_id), ": record ",
                                     record.number, " ", why));
    }
    core::Apply(record, terms_, task.state);
    if (const auto* admitted = std::get_if<core::TaskAdmitted>(&record.change)) {
      task.redrive_of = admitted->redrive_of;
    }
  }
  void Apply(const core::EpochBegan& began) { survey_.epoch = began.epoch; }
  void Apply(const core::QueueSwitched& switched) {
    survey_.paused = switched.paused;
    survey_.draining = switched.draining;
  }
  void Apply(const core::AgentMarked&) { ++survey_.marked_agents; }
  void Apply(const core::RequestRemembered&) { ++survey_.remembered_requests; }
  void Apply(const core::LeasesExtended&) {}
  void Apply(const core::DispatchesForgotten&) {}
  // Never stored: these records only delete others.
  void Apply(const core::TaskForgotten&) {}
  void Apply(const core::RequestForgotten&) {}

  static bool ComesBefore(const ReplayedTask* a, const ReplayedTask* b) {
    if (a->state.is_ended() != b->state.is_ended()) return b->state.is_ended();
    if (!a->state.is_ended()) {
      return std::pair(a->state.sequence, a->state.queue_id) <
             std::pair(b->state.sequence, b->state.queue_id);
    }
    return std::pair(b->state.finished_at, b->state.queue_id) <
           std::pair(a->state.finished_at, a->state.queue_id);
  }

  void AddTask(const core::TaskState& state) {
    SurveyedTask task = {.queue_id = state.queue_id};
    ++CounterFor(survey_.counts, state.state);
    if (!state.is_ended()) CheckPlace(state);
    if (state.is_pending()) {
      task.position = survey_.counts.pending;
      if (state.created_at < survey_.oldest_pending_at) {
        survey_.oldest_pending_at = state.created_at;
        survey_.oldest_pending = state.queue_id;
      }
    }
    if (const auto found = redriven_as_.find(state.queue_id); found != redriven_as_.end()) {
      task.redriven_as = found->second;
    }
    survey_.tasks.push_back(task);
  }

  // Adds a finding when another live task has the same place in the queue.
  void CheckPlace(const core::TaskState& state) {
    const auto [found, is_new] = places_.emplace(state.sequence, state.queue_id);
    if (is_new) return;
    AddFinding(absl::StrCat("task ", core::ToString(state.queue_id), ": has place ", state.sequence,
                            ", the place of task ", core::ToString(found->second)));
  }

  StoreSurvey survey_;
  core::PlacementTermsPool terms_;
  std::map<core::QueueId, ReplayedTask> tasks_;
  std::map<core::QueueId, core::QueueId> redriven_as_;
  std::unordered_map<uint64_t, core::QueueId> places_;
};

}  // namespace

StoreSurvey Survey(const StoreFolder& folder, const ProgressCallback& progress) {
  SurveyBuilder surveyor;
  if (!folder.open_status().ok()) surveyor.AddFinding(std::string(folder.open_status().message()));
  folder.Read(
      [&](const core::Record& record) {
        surveyor.AddRecord(record);
        if (progress && surveyor.records() % kRecordsPerProgress == 0) progress(surveyor.records());
      },
      [&](const absl::Status& damage) {
        surveyor.AddFinding(std::string(damage.message()));
        surveyor.ClassifyError(damage);
      });
  if (const absl::Status status = folder.CheckTables(); !status.ok()) {
    surveyor.AddFindingOnce(status.message());
    surveyor.ClassifyError(status);
  }
  return surveyor.Finish();
}

}  // namespace callboard::store
