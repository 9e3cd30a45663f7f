#include "libs/director/driver.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/status_macros.h"
#include "libs/core/life.h"
#include "libs/director/task_reads.h"

namespace callboard::director {
namespace {

// A full command queue empties within a few turns.
constexpr absl::Duration kOverloadedRetryAfter = absl::Milliseconds(100);
constexpr absl::Duration kCheckpointRetryAfter = absl::Seconds(1);
// Longest sleep; a turn that finds nothing to do costs nothing.
constexpr absl::Duration kIdleMax = absl::Hours(1);
// So that the disk gets something to do before all that waits is decided.
constexpr size_t kCommandsAtOnce = 16;

absl::Status Overloaded(size_t calls_max) {
  return base::WithRetryAfter(
      base::WithReason(absl::UnavailableError(absl::StrCat("the director is overloaded (",
                                                           calls_max, " calls wait); retry")),
                       "OVERLOADED", {{"calls_max", absl::StrCat(calls_max)}}),
      kOverloadedRetryAfter);
}

absl::Status StoreClosed() {
  return base::WithRetryAfter(
      base::WithReason(absl::UnavailableError("the director's store is not available; retry"),
                       "STORE_UNAVAILABLE"),
      kOverloadedRetryAfter);
}

absl::Status CheckpointsWait() {
  return base::WithRetryAfter(
      base::WithReason(absl::UnavailableError("a checkpoint is being made, and another one waits; "
                                              "retry when they are done"),
                       "OVERLOADED"),
      kCheckpointRetryAfter);
}

// Reads the store in `lane` and answers with what that gives. False when too many wait.
template <class T, class Reading>
bool Read(StoreReader& reader, flow::Lane& lane, const DirectorDriver::Reply<T>& reply,
          Reading reading) {
  return reader.Post(lane, [reply, reading](const ports::EventStore* store) {
    if (store == nullptr) return reply(StoreClosed());
    reply(reading(*store));
  });
}

absl::StatusOr<EventPage> EventsAt(const ports::EventStore& store, const EventQuery& query) {
  ASSIGN_OR_RETURN(const std::vector<core::TaskRecord> records, store.TaskRecords(query.queue_id));
  if (records.empty()) return TaskNotFound(query.queue_id);
  const std::vector<core::TaskEvent> events = core::EventsFrom(records);
  const size_t first = std::min(query.first, events.size());
  const size_t last = first + std::min(query.page_size, events.size() - first);
  return EventPage{.events = {events.begin() + first, events.begin() + last},
                   .first = first,
                   .has_more = last < events.size()};
}

absl::StatusOr<TaskPage> PageFrom(const ports::EventStore& store, const ListPage& page) {
  TaskPage tasks = {.next = page.next};
  for (const ListPage::Item& item : page.tasks) {
    absl::StatusOr<core::Task> task = TaskAt(store, item.glance);
    if (absl::IsNotFound(task.status())) continue;
    RETURN_IF_ERROR(task.status());
    tasks.tasks.push_back({*std::move(task), item.here});
  }
  return tasks;
}

}  // namespace

std::vector<flow::LaneOptions> DriverLanes(uint32_t reads_at_once, const DriverOptions& options) {
  // Every call that was let in may read.
  const auto reads_max = static_cast<uint32_t>(options.calls_max);
  return {
      {.name = std::string(kReadsLane), .limit = {reads_at_once, reads_max}, .demand = {.io = 1}},
      // Each watch reads one thing at a time. Calls go before them.
      {.name = std::string(kWatchesLane),
       .limit = {std::max(1u, reads_at_once / 2), ChangeFeed::kFollowersMax},
       .priority = flow::Priority::kLow,
       .demand = {.io = 1}},
      // Of no tokens: it takes its time, and no read waits for it.
      {.name = std::string(kCheckpointsLane), .limit = {1, 1}}};
}

absl::StatusOr<std::unique_ptr<DirectorDriver>> DirectorDriver::Open(const DriverOptions& options,
                                                                     const World& world,
                                                                     flow::Flow& flow) {
  auto director = std::make_unique<Director>(options.engine, world);
  if (const absl::Status status = director->Open(); director->service() == Service::kNone) {
    return status;
  }
  return std::unique_ptr<DirectorDriver>(new DirectorDriver(options, std::move(director), flow));
}

DirectorDriver::DirectorDriver(const DriverOptions& options, std::unique_ptr<Director> director,
                               flow::Flow& flow)
    : options_(options),
      reads_(flow.lane(kReadsLane)),
      watches_(flow.lane(kWatchesLane)),
      checkpoints_(flow.lane(kCheckpointsLane)),
      reader_(flow.executor()),
      director_(std::move(director)) {
  director_->OnStore([this](const ports::EventStore* store) { reader_.Attach(store); });
  director_->Feed(feed_);
  writer_ = std::thread([this] { WriteAll(); });
  decider_ = std::thread([this] { DecideAll(); });
}

DirectorDriver::~DirectorDriver() {
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    something_to_decide_.NotifyOne();
  }
  decider_.join();
  writer_.join();
  // Whoever is told at last that nobody will answer may still post something.
  director_.reset();
}

