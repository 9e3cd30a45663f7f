#include "tests/simulation/referee.h"

#include <algorithm>
#include <memory>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/director/book.h"
#include "libs/testing/fake_random.h"

namespace callboard::simulation {
namespace {

using core::TaskState;
using director::Moment;

// Turns between two comparisons of memory and disk, which are slow.
constexpr uint64_t kTurnsBetweenReloads = 40;
// Tasks in a row that fail for an agent's sake before it is cordoned.
constexpr size_t kCordonTasks = 3;
// The shortest time in which a suspect agent gets nothing.
constexpr absl::Duration kSuspicionMin = absl::Seconds(5);

// As in core::TaskEventKind.
constexpr absl::string_view kEventNames[] = {
    "SUBMITTED", "ADMITTED", "DENIED",   "DISPATCHING", "BUSY",    "RETRY",   "RUNNING", "CANCEL",
    "DONE",      "FAILED",   "CANCELED", "TIMEOUT",     "EVICTED", "EXPIRED", "ORPHAN"};

bool Has(const std::map<std::string, std::string>& labels,
         const std::map<std::string, std::string>& required) {
  return std::all_of(required.begin(), required.end(), [&labels](const auto& label) {
    const auto found = labels.find(label.first);
    return found != labels.end() && found->second == label.second;
  });
}

}  // namespace

std::map<std::string, std::string> LabelsOfAgent(const std::string& name) {
  // Every other agent has the label that some tasks want.
  if ((name.back() - '0') % 2 == 0) return {{"os", "linux"}};
  return {};
}

void Referee::Note(absl::string_view what) const {
  if (log_ == nullptr) return;
  *log_ << absl::FormatDuration(timeline_.now()) << " " << what << "\n";
}

void Referee::Fail(const std::string& what) {
  Note(what);
  if (failure_.empty()) failure_ = what;
}

// ---- The disk ----

void Referee::OnWritten(const core::Record& record, Moment now) {
  ++counts_.records;
  hash_.Add(record.index()).Add(static_cast<uint64_t>(absl::ToInt64Microseconds(now.monotonic)));
  if (const auto* task = std::get_if<core::TaskRecord>(&record)) {
    hash_.Add(ToString(task->queue_id)).Add(task->event.number);
    hash_.Add(static_cast<uint64_t>(task->event.kind)).Add(task->event.why);
    const core::TaskEvent& event = task->event;
    if (log_ != nullptr) {
      Note(absl::StrCat(ToString(task->queue_id).substr(28), " ", event.number, " ",
                        kEventNames[static_cast<int>(event.kind)], " #", event.dispatch.value(),
                        " by ", event.who, ": ", event.why));
    }
    OnTask(*task, now);
  } else if (const auto* forgotten = std::get_if<core::TaskForgotten>(&record)) {
    const auto found = told_.find(forgotten->queue_id);
    if (found == told_.end() || found->second.is_live()) {
      return Fail(absl::StrCat("forgot a task that is not over: ", ToString(forgotten->queue_id)));
    }
    forgotten_[found->first] = found->second.state;
    told_.erase(found);
  } else if (const auto* began = std::get_if<core::EpochBegan>(&record)) {
    if (began->epoch <= epoch_) Fail("an epoch came twice");
    // The disk may be slow.
    const int64_t at_least = absl::ToUnixSeconds(now.wall - absl::Minutes(1));
    if (epoch_ == 0 && static_cast<int64_t>(began->epoch) < at_least) {
      Fail("a new store begins at an epoch that agents of an earlier one refuse");
    }
    epoch_ = began->epoch;
    epoch_began_at_ = now.monotonic;
    OnRestart(now);
  } else if (const auto* marked = std::get_if<core::AgentMarked>(&record)) {
    OnMarked(*marked);
  } else if (const auto* extended = std::get_if<core::LeasesExtended>(&record)) {
    lease_extension_ = extended->extension;
  }
}

void Referee::OnTask(const core::TaskRecord& record, Moment now) {
  Told& told = told_[record.queue_id];
  const uint64_t next = told.number + 1;
  if (record.number != next && record.number + record.replaces != next) {
    return Fail(absl::StrCat("record ", record.number, " after ", told.number));
  }
  told.number = record.number;
  if (record.event.number <= std::exchange(told.event_number, record.event.number)) {
    return Fail(absl::StrCat("the number of an event did not grow: ", record.event.number));
  }
  if (const auto* admitted = std::get_if<core::Admitted>(&record.change)) {
    OnAdmitted(record, *admitted, told);
  } else if (const auto* dispatched = std::get_if<core::Dispatched>(&record.change)) {
    OnDispatched(record, *dispatched, told, now);
  } else if (std::holds_alternative<core::Accepted>(record.change)) {
    if (told.state != TaskState::kDispatching) return Fail("accepted without a dispatch");
    NoteAnswer(told, told.agent);
    told.state = TaskState::kWorking;
  } else if (const auto* bounced = std::get_if<core::Bounced>(&record.change)) {
    NoteAnswer(told, told.agent);
    OnBounced(*bounced, told);
  } else if (const auto* returned = std::get_if<core::Returned>(&record.change)) {
    OnReturned(record, *returned, told, now);
  } else if (std::holds_alternative<core::CancelRequested>(record.change)) {
    if (!told.is_in_flight()) return Fail("a cancel was asked of nobody");
    told.cancel_requested = true;
  } else if (const auto* ended = std::get_if<core::Ended>(&record.change)) {
    OnEnded(record, *ended, told);
  }
}

void Referee::OnAdmitted(const core::TaskRecord& record, const core::Admitted& admitted,
                         Told& told) {
  ++counts_.tasks;
  const uint64_t bound = settings_.engine.queue.max_size;
  const uint64_t before = Pending() - 1 + std::exchange(dropped_for_next_, 0) + tickets_;
  told.spec = *admitted.spec;
  told.identity = admitted.identity;
  told.created_at = record.event.at;
  told.sequence = 0;
  if (admitted.sequence < BackOfLine()) return Fail("a submit did not go to the back of the line");
  told.sequence = told.admitted = admitted.sequence;
  if (bound > 0 && Pending() > std::max(bound, before)) {
    return Fail(absl::StrCat("an admission raised pending to ", Pending(), " of ", bound));
  }
  if (admitted.spec->request_id.empty()) return;
  const auto [found, is_new] = by_request_.emplace(
      std::make_pair(admitted.identity, admitted.spec->request_id), record.queue_id);
  if (!is_new) Fail(absl::StrCat("two tasks for request ", admitted.spec->request_id));
}

void Referee::OnDispatched(const core::TaskRecord& record, const core::Dispatched& dispatched,
                           Told& told, Moment now) {
  if (told.state != TaskState::kPending) return Fail("a second dispatch beside a live one");
  if (dispatched.dispatch.value() <= told.dispatch) return Fail("a dispatch number came twice");
  const std::string& agent = record.event.agent;
  CheckFirstInLine(told, agent, now);
  if (WaitsForOverlap(told.spec.overlap)) Fail("too many tasks of a key run side by side");
  told.state = TaskState::kDispatching;
  told.dispatch = dispatched.dispatch.value();
  told.dispatched_at = now.monotonic;
  ++dispatches_;
  told.agent = agent;
  told.instance_id = dispatched.instance_id;
  if (rows_[agent].cordoned) Fail(absl::StrCat(agent, " was given a task although it is cordoned"));
  if (now.monotonic < rows_[agent].suspect_until &&
      kicked_at_ < rows_[agent].suspect_until - kSuspicionMin) {
    Fail(absl::StrCat(agent, " was given a task although it left a start without an answer"));
  }
  const auto held = std::count_if(told_.begin(), told_.end(), [&agent](const auto& task) {
    return task.second.is_in_flight() && task.second.agent == agent;
  });
  if (held > settings_.slots) Fail(absl::StrCat(agent, " was given more than it has slots"));
  if (!Has(LabelsOfAgent(agent), told.spec.required_labels)) Fail("labels were ignored");
}

void Referee::CheckFirstInLine(const Told& told, const std::string& agent, Moment now) {
  if (told.spec.earliest_start_at.value_or(absl::InfinitePast()) > now.wall) {
    return Fail("a task started before its time");
  }
  if (told.spec.deadline_at.value_or(absl::InfiniteFuture()) <= now.wall) {
    return Fail("a task started after its deadline");
  }
  for (const auto& [id, other] : told_) {
    if (!told.spec.session_id.empty() && other.spec.session_id == told.spec.session_id &&
        other.is_live() && other.admitted < told.admitted) {
      return Fail("a task of a session started before an earlier one had ended");
    }
    if (other.state != TaskState::kPending) continue;
    if (other.sequence >= told.sequence || !other.spec.session_id.empty()) continue;
    if (WaitsForOverlap(other.spec.overlap)) continue;
    const bool is_ready = other.ready_at <= now.monotonic &&
                          other.spec.earliest_start_at.value_or(absl::InfinitePast()) <= now.wall &&
                          Has(LabelsOfAgent(agent), other.spec.required_labels);
    if (is_ready) {
      return Fail(absl::StrCat("sequence ", told.sequence, " overtook ", other.sequence, ", ",
                               ToString(id)));
    }
  }
}

bool Referee::WaitsForOverlap(const std::optional<core::Overlap>& overlap) const {
  if (!overlap.has_value() || overlap->policy != core::OverlapPolicy::kQueueOne) return false;
  return std::count_if(told_.begin(), told_.end(), [&overlap](const auto& task) {
           const Told& told = task.second;
           return told.is_in_flight() && told.spec.overlap.has_value() &&
                  told.spec.overlap->key == overlap->key;
         }) >= std::max<int64_t>(1, overlap->n);
}

void Referee::OnBounced(const core::Bounced& bounced, Told& told) {
  if (told.state != TaskState::kDispatching) return Fail("a bounce without a dispatch");
  if (told.cancel_requested) return Fail("a cancelled task went back in line");
  ++told.bounces;
  if (bounced.busy_rejections != told.bounces) return Fail("bounces were miscounted");
  const bool goes_back = told.bounces < 5;
  if (goes_back && bounced.sequence < BackOfLine()) {
    return Fail("a 409 did not go to the back of the line");
  }
  if (!goes_back && bounced.sequence != told.sequence) return Fail("the 5th 409 lost its place");
  told.sequence = bounced.sequence;
  told.state = TaskState::kPending;
}

void Referee::OnReturned(const core::TaskRecord& record, const core::Returned& returned, Told& told,
                         Moment now) {
  if (!told.is_in_flight()) return Fail("returned without a dispatch");
  if (told.cancel_requested) return Fail("a cancelled task went back in line");
  if (returned.counts) ++told.attempts;
  if (told.attempts >= told.spec.max_attempts) return Fail("more attempts than allowed");
  if (returned.reported) told.reported.insert(told.dispatch);
  const bool could_not_begin = returned.reported && CouldNotBegin(record, told);
  if (could_not_begin && (!returned.counts || returned.backoff <= absl::ZeroDuration())) {
    return Fail("a run that could not begin was not counted, or is to be tried again at once");
  }
  if (returned.reported && !could_not_begin) {
    if (returned.sequence < BackOfLine()) return Fail("a retried run kept its place");
  } else if (returned.sequence != told.sequence) {
    return Fail("a task that never ran to its end lost its place");
  }
  CheckCordon(record, returned, returned.reported, told);
  NoteAnswer(told, record.event.who);
  if (LeaseOfStartEnded(returned, told)) {
    rows_[told.agent].suspect_until = now.monotonic + kSuspicionMin;
  }
  told.sequence = returned.sequence;
  told.state = TaskState::kPending;
  told.backoff = returned.backoff;
  told.ready_at = now.monotonic + returned.backoff;
  told.not_before = now.wall + returned.backoff;
}

void Referee::OnEnded(const core::TaskRecord& record, const core::Ended& ended, Told& told) {
  if (!told.is_live()) {
    return Fail(absl::StrCat("two ends of ", ToString(record.queue_id)));
  }
  if (told.cancel_requested && ended.state != TaskState::kCancelled) {
    return Fail("a task that was to be cancelled was not");
  }
  if (ended.run.has_value()) {
    if (!told.is_in_flight()) return Fail("a result finished a task that was with nobody");
    if (ended.state == TaskState::kCompleted && ended.run->result != absl::StrCat(told.dispatch)) {
      return Fail(absl::StrCat("the result of dispatch ", ended.run->result, " ended dispatch ",
                               told.dispatch));
    }
    told.reported.insert(told.dispatch);
    if (CouldNotBegin(record, told) && ended.state != TaskState::kCancelled &&
        (ended.reason != core::FailureReason::kMaxAttempts || !ended.counts ||
         told.attempts + 1 != told.spec.max_attempts)) {
      return Fail("a run that could not begin ended its task before the last attempt");
    }
  } else if (ended.state == TaskState::kCompleted) {
    return Fail("completed without a result");
  }
  if (ended.state != TaskState::kCancelled) {
    CheckCordon(record, ended, ended.run.has_value(), told);
  }
  if (ended.reason == core::FailureReason::kEvicted ||
      ended.reason == core::FailureReason::kCoalesced) {
    ++dropped_for_next_;
    if (ended.reason == core::FailureReason::kEvicted && told.dispatch != 0) {
      return Fail("a task that was dispatched before was evicted");
    }
    for (const auto& [id, other] : told_) {
      if (ended.reason == core::FailureReason::kEvicted && other.state == TaskState::kPending &&
          other.dispatch == 0 && other.spec.source == told.spec.source &&
          other.sequence < told.sequence) {
        return Fail("not the oldest was evicted");
      }
    }
  }
  ++counts_.ended;
  NoteAnswer(told, record.event.who);
  told.state = ended.state;
}

void Referee::OnMarked(const core::AgentMarked& marked) {
  Row& row = rows_[marked.name];
  const bool cordoned = !marked.cordoned_instance.empty();
  row.is_newly_cordoned = cordoned && !row.cordoned;
  row.cordoned = cordoned;
  if (cordoned) return;
  row.could_not_begin.clear();
  row.failed.clear();
}

template <class Change>
void Referee::CheckCordon(const core::TaskRecord& record, const Change& change, bool reported,
                          const Told& told) {
  Row& row = rows_[told.agent];
  const bool could_not_begin = reported && CouldNotBegin(record, told);
  if (reported && !could_not_begin) {
    row.could_not_begin.clear();
    row.failed.clear();
  }
  if (change.blame == core::Blame::kAgentFailedIt) row.failed.insert(record.queue_id);
  // What a later life of the agent says of this one may not count.
  if (could_not_begin && told.instance_id == row.instance_id) {
    row.could_not_begin.insert(record.queue_id);
  }
  if (row.could_not_begin.size() >= kCordonTasks && !row.cordoned) {
    Fail(absl::StrCat(told.agent, " could not begin three tasks in a row and is not cordoned"));
  }
  // One that refuses its director is cordoned too; that does not count against the task.
  if (std::exchange(row.is_newly_cordoned, false) && change.counts &&
      row.failed.size() < kCordonTasks) {
    Fail(absl::StrCat(told.agent, " was cordoned for fewer than three tasks in a row"));
  }
}

uint64_t Referee::BackOfLine() const {
  uint64_t back = 0;
  for (const auto& [id, told] : told_) {
    if (told.is_live()) back = std::max(back, told.sequence + 1);
  }
  return back;
}

uint64_t Referee::Pending() const {
  return static_cast<uint64_t>(std::count_if(told_.begin(), told_.end(), [](const auto& task) {
    return task.second.state == TaskState::kPending;
  }));
}

void Referee::OnRestart(Moment now) {
  // What is left of a backoff is measured by a clock that may have jumped; it never gets longer.
  for (auto& [id, told] : told_) {
    told.ready_at = now.monotonic + std::min(told.backoff, told.not_before - now.wall);
  }
  for (auto& [agent, row] : rows_) {
    row.could_not_begin.clear();
    row.failed.clear();
    row.suspect_until = -absl::InfiniteDuration();
  }
}

// ---- What is said ----

void Referee::OnSubmitAcknowledged(const std::string& identity, const std::string& request_id,
                                   core::QueueId id, bool deduplicated) {
  if (!told_.contains(id) && !forgotten_.contains(id)) {
    return Fail(absl::StrCat(ToString(id), " was acknowledged and is not on disk"));
  }
  const auto found = by_request_.find({identity, request_id});
  if (found == by_request_.end() || found->second != id) {
    Fail(absl::StrCat("request ", request_id, " was answered with another task",
                      deduplicated ? " (deduplicated)" : ""));
  }
}

void Referee::OnCancelAcknowledged(core::QueueId id) {
  const auto found = told_.find(id);
  if (found == told_.end()) return;
  if (found->second.state != TaskState::kCancelled && !found->second.cancel_requested) {
    return Fail("a cancel was acknowledged and is not on disk");
  }
  cancel_acknowledged_.insert(id);
}

void Referee::OnResultForgotten(const core::FenceToken& token) {
  const auto found = told_.find(token.queue_id);
  if (found == told_.end()) {
    if (!forgotten_.contains(token.queue_id)) Fail("a result of no task was acknowledged");
    return;
  }
  if (!found->second.reported.contains(token.dispatch.value())) {
    Fail(absl::StrCat("a result was acknowledged and is not on disk: dispatch ",
                      token.dispatch.value(), " of ", ToString(token.queue_id)));
  }
}

void Referee::OnKnockAnswered(uint64_t call, bool admitted) {
  const auto found = waiting_.find(call);
  if (found == waiting_.end()) return;
  if (admitted) last_let_in_ = std::max(last_let_in_, found->second);
  waiting_.erase(found);
}

// ---- Processes ----

void Referee::OnProcessStarted(const std::string& agent, const core::FenceToken& token) {
  Note(absl::StrCat("  ", agent, " begins ", ToString(token.queue_id).substr(28), " #",
                    token.dispatch.value()));
  auto& running = processes_[token.queue_id];
  if (!running.empty()) {
    return Fail(absl::StrCat(agent, " runs ", ToString(token.queue_id), " while ",
                             running.begin()->first, " still does"));
  }
  running.emplace(agent, token);
}

void Referee::OnProcessGone(const std::string& agent, const core::FenceToken& token) {
  Note(absl::StrCat("  ", agent, " is rid of ", ToString(token.queue_id).substr(28), " #",
                    token.dispatch.value()));
  processes_[token.queue_id].erase({agent, token});
}

// ---- Looking in ----

void Referee::OnTurn(const director::DirectorEngine& engine, const test::MemoryDisk& disk,
                     const Gauges& gauges, Moment now) {
  ++counts_.turns;
  dropped_for_next_ = 0;
  for (const auto& [call, knock] : waiting_) {
    if (knock < last_let_in_) Fail("somebody was let in before another who came first");
  }
  last_let_in_ = 0;
  tickets_ = engine.Status(now).tickets;
  for (const auto& [request, id] : by_request_) {
    const auto& [identity, request_id] = request;
    if (!engine.waiting_line().WithRequest(identity, request_id).empty() &&
        engine.book().FindRequest(identity, request_id, now.wall).has_value()) {
      Fail(absl::StrCat("somebody waits although request ", request_id, " has its task"));
    }
  }
  CheckWorkConservation(engine, now);
  CheckLeasesOfStarts(now);
  CheckGauges(engine, gauges);
  if (counts_.turns % kTurnsBetweenReloads == 0) CheckAgainstDisk(engine, disk);
}

void Referee::CheckWorkConservation(const director::DirectorEngine& engine, Moment now) {
  const core::QueueStatus status = engine.Status(now);
  const uint64_t bound = settings_.engine.queue.max_size;
  if (status.waiting > 0 && (bound == 0 || status.counts.pending + status.tickets < bound) &&
      engine.waiting_line().Next(/*scheduler_may=*/false).has_value()) {
    return Fail("somebody waits although there is a place");
  }
  if (status.paused || engine.is_going_away()) return;
  for (const auto& [name, agent] : engine.fleet().agents()) {
    if (!engine.fleet().TakesTasks(agent, now)) continue;
    const auto lane = agent.lanes.find("default");
    if (lane == agent.lanes.end() || !lane->second.has_free_slot()) continue;
    for (const auto& [sequence, entry] : engine.book().line()) {
      const core::Life& life = entry->life;
      if (!life.is_pending() || !life.session_id.empty()) continue;
      if (entry->clocks.not_before > now.monotonic || life.earliest_start_at > now.wall) continue;
      if (!Has(agent.labels, life.terms->required_labels)) continue;
      if (WaitsForOverlap(life.terms->overlap)) continue;
      return Fail(absl::StrCat(name, " idles although ", ToString(life.queue_id), " is ready"));
    }
  }
}

// What it shows is what a recount of the disk, or of its own lists, finds.
void Referee::CheckGauges(const director::DirectorEngine& engine, const Gauges& gauges) {
  director::QueueLevels counted = {.waiting = engine.waiting_line().size(),
                                   .max_size = settings_.engine.queue.max_size,
                                   .remembered_requests = engine.book().remembered().size()};
  uint64_t first = 0;
  for (const auto& [id, told] : told_) {
    if (told.is_in_flight()) ++counted.in_flight;
    if (told.state != TaskState::kPending) continue;
    if (counted.pending++ > 0 && told.admitted > first) continue;
    first = told.admitted;
    counted.oldest = told.created_at;
  }
  const director::QueueLevels& shown = gauges.levels();
  if (!(shown == counted)) {
    return Fail(absl::StrCat("gauges show ", ToText(shown), "; there are ", ToText(counted)));
  }
  if (gauges.service() != director::Service::kFull) Fail("the store is open and shown as not");
}

void Referee::CheckAgainstDisk(const director::DirectorEngine& engine,
                               const test::MemoryDisk& disk) {
  engine.book().CheckIndexes();
  test::FakeRandom random;
  director::DirectorEngine reloaded(settings_.engine, random);
  disk.Read([&reloaded](const core::Record& record) { CHECK_OK(reloaded.Recover(record)); });
  const auto lives = [](const director::DirectorEngine& of) {
    std::vector<core::Life> all;
    for (const auto& [sequence, entry] : of.book().line()) all.push_back(entry->life);
    for (const auto& [key, entry] : of.book().ended()) all.push_back(entry->life);
    return all;
  };
  if (lives(engine) != lives(reloaded))
    return Fail("memory differs from what a restart would find");
  if (engine.book().dispatches() != reloaded.book().dispatches() ||
      engine.book().dispatches() != dispatches_) {
    return Fail("dispatches were miscounted");
  }
  if (!(engine.book().switched() == reloaded.book().switched()) ||
      engine.book().marked_agents() != reloaded.book().marked_agents()) {
    Fail("the queue's switches differ from what a restart would find");
  }
}

void Referee::OnEnd() {
  for (const auto& [id, told] : told_) {
    if (told.is_live()) {
      return Fail(absl::StrCat(ToString(id), " never ended: state ", static_cast<int>(told.state),
                               ", attempts ", told.attempts, ", agent ", told.agent));
    }
  }
  for (const core::QueueId& id : cancel_acknowledged_) {
    const auto found = told_.find(id);
    const TaskState state = found == told_.end() ? forgotten_[id] : found->second.state;
    if (state != TaskState::kCancelled) return Fail("a cancel was acknowledged and forgotten");
  }
  if (!waiting_.empty()) Fail("a caller was never answered");
}

}  // namespace callboard::simulation
