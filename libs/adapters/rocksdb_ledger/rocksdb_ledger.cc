#include "libs/adapters/rocksdb_ledger/rocksdb_ledger.h"

#include <rocksdb/db.h>
#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/adapters/rocksdb_ledger/ledger_codec.h"
#include "libs/adapters/rocksdb_store/high_water.h"
#include "libs/adapters/rocksdb_store/opened_database.h"
#include "libs/adapters/rocksdb_store/record_codec.h"
#include "libs/adapters/rocksdb_store/slice.h"
#include "libs/adapters/rocksdb_store/store_checks.h"
#include "libs/adapters/rocksdb_store/store_error.h"
#include "libs/adapters/rocksdb_store/store_lock.h"
#include "libs/base/status_macros.h"
#include "libs/ports/event_store.h"

namespace callboard::adapters {
namespace {

using scheduler::FiringCursor;
using scheduler::FiringPage;
using scheduler::FiringQuery;
using scheduler::LedgerChange;

// To what was lost, adds what to do about it.
absl::Status WithLedgerAdvice(const StoreFiles& files, const absl::Status& status) {
  if (status.code() != absl::StatusCode::kDataLoss) return status;
  return StoreRefused(absl::StrCat(
      status.message(), "; move ", files.events().string(), " and ", files.high_water().string(),
      " away together, and the scheduler begins anew: it catches nothing up, and forgets pauses"));
}

std::string KeyOf(const core::Firing& row) {
  return OccurrenceKey(kRowPrefix, row.job, row.nominal, row.trigger);
}

// Rows of some jobs, the last first.
class RowReader {
 public:
  RowReader(rocksdb::DB& db, const FiringQuery& query)
      : query_(query), iterator_(db.NewIterator(rocksdb::ReadOptions())) {}

  absl::StatusOr<FiringPage> Read() {
    if (query_.job.empty()) {
      for (const std::string& job : Jobs()) Find(job, EndOf(job));
    } else {
      Find(query_.job, EndOf(query_.job));
    }
    FiringPage page;
    for (size_t looked_at = 0; !heads_.empty(); ++looked_at) {
      if (page.firings.size() == query_.page_size || looked_at == scheduler::kRowsLookedAtMax) {
        page.next = last_;
        break;
      }
      last_ = {heads_.top().name.nominal, heads_.top().name.job, heads_.top().name.trigger};
      ASSIGN_OR_RETURN(core::Firing row, TakeFirst());
      const auto& outcomes = query_.outcomes;
      if (outcomes.empty() ||
          std::find(outcomes.begin(), outcomes.end(), row.outcome) != outcomes.end()) {
        page.firings.push_back(std::move(row));
      }
    }
    if (!iterator_->status().ok()) return FromRocksDb(iterator_->status());
    return page;
  }

 private:
  // The next row of a job.
  struct Head {
    OccurrenceName name;
    std::string value;

    // The one that comes later is the smaller: a queue has its largest on top. There is one head of
    // each job.
    bool operator<(const Head& other) const {
      return name.nominal != other.name.nominal ? name.nominal < other.name.nominal
                                                : name.job > other.name.job;
    }
  };

  std::vector<std::string> Jobs() {
    std::vector<std::string> jobs;
    iterator_->Seek(ToSlice(kRowPrefix));
    while (iterator_->Valid()) {
      auto parsed = ParseOccurrenceKey(kRowPrefix, ToView(iterator_->key()));
      if (!parsed.has_value()) break;
      jobs.push_back(std::move(parsed->job));
      iterator_->Seek(KeyAfterJob(kRowPrefix, jobs.back()));
    }
    return jobs;
  }

  // Rows of the job before this key are asked for.
  std::string EndOf(const std::string& job) const {
    if (!query_.after.has_value()) return KeyAfterJob(kRowPrefix, job);
    const FiringCursor& after = *query_.after;
    // In the second of the last row of the page before, jobs that come later are still to come.
    if (job > after.job) return OccurrenceKey(kRowPrefix, job, after.nominal + absl::Seconds(1));
    return OccurrenceKey(kRowPrefix, job, after.nominal, job == after.job ? after.trigger : "");
  }