bool DirectorDriver::HasRoom(const Command& command) const {
  switch (command.from()) {
    case Command::From::kCaller:
      return calls_waiting_ < options_.calls_max;
    case Command::From::kAgent:
      return messages_waiting_ < options_.agent_messages_max;
    case Command::From::kLink:
      return true;
  }
  return false;
}

void DirectorDriver::Add(CommandPtr command) {
  size_t& waiting = command->from() == Command::From::kCaller ? calls_waiting_ : messages_waiting_;
  waiting += command->weight();
  waiting_.push_back(std::move(command));
  if (writing_ == Writing::kNothing && CanTakeNext()) {
    something_to_write_.NotifyOne();
  } else if (HasWork()) {
    something_to_decide_.NotifyOne();
  }
}

bool DirectorDriver::PostOrWait(CommandPtr& command, std::function<void()> when_room) {
  base::MutexLock lock(mutex_);
  // Callers that cannot wait have the other half for themselves.
  if (calls_waiting_ < std::max<size_t>(1, options_.calls_max / 2)) {
    Add(std::move(command));
    return true;
  }
  when_room_.push_back(std::move(when_room));
  return false;
}

bool DirectorDriver::Post(CommandPtr&& command) {
  {
    base::MutexLock lock(mutex_);
    if (HasRoom(*command)) {
      Add(std::move(command));
      return true;
    }
  }
  if (command->from() == Command::From::kCaller) command->Refuse(Overloaded(options_.calls_max));
  return false;
}

void DirectorDriver::GetQueueStatus(Reply<core::QueueStatus> reply) {
  Ask<core::QueueStatus>(
      Command::Need::kRead, [](DirectorEngine& engine, Moment now) { return engine.Status(now); },
      std::move(reply));
}

template <class T, class Reading>
void DirectorDriver::LookAndRead(core::QueueId id, Reply<T> reply, Reading reading) {
  Post(CallCommand<Glance>(
      Command::Need::kRead, [id](DirectorEngine& engine, Moment) { return engine.Look(id); },
      [this, reply = std::move(reply), reading](const absl::StatusOr<Glance>& glance) {
        if (!glance.ok()) return reply(glance.status());
        const auto read = [glance = *glance, reading](const ports::EventStore& store) {
          return reading(store, glance);
        };
        if (!Read(reader_, reads_, reply, read)) reply(Overloaded(reads_.limit().max_pending));
      }));
}

void DirectorDriver::GetTask(core::QueueId id, Reply<core::Task> reply) {
  LookAndRead<core::Task>(id, std::move(reply), TaskAt);
}

void DirectorDriver::ListTaskEvents(const EventQuery& query, Reply<EventPage> reply) {
  LookAndRead<EventPage>(
      query.queue_id, std::move(reply),
      [query](const ports::EventStore& store, const Glance&) { return EventsAt(store, query); });
}

void DirectorDriver::ExplainTask(core::QueueId id, Reply<Explanation> reply) {
  Ask<Explanation>(
      Command::Need::kRead,
      [id](DirectorEngine& engine, Moment now) { return engine.Explain(id, now); },
      std::move(reply));
}

void DirectorDriver::KickDispatcher(Reply<Kicked> reply) {
  Ask<Kicked>(
      Command::Need::kWrite, [](DirectorEngine& engine, Moment now) { return engine.Kick(now); },
      std::move(reply));
}

void DirectorDriver::ListTasks(const ListQuery& query, Reply<TaskPage> reply) {
  Post(CallCommand<ListPage>(
      Command::Need::kRead,
      [query](DirectorEngine& engine, Moment) -> absl::StatusOr<ListPage> {
        return engine.List(query);
      },
      [this, reply](const absl::StatusOr<ListPage>& page) {
        if (!page.ok()) return reply(page.status());
        const auto read = [page = *page](const ports::EventStore& store) {
          return PageFrom(store, page);
        };
        if (!Read(reader_, reads_, reply, read)) reply(Overloaded(reads_.limit().max_pending));
      }));
}

