#include "libs/adapters/rocksdb_store/store_survey.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/core/life.h"
#include "libs/core/record.h"

namespace callboard::adapters {
namespace {

constexpr uint64_t kRecordsPerProgress = 1024;

// A task as far as it can be read.
struct Tracked {
  core::Life life;
  std::optional<core::QueueId> redrive_of;
  // From here on its records make no sense.
  bool is_broken = false;
};

// Takes one record after the other.
class Surveyor {
 public:
  void Take(const core::Record& record) {
    ++survey_.records;
    std::visit([this](const auto& kind) { Note(kind); }, record);
  }
  void Find(std::string finding) { survey_.findings.push_back(std::move(finding)); }
  // Unless it is known already.
  void FindOnce(absl::string_view finding) {
    for (const std::string& known : survey_.findings) {
      if (absl::StrContains(known, finding)) return;
    }
    Find(std::string(finding));
  }
  void Blame(const absl::Status& error) { survey_.may_pass |= !absl::IsDataLoss(error); }
  uint64_t records() const { return survey_.records; }

  StoreSurvey Finish() {
    std::vector<const Tracked*> tasks;
    for (const auto& [id, task] : tasks_) {
      if (task.life.events > 0) tasks.push_back(&task);
      if (task.redrive_of.has_value()) redriven_as_[*task.redrive_of] = id;
    }
    std::sort(tasks.begin(), tasks.end(), ComesBefore);
    for (const Tracked* task : tasks) Add(task->life);
    return std::move(survey_);
  }

 private:
  void Note(const core::TaskRecord& record) {
    Tracked& task = tasks_[record.queue_id];
    if (task.is_broken) return;
    if (const std::string why = core::WhyImpossible(record, task.life); !why.empty()) {
      task.is_broken = true;
      return Find(absl::StrCat("task ", core::ToString(record.queue_id), ": record ", record.number,
                               " ", why));
    }
    core::Apply(record, terms_, task.life);
    if (const auto* admitted = std::get_if<core::Admitted>(&record.change)) {
      task.redrive_of = admitted->redrive_of;
    }
  }
  void Note(const core::EpochBegan& began) { survey_.epoch = began.epoch; }
  void Note(const core::QueueSwitched& switched) {
    survey_.paused = switched.paused;
    survey_.draining = switched.draining;
  }
  void Note(const core::AgentMarked&) { ++survey_.marked_agents; }
  void Note(const core::RequestRemembered&) { ++survey_.remembered_requests; }
  void Note(const core::LeasesExtended&) {}
  void Note(const core::DispatchesForgotten&) {}
  // Never stored: they delete.
  void Note(const core::TaskForgotten&) {}
  void Note(const core::RequestForgotten&) {}

  static bool ComesBefore(const Tracked* a, const Tracked* b) {
    if (a->life.is_ended() != b->life.is_ended()) return b->life.is_ended();
    if (!a->life.is_ended()) {
      return std::pair(a->life.sequence, a->life.queue_id) <
             std::pair(b->life.sequence, b->life.queue_id);
    }
    return std::pair(b->life.finished_at, b->life.queue_id) <
           std::pair(a->life.finished_at, a->life.queue_id);
  }

  void Add(const core::Life& life) {
    SurveyedTask task = {.queue_id = life.queue_id};
    ++CountOf(survey_.counts, life.state);
    if (!life.is_ended()) CheckPlace(life);
    if (life.is_pending()) {
      task.position = survey_.counts.pending;
      if (life.created_at < survey_.oldest_pending_at) {
        survey_.oldest_pending_at = life.created_at;
        survey_.oldest_pending = life.queue_id;
      }
    }
    if (const auto found = redriven_as_.find(life.queue_id); found != redriven_as_.end()) {
      task.redriven_as = found->second;
    }
    survey_.tasks.push_back(task);
  }

  // Two cannot stand in one place.
  void CheckPlace(const core::Life& life) {
    const auto [found, is_new] = places_.emplace(life.sequence, life.queue_id);
    if (is_new) return;
    Find(absl::StrCat("task ", core::ToString(life.queue_id), ": has place ", life.sequence,
                      ", as has task ", core::ToString(found->second)));
  }

  StoreSurvey survey_;
  core::TermsPool terms_;
  std::map<core::QueueId, Tracked> tasks_;
  std::map<core::QueueId, core::QueueId> redriven_as_;
  std::unordered_map<uint64_t, core::QueueId> places_;
};

}  // namespace

StoreSurvey Survey(const StoreFolder& folder, const Progress& progress) {
  Surveyor surveyor;
  if (!folder.refusal().ok()) surveyor.Find(std::string(folder.refusal().message()));
  folder.Read(
      [&](const core::Record& record) {
        surveyor.Take(record);
        if (progress && surveyor.records() % kRecordsPerProgress == 0) progress(surveyor.records());
      },
      [&](const absl::Status& damage) {
        surveyor.Find(std::string(damage.message()));
        surveyor.Blame(damage);
      });
  if (const absl::Status status = folder.CheckTables(); !status.ok()) {
    surveyor.FindOnce(status.message());
    surveyor.Blame(status);
  }
  return surveyor.Finish();
}

}  // namespace callboard::adapters