  // Takes up the last row of the job before `end`.
  void Find(const std::string& job, const std::string& end) {
    iterator_->SeekForPrev(end);
    if (iterator_->Valid() && ToView(iterator_->key()) == end) iterator_->Prev();
    if (!iterator_->Valid()) return;
    auto parsed = ParseOccurrenceKey(kRowPrefix, ToView(iterator_->key()));
    if (!parsed.has_value() || parsed->job != job) return;
    heads_.push({*std::move(parsed), std::string(ToView(iterator_->value()))});
  }

  absl::StatusOr<core::Firing> TakeFirst() {
    const Head head = heads_.top();
    heads_.pop();
    const std::string key =
        OccurrenceKey(kRowPrefix, head.name.job, head.name.nominal, head.name.trigger);
    Find(head.name.job, key);
    return DecodeRow(key, head.value);
  }

  const FiringQuery& query_;
  const std::unique_ptr<rocksdb::Iterator> iterator_;
  std::priority_queue<Head> heads_;
  FiringCursor last_;
};

class RocksDbLedger final : public scheduler::Ledger {
 public:
  RocksDbLedger(StoreFiles files, OpenedDatabase opened)
      : files_(std::move(files)), opened_(std::move(opened)) {}

  absl::Status Commit(absl::Span<const LedgerChange> changes) override {
    if (failed_) {
      return absl::UnavailableError("an earlier commit failed; the ledger has to be opened anew");
    }
    const absl::Status status = Write(changes);
    failed_ = !status.ok();
    return status;
  }

  absl::StatusOr<scheduler::Ledgered> Load() const override {
    scheduler::Ledgered ledgered;
    for (const absl::string_view prefix : {kJobPrefix, kIntentPrefix, kBackfillPrefix}) {
      const std::unique_ptr<rocksdb::Iterator> iterator(
          opened_.db->NewIterator(rocksdb::ReadOptions()));
      for (iterator->Seek(ToSlice(prefix));
           iterator->Valid() && iterator->key().starts_with(ToSlice(prefix)); iterator->Next()) {
        const absl::Status status =
            Decode(ToView(iterator->key()), ToView(iterator->value()), ledgered);
        if (!status.ok()) return WithLedgerAdvice(files_, status);
      }
      if (!iterator->status().ok()) {
        return WithLedgerAdvice(files_, FromRocksDb(iterator->status()));
      }
    }
    return ledgered;
  }

  absl::StatusOr<FiringPage> ListFirings(const FiringQuery& query) const override {
    return RowReader(*opened_.db, query).Read();
  }

 private:
  absl::Status Write(absl::Span<const LedgerChange> changes) {
    rocksdb::WriteBatch batch;
    std::map<std::string, uint64_t> trimmed;
    std::vector<const core::Firing*> rows;
    for (const LedgerChange& change : changes) std::visit(Step{batch, rows, trimmed}, change);
    for (const auto& [job, count] : trimmed) RETURN_IF_ERROR(Trim(job, count, batch));
    rocksdb::WriteOptions options;
    options.sync = true;
    const rocksdb::Status status = opened_.db->Write(options, &batch);
    if (!status.ok()) return FromRocksDb(status);
    return opened_.high_water->Advance(opened_.db->GetLatestSequenceNumber());
  }

  // Of what is on disk: what a batch adds is newer.
  absl::Status Trim(const std::string& job, uint64_t count, rocksdb::WriteBatch& batch) const {
    const std::unique_ptr<rocksdb::Iterator> iterator(
        opened_.db->NewIterator(rocksdb::ReadOptions()));
    const std::string end = KeyAfterJob(kRowPrefix, job);
    iterator->Seek(absl::StrCat(kRowPrefix, job, absl::string_view("\0", 1)));
    for (; count > 0 && iterator->Valid() && ToView(iterator->key()) < end; --count) {
      batch.Delete(iterator->key());
      iterator->Next();
    }
    return iterator->status().ok() ? absl::OkStatus() : FromRocksDb(iterator->status());
  }