void DirectorDriver::CancelTask(core::QueueId id, const std::string& who, const std::string& why,
                                Reply<CancelAnswer> reply) {
  Ask<CancelAnswer>(
      Command::Need::kWrite,
      [id, who, why](DirectorEngine& engine, Moment now) {
        return engine.Cancel(id, who, why, now);
      },
      std::move(reply));
}

std::function<void(Redrive::Reading)> DirectorDriver::ReadsIn(flow::Lane& lane) {
  return [this, &lane](const Redrive::Reading& reading) {
    const auto run = [reading](const ports::EventStore* store) {
      if (store == nullptr) return reading(StoreClosed());
      reading(store);
    };
    if (!reader_.Post(lane, run)) reading(Overloaded(options_.calls_max));
  };
}

std::function<void(CommandPtr)> DirectorDriver::Posts() {
  return [this](CommandPtr command) { Post(std::move(command)); };
}

void DirectorDriver::RedriveTasks(std::vector<absl::StatusOr<core::QueueId>> tasks, std::string who,
                                  Redrive::Reply reply) {
  std::make_shared<Redrive>(Redrive::Desk{ReadsIn(reads_), Posts()}, std::move(tasks),
                            std::move(who), std::move(reply))
      ->ReadGroup();
}

std::shared_ptr<SubmitStream> DirectorDriver::SubmitTasks(SubmitStream::Owner owner) {
  const auto post = [this](CommandPtr& command, std::function<void()> when_room) {
    return PostOrWait(command, std::move(when_room));
  };
  return std::make_shared<SubmitStream>(SubmitStream::Desk{NextCall(), post, Posts()},
                                        std::move(owner));
}

std::shared_ptr<TaskWatch> DirectorDriver::WatchTasks(WatchQuery query, TaskWatch::Viewer viewer) {
  return std::make_shared<TaskWatch>(TaskWatch::Desk{feed_, ReadsIn(watches_), Posts()},
                                     std::move(query), std::move(viewer));
}

void DirectorDriver::CreateCheckpoint(const std::string& name, Reply<ports::Checkpoint> reply) {
  const auto copy = [name](const ports::EventStore& store) { return store.CreateCheckpoint(name); };
  if (!Read(reader_, checkpoints_, reply, copy)) reply(CheckpointsWait());
}

void DirectorDriver::GoAway(absl::Duration patience) {
  // Shared: an answer may come after the wait is over.
  struct Wait {
    base::Mutex mutex;
    base::CondVar changed;
    bool is_over ABSL_GUARDED_BY(mutex) = false;
  };
  const auto wait = std::make_shared<Wait>();
  const auto end = [wait](const absl::StatusOr<bool>&) {
    base::MutexLock lock(wait->mutex);
    wait->is_over = true;
    wait->changed.NotifyAll();
  };
  Ask<bool>(
      Command::Need::kWrite,
      [](DirectorEngine& engine, Moment now) -> absl::StatusOr<bool> {
        engine.GoAway(now);
        return true;
      },
      end);
  base::MutexLock lock(wait->mutex);
  wait->changed.WaitFor(wait->mutex, patience,
                        [&wait]()
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(wait->mutex) { return wait->is_over; });
}

void DirectorDriver::BeginDrain() {
  base::MutexLock lock(mutex_);
  drain_wanted_ = true;
  something_to_decide_.NotifyOne();
}

void DirectorDriver::DecideAll() {
  while (DecideSome()) {
  }
  base::MutexLock lock(mutex_);
  writing_ = Writing::kStop;
  something_to_write_.NotifyOne();
}

bool DirectorDriver::HasWork() const {
  // While the disk is busy there is no hurry: a few are decided together.
  const bool has_commands =
      waiting_.size() >= (writing_ == Writing::kNothing ? 1 : kCommandsAtOnce) && !turn_is_full_;
  return has_commands || drain_wanted_ || writing_ == Writing::kFailed ||
         (writing_ == Writing::kNothing && (stopping_ || has_turn_));
}

void DirectorDriver::WaitForWork() {
  while (true) {
    if (deciding_) {
      wakes_at_ = absl::InfiniteDuration();
      something_to_decide_.Wait(mutex_);
      continue;
    }
    // No timer fires before what has arrived is decided; the writing thread ends the wait.
    wakes_at_ = turn_is_full_ ? absl::InfiniteDuration() : director_->NextTurnAt();
    const absl::Duration wait = std::min(wakes_at_ - director_->Now().monotonic, kIdleMax);
    if (HasWork() || wait <= absl::ZeroDuration()) return;
    something_to_decide_.WaitFor(mutex_, wait);
  }
}

