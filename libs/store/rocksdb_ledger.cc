#include "libs/store/rocksdb_ledger.h"

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

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "callboard/storage/v1/ledger.pb.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/ports/event_store.h"
#include "libs/store/database.h"
#include "libs/store/open_database.h"
#include "libs/store/record_codec.h"
#include "libs/wire/enums.h"

namespace callboard::store {

// ---- Keys and values ----------------------------------------------------------------------------

namespace {

namespace storage = callboard::storage::v1;
using core::FiringOutcome;
using scheduler::Backfill;
using scheduler::Intent;
using scheduler::JobState;
using scheduler::LedgerContents;

constexpr wire::EnumPair<FiringOutcome, storage::LedgerRow::Outcome> kOutcomes[] = {
    {FiringOutcome::kFired, storage::LedgerRow::OUTCOME_FIRED},
    {FiringOutcome::kSkippedOverlap, storage::LedgerRow::OUTCOME_SKIPPED_OVERLAP},
    {FiringOutcome::kSkippedQueueFull, storage::LedgerRow::OUTCOME_SKIPPED_QUEUE_FULL},
    {FiringOutcome::kSkippedDirectorDown, storage::LedgerRow::OUTCOME_SKIPPED_DIRECTOR_DOWN},
    {FiringOutcome::kCoalesced, storage::LedgerRow::OUTCOME_COALESCED},
    {FiringOutcome::kMissedWindow, storage::LedgerRow::OUTCOME_MISSED_WINDOW},
    {FiringOutcome::kPaused, storage::LedgerRow::OUTCOME_PAUSED},
    {FiringOutcome::kDstGapMoved, storage::LedgerRow::OUTCOME_DST_GAP_MOVED},
    {FiringOutcome::kDstFoldSuppressed, storage::LedgerRow::OUTCOME_DST_FOLD_SUPPRESSED},
    {FiringOutcome::kSkippedCalendar, storage::LedgerRow::OUTCOME_SKIPPED_CALENDAR},
    {FiringOutcome::kRejected, storage::LedgerRow::OUTCOME_REFUSED},
};

// Inverted in keys, so that times before 1970 sort before later times.
constexpr uint64_t kSignBit = uint64_t{1} << 63;

absl::Status UnknownRecordError(absl::string_view key) {
  return StoreRefusedError(absl::StrCat("record ", absl::CHexEscape(key),
                                        " of the ledger cannot be read by this version"));
}

// Parses a message and passes it to `convert`, which returns false when it is not valid.
template <class Message, class Convert>
absl::Status Parse(absl::string_view key, absl::string_view value, Convert convert) {
  Message message;
  if (!message.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    return UnknownRecordError(key);
  }
  return convert(message) ? absl::OkStatus() : UnknownRecordError(key);
}

bool FromMessage(const storage::LedgerJob& message, JobState& state) {
  state.cursor = absl::FromUnixMicros(message.cursor_us());
  if (message.has_pause()) {
    const storage::LedgerPause& pause = message.pause();
    state.pause = scheduler::Pause{.by = base::ValidUtf8(pause.by()),
                                   .why = base::ValidUtf8(pause.why()),
                                   .since = absl::FromUnixMicros(pause.since_us()),
                                   .skipped = pause.skipped()};
    if (pause.has_until_us()) state.pause->until = absl::FromUnixMicros(pause.until_us());
  }
  state.paused_in_file = message.paused_in_file();
  state.runs = message.runs();
  state.finished = message.finished();
  state.failures_in_row = message.failures_in_row();
  for (const std::string& id : message.watched()) {
    state.tracked_tasks.push_back(base::ValidUtf8(id));
  }
  for (const std::string& id : message.triggered()) {
    state.triggered_tasks.push_back(base::ValidUtf8(id));
  }
  for (const std::string& id : message.open_triggers()) {
    state.open_triggers.push_back(base::ValidUtf8(id));
  }
  // Values of a newer version are only shown to users, so unknown ones are dropped.
  state.last_run_state = wire::FromProto(wire::kTaskStates, message.last_run_state());
  state.last_run_reason = wire::FromProto(wire::kFailureReasons, message.last_run_reason());
  state.last_outcome = wire::FromProto(kOutcomes, message.last_outcome());
  if (message.has_last_nominal_us()) {
    state.last_nominal = absl::FromUnixMicros(message.last_nominal_us());
  }
  state.last_queue_id = base::ValidUtf8(message.last_queue_id());
  state.rows = message.rows();
  if (message.has_left_at_us()) state.removed_at = absl::FromUnixMicros(message.left_at_us());
  return state.last_outcome.has_value() ||
         message.last_outcome() == storage::LedgerRow::OUTCOME_UNSPECIFIED;
}

bool FromMessage(const storage::LedgerBackfill& message, Backfill& backfill) {
  backfill.job = base::ValidUtf8(message.job());
  backfill.by = base::ValidUtf8(message.by());
  backfill.from = absl::FromUnixMicros(message.from_us());
  backfill.until = absl::FromUnixMicros(message.until_us());
  for (const int64_t occurrence : message.occurrences_us()) {
    backfill.occurrences.push_back(absl::FromUnixMicros(occurrence));
  }
  backfill.done = message.done();
  backfill.began_at = absl::FromUnixMicros(message.began_at_us());
  if (message.has_ended_at_us()) backfill.ended_at = absl::FromUnixMicros(message.ended_at_us());
  return backfill.ended_at.has_value() || backfill.done < backfill.occurrences.size() ||
         backfill.occurrences.empty();
}

}  // namespace

std::string OccurrenceKey(absl::string_view prefix, absl::string_view job, absl::Time nominal,
                          absl::string_view trigger) {
  std::string key = absl::StrCat(prefix, job, absl::string_view("\0", 1));
  AppendBigEndian(static_cast<uint64_t>(absl::ToUnixSeconds(nominal)) ^ kSignBit, key);
  absl::StrAppend(&key, trigger);
  return key;
}

std::string KeyAfterJob(absl::string_view prefix, absl::string_view job) {
  return absl::StrCat(prefix, job, "\1");
}

std::optional<OccurrenceId> ParseOccurrenceKey(absl::string_view prefix, absl::string_view key) {
  if (!absl::ConsumePrefix(&key, prefix)) return std::nullopt;
  const size_t end = key.find('\0');
  if (end == absl::string_view::npos || key.size() < end + 1 + kNumberBytes) return std::nullopt;
  const uint64_t second = ReadBigEndian(key.substr(end + 1, kNumberBytes)) ^ kSignBit;
  const absl::string_view trigger = key.substr(end + 1 + kNumberBytes);
  if (!trigger.empty() && prefix != kRowPrefix) return std::nullopt;
  return OccurrenceId{.job = std::string(key.substr(0, end)),
                      .nominal = absl::FromUnixSeconds(static_cast<int64_t>(second)),
                      .trigger = std::string(trigger)};
}

std::string Encode(const core::Firing& row) {
  storage::LedgerRow message;
  message.set_outcome(wire::ToProto(kOutcomes, row.outcome));
  message.set_decided_at_us(absl::ToUnixMicros(row.decided_at));
  message.set_queue_id(row.queue_id);
  message.set_request_id(row.request_id);
  message.set_detail(row.detail);
  message.set_more(row.more);
  return message.SerializeAsString();
}

std::string Encode(const JobState& state) {
  storage::LedgerJob message;
  message.set_cursor_us(absl::ToUnixMicros(state.cursor));
  if (state.pause.has_value()) {
    storage::LedgerPause& pause = *message.mutable_pause();
    pause.set_by(state.pause->by);
    pause.set_why(state.pause->why);
    pause.set_since_us(absl::ToUnixMicros(state.pause->since));
    if (state.pause->until != absl::InfiniteFuture()) {
      pause.set_until_us(absl::ToUnixMicros(state.pause->until));
    }
    pause.set_skipped(state.pause->skipped);
  }
  message.set_paused_in_file(state.paused_in_file);
  message.set_runs(state.runs);
  message.set_finished(state.finished);
  message.set_failures_in_row(state.failures_in_row);
  for (const std::string& id : state.tracked_tasks) message.add_watched(id);
  for (const std::string& id : state.triggered_tasks) message.add_triggered(id);
  for (const std::string& id : state.open_triggers) message.add_open_triggers(id);
  if (state.last_run_state.has_value()) {
    message.set_last_run_state(wire::ToProto(wire::kTaskStates, *state.last_run_state));
  }
  if (state.last_run_reason.has_value()) {
    message.set_last_run_reason(wire::ToProto(wire::kFailureReasons, *state.last_run_reason));
  }
  if (state.last_outcome.has_value()) {
    message.set_last_outcome(wire::ToProto(kOutcomes, *state.last_outcome));
  }
  if (state.last_nominal != absl::InfinitePast()) {
    message.set_last_nominal_us(absl::ToUnixMicros(state.last_nominal));
  }
  message.set_last_queue_id(state.last_queue_id);
  message.set_rows(state.rows);
  if (state.removed_at.has_value()) message.set_left_at_us(absl::ToUnixMicros(*state.removed_at));
  return message.SerializeAsString();
}

std::string Encode(const Intent& intent) {
  storage::LedgerIntent message;
  message.set_moved(intent.moved);
  message.set_direct(intent.direct);
  return message.SerializeAsString();
}

std::string Encode(const Backfill& backfill) {
  storage::LedgerBackfill message;
  message.set_job(backfill.job);
  message.set_by(backfill.by);
  message.set_from_us(absl::ToUnixMicros(backfill.from));
  message.set_until_us(absl::ToUnixMicros(backfill.until));
  for (const absl::Time occurrence : backfill.occurrences) {
    message.add_occurrences_us(absl::ToUnixMicros(occurrence));
  }
  message.set_done(backfill.done);
  message.set_began_at_us(absl::ToUnixMicros(backfill.began_at));
  if (backfill.ended_at.has_value()) {
    message.set_ended_at_us(absl::ToUnixMicros(*backfill.ended_at));
  }
  return message.SerializeAsString();
}

absl::StatusOr<core::Firing> DecodeRow(absl::string_view key, absl::string_view value) {
  const std::optional<OccurrenceId> name = ParseOccurrenceKey(kRowPrefix, key);
  if (!name.has_value()) return UnknownRecordError(key);
  core::Firing row = {.job = name->job, .nominal = name->nominal, .trigger = name->trigger};
  const absl::Status status =
      Parse<storage::LedgerRow>(key, value, [&row](const storage::LedgerRow& message) {
        const std::optional<FiringOutcome> outcome = wire::FromProto(kOutcomes, message.outcome());
        row.outcome = outcome.value_or(FiringOutcome::kFired);
        row.decided_at = absl::FromUnixMicros(message.decided_at_us());
        row.queue_id = base::ValidUtf8(message.queue_id());
        row.request_id = base::ValidUtf8(message.request_id());
        row.detail = base::ValidUtf8(message.detail());
        row.more = message.more();
        return outcome.has_value();
      });
  if (!status.ok()) return status;
  return row;
}

absl::Status Decode(absl::string_view key, absl::string_view value, LedgerContents& contents) {
  absl::string_view name = key;
  if (absl::ConsumePrefix(&name, kJobPrefix)) {
    JobState& state = contents.jobs[std::string(name)];
    state.job = std::string(name);
    return Parse<storage::LedgerJob>(key, value, [&state](const storage::LedgerJob& message) {
      return FromMessage(message, state);
    });
  }
  if (absl::ConsumePrefix(&name, kBackfillPrefix)) {
    Backfill& backfill = contents.backfills[std::string(name)];
    backfill.id = std::string(name);
    return Parse<storage::LedgerBackfill>(key, value,
                                          [&backfill](const storage::LedgerBackfill& message) {
                                            return FromMessage(message, backfill);
                                          });
  }
  const std::optional<OccurrenceId> occurrence = ParseOccurrenceKey(kIntentPrefix, key);
  if (!occurrence.has_value()) return UnknownRecordError(key);
  Intent& intent = contents.intents[{occurrence->job, occurrence->nominal}];
  intent.job = occurrence->job;
  intent.nominal = occurrence->nominal;
  return Parse<storage::LedgerIntent>(key, value, [&intent](const storage::LedgerIntent& message) {
    intent.moved = message.moved();
    intent.direct = message.direct();
    return true;
  });
}

// ---- RocksDbLedger ------------------------------------------------------------------------------

namespace {

using scheduler::FiringCursor;
using scheduler::FiringPage;
using scheduler::FiringQuery;
using scheduler::LedgerChange;

// Adds the next step to a DATA_LOSS error; returns other statuses unchanged.
absl::Status WithLedgerAdvice(const StoreFiles& files, const absl::Status& status) {
  if (status.code() != absl::StatusCode::kDataLoss) return status;
  return StoreRefusedError(absl::StrCat(
      status.message(), "; move ", files.events().string(), " and ", files.high_water().string(),
      " away together to start with an empty ledger, which forgets pauses and missed occurrences"));
}

std::string RowKey(const core::Firing& row) {
  return OccurrenceKey(kRowPrefix, row.job, row.nominal, row.trigger);
}

// Reads one page of the rows of one job or all jobs, the latest first. Merges the rows of the jobs:
// a priority queue holds the next row of each job.
class RowReader {
 public:
  RowReader(rocksdb::DB& db, const FiringQuery& query)
      : query_(query), iterator_(db.NewIterator(rocksdb::ReadOptions())) {}

