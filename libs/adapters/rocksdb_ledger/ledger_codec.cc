#include "libs/adapters/rocksdb_ledger/ledger_codec.h"

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "callboard/storage/v1/ledger.pb.h"
#include "libs/adapters/rocksdb_store/big_endian.h"
#include "libs/adapters/rocksdb_store/storage_enums.h"
#include "libs/adapters/rocksdb_store/store_error.h"
#include "libs/base/text.h"
#include "libs/wire/enum_pair.h"

namespace callboard::adapters {
namespace {

namespace storage = callboard::storage::v1;
using core::FiringOutcome;
using scheduler::Backfill;
using scheduler::Intent;
using scheduler::JobState;
using scheduler::Ledgered;

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
    {FiringOutcome::kRefused, storage::LedgerRow::OUTCOME_REFUSED},
};

// Times before 1970 sort before those after.
constexpr uint64_t kSignBit = uint64_t{1} << 63;

absl::Status NotUnderstood(absl::string_view key) {
  return StoreRefused(absl::StrCat("record ", absl::CHexEscape(key),
                                   " of the ledger is not one that this version understands"));
}

// Parses into `message`, and hands it to `take`.
template <class Message, class Take>
absl::Status Parse(absl::string_view key, absl::string_view value, Take take) {
  Message message;
  if (!message.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    return NotUnderstood(key);
  }
  return take(message) ? absl::OkStatus() : NotUnderstood(key);
}

bool Take(const storage::LedgerJob& message, JobState& state) {
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
  for (const std::string& id : message.watched()) state.watched.push_back(base::ValidUtf8(id));
  for (const std::string& id : message.triggered()) state.triggered.push_back(base::ValidUtf8(id));
  for (const std::string& id : message.open_triggers()) {
    state.open_triggers.push_back(base::ValidUtf8(id));
  }
  // Unknown values are of a newer version and only shown: they are left out.
  state.last_run_state = wire::FromProto(kTaskStates, message.last_run_state());
  state.last_run_reason = wire::FromProto(kFailureReasons, message.last_run_reason());
  state.last_outcome = wire::FromProto(kOutcomes, message.last_outcome());
  if (message.has_last_nominal_us()) {
    state.last_nominal = absl::FromUnixMicros(message.last_nominal_us());
  }
  state.last_queue_id = base::ValidUtf8(message.last_queue_id());
  state.rows = message.rows();
  if (message.has_left_at_us()) state.left_at = absl::FromUnixMicros(message.left_at_us());
  return state.last_outcome.has_value() ||
         message.last_outcome() == storage::LedgerRow::OUTCOME_UNSPECIFIED;
}

bool Take(const storage::LedgerBackfill& message, Backfill& backfill) {
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

std::optional<OccurrenceName> ParseOccurrenceKey(absl::string_view prefix, absl::string_view key) {
  if (!absl::ConsumePrefix(&key, prefix)) return std::nullopt;
  const size_t end = key.find('\0');
  if (end == absl::string_view::npos || key.size() < end + 1 + kNumberBytes) return std::nullopt;
  const uint64_t second = ReadBigEndian(key.substr(end + 1, kNumberBytes)) ^ kSignBit;
  const absl::string_view trigger = key.substr(end + 1 + kNumberBytes);
  if (!trigger.empty() && prefix != kRowPrefix) return std::nullopt;
  return OccurrenceName{.job = std::string(key.substr(0, end)),
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
  for (const std::string& id : state.watched) message.add_watched(id);
  for (const std::string& id : state.triggered) message.add_triggered(id);
  for (const std::string& id : state.open_triggers) message.add_open_triggers(id);
  if (state.last_run_state.has_value()) {
    message.set_last_run_state(wire::ToProto(kTaskStates, *state.last_run_state));
  }
  if (state.last_run_reason.has_value()) {
    message.set_last_run_reason(wire::ToProto(kFailureReasons, *state.last_run_reason));
  }
  if (state.last_outcome.has_value()) {
    message.set_last_outcome(wire::ToProto(kOutcomes, *state.last_outcome));
  }
  if (state.last_nominal != absl::InfinitePast()) {
    message.set_last_nominal_us(absl::ToUnixMicros(state.last_nominal));
  }
  message.set_last_queue_id(state.last_queue_id);
  message.set_rows(state.rows);
  if (state.left_at.has_value()) message.set_left_at_us(absl::ToUnixMicros(*state.left_at));
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
  const std::optional<OccurrenceName> name = ParseOccurrenceKey(kRowPrefix, key);
  if (!name.has_value()) return NotUnderstood(key);
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

absl::Status Decode(absl::string_view key, absl::string_view value, Ledgered& ledgered) {
  absl::string_view name = key;
  if (absl::ConsumePrefix(&name, kJobPrefix)) {
    JobState& state = ledgered.jobs[std::string(name)];
    state.job = std::string(name);
    return Parse<storage::LedgerJob>(
        key, value, [&state](const storage::LedgerJob& message) { return Take(message, state); });
  }
  if (absl::ConsumePrefix(&name, kBackfillPrefix)) {
    Backfill& backfill = ledgered.backfills[std::string(name)];
    backfill.id = std::string(name);
    return Parse<storage::LedgerBackfill>(
        key, value,
        [&backfill](const storage::LedgerBackfill& message) { return Take(message, backfill); });
  }
  const std::optional<OccurrenceName> occurrence = ParseOccurrenceKey(kIntentPrefix, key);
  if (!occurrence.has_value()) return NotUnderstood(key);
  Intent& intent = ledgered.intents[{occurrence->job, occurrence->nominal}];
  intent.job = occurrence->job;
  intent.nominal = occurrence->nominal;
  return Parse<storage::LedgerIntent>(key, value, [&intent](const storage::LedgerIntent& message) {
    intent.moved = message.moved();
    intent.direct = message.direct();
    return true;
  });
}

}  // namespace callboard::adapters