DirectorDriver::Arrived DirectorDriver::TakeArrived() {
  if (turn_is_full_) return {};
  calls_waiting_ = messages_waiting_ = 0;
  return {std::exchange(waiting_, {}), std::exchange(when_room_, {}), /*is_all=*/true};
}

bool DirectorDriver::DecideSome() {
  Arrived arrived;
  Turn failed;
  absl::Status failure;
  bool idle = false;
  bool draining = false;
  bool stopping = false;
  {
    base::MutexLock lock(mutex_);
    has_turn_ = director_->has_turn();
    turn_is_full_ = director_->answers() >= options_.calls_max;
    deciding_ = false;
    WaitForWork();
    deciding_ = true;
    if (writing_ == Writing::kFailed) {
      failed = std::exchange(turn_, {});
      failure = std::exchange(failure_, absl::OkStatus());
      writing_ = Writing::kNothing;
    }
    idle = writing_ == Writing::kNothing;
    arrived = TakeArrived();
    stopping = stopping_;
    draining = std::exchange(drain_wanted_, false) || stopping;
  }
  for (const std::function<void()>& run : arrived.when_room) run();
  const bool last = stopping && idle && arrived.commands.empty() && failure.ok();
  if (!failure.ok()) director_->Fail(failed, failure);
  if (idle) director_->ReopenIfDue();
  const Moment now = director_->Now();
  if (draining) director_->BeginShutdown(now);
  absl::Span<CommandPtr> rest = absl::MakeSpan(arrived.commands);
  while (!rest.empty()) {
    director_->Decide(rest.subspan(0, kCommandsAtOnce), now);
    rest.remove_prefix(std::min(rest.size(), kCommandsAtOnce));
    HandOver();
  }
  if (arrived.is_all) director_->FireTimers(now);
  if (last && !director_->has_turn()) return false;
  HandOver();
  return true;
}

void DirectorDriver::HandOver() {
  if (!director_->has_turn()) return;
  base::MutexLock lock(mutex_);
  if (writing_ != Writing::kNothing) return;
  PutTurn();
  something_to_write_.NotifyOne();
}

void DirectorDriver::PutTurn() {
  // One that was lost would be in memory and never on disk.
  CHECK(turn_.is_empty());
  turn_ = director_->TakeTurn();
  writing_ = Writing::kTurn;
}

void DirectorDriver::WriteAll() {
  while (true) {
    Turn turn;
    bool has_turn = false;
    {
      base::MutexLock lock(mutex_);
      while (writing_ != Writing::kTurn && writing_ != Writing::kStop && !CanTakeNext()) {
        something_to_write_.Wait(mutex_);
      }
      if (writing_ == Writing::kStop) return;
      has_turn = writing_ == Writing::kTurn;
      turn = std::exchange(turn_, {});
      // Nobody hands another one over before this one is written, or there was none to take.
      writing_ = Writing::kTurn;
    }
    absl::Status status;
    if (has_turn) status = director_->Commit(turn);
    if (has_turn && status.ok()) status = director_->Say(std::exchange(turn, {}));
    if (status.ok() && TakeNext()) continue;
    base::MutexLock lock(mutex_);
    writing_ = status.ok() ? Writing::kNothing : Writing::kFailed;
    turn_ = std::move(turn);
    failure_ = std::move(status);
    if (HasWork() && !CanTakeNext()) something_to_decide_.NotifyOne();
  }
}

bool DirectorDriver::AreFew() const {
  return !waiting_.empty() && waiting_.size() < kCommandsAtOnce;
}

bool DirectorDriver::CanTakeNext() const {
  return !deciding_ && !drain_wanted_ && !stopping_ && writing_ != Writing::kFailed &&
         (has_turn_ || AreFew());
}

bool DirectorDriver::TakeNext() {
  Arrived arrived;
  {
    base::MutexLock lock(mutex_);
    if (!CanTakeNext()) return false;
    deciding_ = true;
    if (AreFew()) arrived = TakeArrived();
  }
  for (const std::function<void()>& run : arrived.when_room) run();
  const Moment now = director_->Now();
  director_->Decide(absl::MakeSpan(arrived.commands), now);
  if (arrived.is_all) director_->FireTimers(now);
  base::MutexLock lock(mutex_);
  deciding_ = has_turn_ = turn_is_full_ = false;
  const bool has_next = director_->has_turn();
  if (has_next) PutTurn();
  const bool is_due_earlier = director_->NextTurnAt() < wakes_at_;
  if ((HasWork() && !CanTakeNext()) || is_due_earlier) something_to_decide_.NotifyOne();
  return has_next;
}

}  // namespace callboard::director