  absl::StatusOr<FiringPage> Read() {
    if (query_.job.empty()) {
      for (const std::string& job : ListJobs()) PushRowBefore(job, RowsEnd(job));
    } else {
      PushRowBefore(query_.job, RowsEnd(query_.job));
    }
    FiringPage page;
    for (size_t rows_read = 0; !heads_.empty(); ++rows_read) {
      if (page.firings.size() == query_.page_size || rows_read == scheduler::kRowsScannedMax) {
        page.next = last_;
        break;
      }
      last_ = {heads_.top().name.nominal, heads_.top().name.job, heads_.top().name.trigger};
      ASSIGN_OR_RETURN(core::Firing row, PopHead());
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
    OccurrenceId name;
    std::string value;

    // Orders heads so that the top of a priority queue is the next row of the page. Two heads never
    // have the same job.
    bool operator<(const Head& other) const {
      return name.nominal != other.name.nominal ? name.nominal < other.name.nominal
                                                : name.job > other.name.job;
    }
  };

  std::vector<std::string> ListJobs() {
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

  // Returns the key before which the requested rows of the job end.
  std::string RowsEnd(const std::string& job) const {
    if (!query_.after.has_value()) return KeyAfterJob(kRowPrefix, job);
    const FiringCursor& after = *query_.after;
    // At the time of the last row of the previous page, rows of later jobs have not been read yet.
    if (job > after.job) return OccurrenceKey(kRowPrefix, job, after.nominal + absl::Seconds(1));
    return OccurrenceKey(kRowPrefix, job, after.nominal, job == after.job ? after.trigger : "");
  }

  // Adds the last row of the job before `end`, if any, to `heads_`.
  void PushRowBefore(const std::string& job, const std::string& end) {
    iterator_->SeekForPrev(end);
    if (iterator_->Valid() && ToView(iterator_->key()) == end) iterator_->Prev();
    if (!iterator_->Valid()) return;
    auto parsed = ParseOccurrenceKey(kRowPrefix, ToView(iterator_->key()));
    if (!parsed.has_value() || parsed->job != job) return;
    heads_.push({*std::move(parsed), std::string(ToView(iterator_->value()))});
  }

  absl::StatusOr<core::Firing> PopHead() {
    const Head head = heads_.top();
    heads_.pop();
    const std::string key =
        OccurrenceKey(kRowPrefix, head.name.job, head.name.nominal, head.name.trigger);
    PushRowBefore(head.name.job, key);
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
      return absl::UnavailableError("an earlier commit failed; close the ledger and open it again");
    }
    const absl::Status status = Write(changes);
    failed_ = !status.ok();
    return status;
  }

  absl::StatusOr<scheduler::LedgerContents> Load() const override {
    scheduler::LedgerContents contents;
    for (const absl::string_view prefix : {kJobPrefix, kIntentPrefix, kBackfillPrefix}) {
      const std::unique_ptr<rocksdb::Iterator> iterator(
          opened_.db->NewIterator(rocksdb::ReadOptions()));
      for (iterator->Seek(ToSlice(prefix));
           iterator->Valid() && iterator->key().starts_with(ToSlice(prefix)); iterator->Next()) {
        const absl::Status status =
            Decode(ToView(iterator->key()), ToView(iterator->value()), contents);
        if (!status.ok()) return WithLedgerAdvice(files_, status);
      }
      if (!iterator->status().ok()) {
        return WithLedgerAdvice(files_, FromRocksDb(iterator->status()));
      }
    }
    return contents;
  }

  absl::StatusOr<FiringPage> ListFirings(const FiringQuery& query) const override {
    return RowReader(*opened_.db, query).Read();
  }

 private:
  absl::Status Write(absl::Span<const LedgerChange> changes) {
    rocksdb::WriteBatch batch;
    std::map<std::string, uint64_t> trimmed;
    std::vector<const core::Firing*> rows;
    for (const LedgerChange& change : changes) {
      std::visit(BatchAppender{batch, rows, trimmed}, change);
    }
    for (const auto& [job, count] : trimmed) RETURN_IF_ERROR(Trim(job, count, batch));
    rocksdb::WriteOptions options;
    options.sync = true;
    const rocksdb::Status status = opened_.db->Write(options, &batch);
    if (!status.ok()) return FromRocksDb(status);
    return opened_.high_water->Advance(opened_.db->GetLatestSequenceNumber());
  }

  // Deletes the `count` oldest rows of the job. Reads only rows on disk, because rows in the batch
  // are newer.
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

  struct BatchAppender {
    void operator()(const core::Firing& row) const {
      batch.Put(RowKey(row), Encode(row));
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
      // Delete the rows one by one: RocksDB cannot delete ranges in a database with insert hints.
      for (const core::Firing* row : rows) {
        if (row->job == job.job) batch.Delete(RowKey(*row));
      }
      trimmed[job.job] = std::numeric_limits<uint64_t>::max();
    }

    rocksdb::WriteBatch& batch;
    // The rows of this batch.
    std::vector<const core::Firing*>& rows;
    std::map<std::string, uint64_t>& trimmed;
  };

  // Constant after construction.
  const StoreFiles files_;
  const OpenedDatabase opened_;

  // Used by Commit() only.
  bool failed_ = false;
};

}  // namespace

RocksDbLedgerOpener::RocksDbLedgerOpener(StoreFiles files, base::Descriptor lock)
    : files_(std::move(files)), lock_(std::move(lock)) {}

absl::StatusOr<std::unique_ptr<RocksDbLedgerOpener>> RocksDbLedgerOpener::Lock(
    const std::filesystem::path& data_dir) {
  StoreFiles files = {.folder = data_dir, .database = "ledger", .owner = "scheduler"};
  ASSIGN_OR_RETURN(base::Descriptor lock, LockToWrite(files));
  return std::unique_ptr<RocksDbLedgerOpener>(
      new RocksDbLedgerOpener(std::move(files), std::move(lock)));
}

absl::StatusOr<std::unique_ptr<scheduler::Ledger>> RocksDbLedgerOpener::Open() {
  RETURN_IF_ERROR(CheckInPlace(lock_, files_.lock()));
  // A ledger that disappeared must not be replaced by an empty one.
  if (has_opened_) RETURN_IF_ERROR(CheckIsStore(files_));
  absl::StatusOr<OpenedDatabase> opened =
      OpenDatabase(files_, ports::StoreAccess::kReadWrite, kLedgerFormat);
  if (!opened.ok()) return WithLedgerAdvice(files_, opened.status());
  has_opened_ = true;
  return std::make_unique<RocksDbLedger>(files_, *std::move(opened));
}

}  // namespace callboard::store