  struct Step {
    void operator()(const core::Firing& row) const {
      batch.Put(KeyOf(row), Encode(row));
      rows.push_back(&row);
    }
    void operator()(const scheduler::JobState& state) const {
      batch.Put(absl::StrCat(kJobPrefix, state.job), Encode(state));
    }
    void operator()(const scheduler::Intent& intent) const {
      batch.Put(OccurrenceKey(kIntentPrefix, intent.job, intent.nominal), Encode(intent));
    }
    void operator()(const scheduler::IntentResolved& intent) const {
      batch.Delete(OccurrenceKey(kIntentPrefix, intent.job, intent.nominal));
    }
    void operator()(const scheduler::Backfill& backfill) const {
      batch.Put(absl::StrCat(kBackfillPrefix, backfill.id), Encode(backfill));
    }
    void operator()(const scheduler::BackfillForgotten& backfill) const {
      batch.Delete(absl::StrCat(kBackfillPrefix, backfill.id));
    }
    void operator()(const scheduler::RowsTrimmed& rows) const { trimmed[rows.job] += rows.count; }
    void operator()(const scheduler::JobForgotten& job) const {
      batch.Delete(absl::StrCat(kJobPrefix, job.job));
      // One by one: with hints for inserts, as this database has, RocksDB cannot delete ranges.
      for (const core::Firing* row : rows) {
        if (row->job == job.job) batch.Delete(KeyOf(*row));
      }
      trimmed[job.job] = std::numeric_limits<uint64_t>::max();
    }

    rocksdb::WriteBatch& batch;
    // Of this batch.
    std::vector<const core::Firing*>& rows;
    std::map<std::string, uint64_t>& trimmed;
  };

  // Constant after construction.
  const StoreFiles files_;
  const OpenedDatabase opened_;

  // Touched by Commit() only.
  bool failed_ = false;
};

// Format 1 is format 2 without rows of triggers: nothing but the number is to be changed.
absl::Status BringUpToDate(const OpenedDatabase& opened, const StoreFiles& files) {
  ASSIGN_OR_RETURN(const uint32_t format, ReadFormat(*opened.db, files, kLedgerFormat));
  if (format == kLedgerFormat) return absl::OkStatus();
  rocksdb::WriteOptions options;
  options.sync = true;
  const rocksdb::Status status =
      opened.db->Put(options, ToSlice(kFormatKey), absl::StrCat(kLedgerFormat));
  if (!status.ok()) return FromRocksDb(status);
  return opened.high_water->Advance(opened.db->GetLatestSequenceNumber());
}

}  // namespace

RocksDbLedgers::RocksDbLedgers(StoreFiles files, File lock)
    : files_(std::move(files)), lock_(std::move(lock)) {}

absl::StatusOr<std::unique_ptr<RocksDbLedgers>> RocksDbLedgers::Lock(
    const std::filesystem::path& data_dir) {
  StoreFiles files = {.folder = data_dir, .database = "ledger", .owner = "scheduler"};
  ASSIGN_OR_RETURN(File lock, LockToWrite(files));
  return std::unique_ptr<RocksDbLedgers>(new RocksDbLedgers(std::move(files), std::move(lock)));
}

absl::StatusOr<std::unique_ptr<scheduler::Ledger>> RocksDbLedgers::Open() {
  RETURN_IF_ERROR(lock_.CheckInPlace(files_.lock()));
  // A ledger that vanished is not replaced by an empty one.
  if (has_opened_) RETURN_IF_ERROR(CheckIsStore(files_));
  absl::StatusOr<OpenedDatabase> opened =
      OpenDatabase(files_, ports::StoreAccess::kReadWrite, kLedgerFormat);
  if (!opened.ok()) return WithLedgerAdvice(files_, opened.status());
  RETURN_IF_ERROR(BringUpToDate(*opened, files_));
  has_opened_ = true;
  return std::make_unique<RocksDbLedger>(files_, *std::move(opened));
}

}  // namespace callboard::adapters
