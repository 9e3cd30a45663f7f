#include "libs/scheduler/due.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace callboard::scheduler {
namespace {

using core::CatchUp;
using core::FiringOutcome;
using core::Job;
using core::Occurrence;

// Returns the last occurrence up to `now` if it is undecided.
std::optional<Occurrence> LastUndecided(const Job& job, const DueQuery& query) {
  std::optional<Occurrence> last = core::PreviousOccurrence(job, query.now + absl::Nanoseconds(1));
  if (!last.has_value() || last->at <= query.after) return std::nullopt;
  return last;
}

bool MayFire(const Occurrence& occurrence, const DueQuery& query) {
  return occurrence.Fires() && occurrence.at >= query.paused_until;
}

absl::Time DueAt(const Job& job, const Occurrence& occurrence, const DueQuery& query) {
  return query.jitter && MayFire(occurrence, query)
             ? occurrence.at + core::OccurrenceJitter(job, occurrence)
             : occurrence.at;
}

// Decides occurrences one after the other, starting with the last.
class OccurrenceDecider {
 public:
  OccurrenceDecider(const Job& job, const DueQuery& query) : job_(job), query_(query) {}

  // Returns the row of an occurrence that does not run; nullopt if it runs.
  std::optional<DueDecisions::Row> Decide(const Occurrence& occurrence) {
    switch (occurrence.kind) {
      case Occurrence::Kind::kFoldSuppressed:
        return DueDecisions::Row{occurrence, FiringOutcome::kDstFoldSuppressed};
      case Occurrence::Kind::kSkippedCalendar:
        return DueDecisions::Row{occurrence, FiringOutcome::kSkippedCalendar, "",
                                 static_cast<uint64_t>(occurrence.merged)};
      case Occurrence::Kind::kPlain:
      case Occurrence::Kind::kGapMoved:
        break;
    }
    if (!MayFire(occurrence, query_)) return DueDecisions::Row{occurrence, FiringOutcome::kPaused};
    const uint32_t later = missed_++;
    const absl::Duration age = query_.now - occurrence.at;
    const DueDecisions::Row missed = {occurrence, FiringOutcome::kMissedWindow};
    switch (job_.catch_up.kind) {
      case CatchUp::Kind::kLatest:
        if (age > kCatchUpAgeMax) return missed;
        if (later == 0) {
          last_ = occurrence.at;
          return std::nullopt;
        }
        return DueDecisions::Row{occurrence, FiringOutcome::kCoalesced,
                                 absl::StrCat("into ", TimeText(last_))};
      case CatchUp::Kind::kNone:
        if (later == 0 && query_.now - DueAt(job_, occurrence, query_) <= kOnTimeLimit) {
          return std::nullopt;
        }
        return missed;
      case CatchUp::Kind::kAll:
        if (later < job_.catch_up.count) return std::nullopt;
        return missed;
    }
    return missed;
  }

 private:
  const Job& job_;
  const DueQuery& query_;
  uint32_t missed_ = 0;
  absl::Time last_;
};

// Makes `row` count all occurrences between the cursor and its own.
void Summarize(const Job& job, const DueQuery& query, DueDecisions::Row& row) {
  std::optional<Occurrence> earlier = core::PreviousOccurrence(job, row.occurrence.at);
  absl::Time first = row.occurrence.at;
  for (; earlier.has_value() && earlier->at > query.after && row.more < kMissedCountMax;
       ++row.more) {
    first = earlier->at;
    earlier = core::PreviousOccurrence(job, earlier->at);
  }
  if (row.more == 0) return;
  const bool is_all = !earlier.has_value() || earlier->at <= query.after;
  absl::StrAppend(&row.detail, row.detail.empty() ? "" : "; ", "and ", is_all ? "" : "more than ",
                  row.more, " more since ", TimeText(is_all ? first : query.after));
}

}  // namespace

std::string TimeText(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

DueDecisions DecideOccurrences(const Job& job, const DueQuery& query) {
  DueDecisions due = {.cursor = query.after};
  std::optional<Occurrence> occurrence = LastUndecided(job, query);
  if (!occurrence.has_value() || DueAt(job, *occurrence, query) > query.now) return due;
  due.cursor = occurrence->at;
  OccurrenceDecider decider(job, query);
  while (occurrence.has_value() && occurrence->at > query.after) {
    std::optional<DueDecisions::Row> row = decider.Decide(*occurrence);
    if (!row.has_value()) {
      due.fires.push_back(*occurrence);
    } else {
      const std::string note = GapNote(*occurrence);
      absl::StrAppend(&row->detail, row->detail.empty() || note.empty() ? "" : "; ", note);
      const bool is_last = due.rows.size() == kMissedRowsMax;
      if (is_last) Summarize(job, query, *row);
      due.rows.push_back(*std::move(row));
      if (is_last) break;
    }
    occurrence = core::PreviousOccurrence(job, occurrence->at);
  }
  std::reverse(due.rows.begin(), due.rows.end());
  std::reverse(due.fires.begin(), due.fires.end());
  return due;
}

std::string GapNote(const Occurrence& occurrence) {
  if (occurrence.merged == 0) return "";
  const std::string times =
      absl::StrCat(occurrence.merged == core::kMergedMax ? "at least " : "", occurrence.merged,
                   occurrence.merged == 1 ? " wall time" : " wall times");
  return occurrence.after_calendar_gap ? absl::StrCat("the calendar skips ", times, " before it")
                                       : absl::StrCat("also for ", times, " of the gap before it");
}

absl::Time NextDueAt(const Job& job, const DueQuery& query) {
  std::optional<Occurrence> next = LastUndecided(job, query);
  if (!next.has_value()) next = core::NextOccurrence(job, query.after);
  return next.has_value() ? DueAt(job, *next, query) : absl::InfiniteFuture();
}

}  // namespace callboard::scheduler
