#include "libs/director/driver.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/core/task_state.h"
#include "libs/director/store_reader.h"

namespace callboard::director {
namespace {

// A full inbox is emptied within a few turns.
constexpr absl::Duration kOverloadedRetryAfter = absl::Milliseconds(100);
constexpr absl::Duration kCheckpointRetryAfter = absl::Seconds(1);
// Longest sleep. A round without work costs nothing.
constexpr absl::Duration kIdleMax = absl::Hours(1);
// Commands are decided in groups of this size, so that the disk gets its first turn before the
// whole inbox is decided.
constexpr size_t kCommandsAtOnce = 16;

absl::Status Overloaded(size_t calls_max) {
  return base::WithRetryAfter(
      base::WithReason(
          absl::UnavailableError(absl::StrCat("the director is overloaded (", calls_max,
                                              " calls are waiting); retry")),
          "OVERLOADED", {{"calls_max", absl::StrCat(calls_max)}}),
      kOverloadedRetryAfter);
}

absl::Status TooManyCheckpoints() {
  return base::WithRetryAfter(
      base::WithReason(absl::UnavailableError("a checkpoint is in progress and another one is "
                                              "waiting; retry later"),
                       "OVERLOADED"),
      kCheckpointRetryAfter);
}

// Reads the store in `lane` and replies with the result. Returns false when the lane is full.
template <class T, class ReadFn>
bool Read(StoreReader& reader, flow::Lane& lane, const DirectorDriver::Reply<T>& reply,
          ReadFn read_fn) {
  return reader.Post(lane, [reply, read_fn](const ports::EventStore* store) {
    if (store == nullptr) return reply(StoreUnavailable(kOverloadedRetryAfter));
    reply(read_fn(*store));
  });
}

// Returns a function that finds the task in the engine.
auto FindById(core::QueueId id) {
  return [id](DirectorEngine& engine, Moment) { return engine.views().Summarize(id); };
}

// Returns the task; if it was deleted, a task that has only its id and its state.
absl::StatusOr<core::Task> ReadTaskOrSummary(const ports::EventStore& store,
                                             const TaskSummary& summary) {
  absl::StatusOr<core::Task> task = ReadTask(store, summary);
  if (!absl::IsNotFound(task.status())) return task;
  core::Task deleted;
  deleted.queue_id = summary.queue_id;
  deleted.state = summary.state;
  return deleted;
}

absl::StatusOr<EventPage> ReadEvents(const ports::EventStore& store, const EventQuery& query) {
  ASSIGN_OR_RETURN(const std::vector<core::TaskRecord> records, store.TaskRecords(query.queue_id));
  if (records.empty()) return TaskNotFound(query.queue_id);
  const std::vector<core::TaskEvent> events = core::BuildEvents(records);
  const size_t first = std::min(query.first, events.size());
  const size_t last = first + std::min(query.page_size, events.size() - first);
  return EventPage{.events = {events.begin() + first, events.begin() + last},
                   .first = first,
                   .has_more = last < events.size()};
}

absl::StatusOr<TaskPage> ReadPage(const ports::EventStore& store, const ListPage& page) {
  TaskPage tasks = {.next = page.next};
  for (const ListPage::Item& item : page.tasks) {
    absl::StatusOr<core::Task> task = ReadTask(store, item.summary);
    if (absl::IsNotFound(task.status())) continue;
    RETURN_IF_ERROR(task.status());
    tasks.tasks.push_back({*std::move(task), item.cursor});
  }
  return tasks;
}

}  // namespace

std::vector<flow::LaneOptions> DriverLanes(uint32_t reads_at_once, const DriverOptions& options) {
  // Every accepted call may read.
  const auto reads_max = static_cast<uint32_t>(options.calls_max);
  return {
      {.name = std::string(kReadsLane), .limit = {reads_at_once, reads_max}, .demand = {.io = 1}},
      // Each watch has at most one read in the lane. Reads of calls go first.
      {.name = std::string(kWatchesLane),
       .limit = {std::max(1u, reads_at_once / 2), ChangeFeed::kSubscribersMax},
       .priority = flow::Priority::kLow,
       .demand = {.io = 1}},
      // Needs no tokens: a checkpoint may take long, and no read waits for it.
      {.name = std::string(kCheckpointsLane), .limit = {1, 1}}};
}

absl::StatusOr<std::unique_ptr<DirectorDriver>> DirectorDriver::Open(const DriverOptions& options,
                                                                     const Deps& deps,
                                                                     flow::Flow& flow) {
  auto director = std::make_unique<Director>(options.engine, deps);
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
  director_->SetStoreListener([this](const ports::EventStore* store) { reader_.Attach(store); });
  director_->SetChangeFeed(feed_);
  writer_ = std::thread([this] { WriteLoop(); });
  decider_ = std::thread([this] { DecideLoop(); });
}

DirectorDriver::~DirectorDriver() {
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    wake_decider_.NotifyOne();
  }
  decider_.join();
  writer_.join();
  // A command that fails here may post another command, so the driver is still complete.
  director_.reset();
}

bool DirectorDriver::HasRoom(const Command& command) const {
  switch (command.origin()) {
    case Command::Origin::kCaller:
      return calls_in_inbox_ < options_.calls_max;
    case Command::Origin::kAgent:
      return messages_in_inbox_ < options_.agent_messages_max;
    case Command::Origin::kLink:
      return true;
  }
  return false;
}

void DirectorDriver::Add(CommandPtr command) {
  size_t& waiting =
      command->origin() == Command::Origin::kCaller ? calls_in_inbox_ : messages_in_inbox_;
  waiting += command->weight();
  inbox_.push_back(std::move(command));
  if (writer_state_ == WriterState::kIdle && WriterCanDecide()) {
    wake_writer_.NotifyOne();
  } else if (HasWork()) {
    wake_decider_.NotifyOne();
  }
}

bool DirectorDriver::PostOrWait(CommandPtr& command, std::function<void()> on_room) {
  base::MutexLock lock(mutex_);
  // The other half is reserved for callers that cannot wait.
  if (calls_in_inbox_ < std::max<size_t>(1, options_.calls_max / 2)) {
    Add(std::move(command));
    return true;
  }
  on_room_.push_back(std::move(on_room));
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
  if (command->origin() == Command::Origin::kCaller) command->Fail(Overloaded(options_.calls_max));
  return false;
}

template <class T, class FindFn, class ReadFn>
void DirectorDriver::FindAndRead(FindFn find_fn, Reply<T> reply, ReadFn read_fn) {
  Post(MakeCommand(
      {.access = Command::Access::kRead}, std::move(find_fn),
      [this, reply = std::move(reply), read_fn](const absl::StatusOr<TaskSummary>& summary) {
        if (!summary.ok()) return reply(summary.status());
        const auto read = [summary = *summary, read_fn](const ports::EventStore& store) {
          return read_fn(store, summary);
        };
        if (!Read(reader_, reads_, reply, read)) reply(Overloaded(reads_.limit().max_pending));
      }));
}

void DirectorDriver::GetTask(core::QueueId id, Reply<core::Task> reply) {
  FindAndRead<core::Task>(FindById(id), std::move(reply), ReadTask);
}

void DirectorDriver::GetTaskByRequestId(const std::string& identity, const std::string& request_id,
                                        Reply<core::Task> reply) {
  FindAndRead<core::Task>(
      [identity, request_id](DirectorEngine& engine, Moment now) {
        return engine.views().FindByRequestId(identity, request_id, now);
      },
      std::move(reply), ReadTaskOrSummary);
}

void DirectorDriver::ListTaskEvents(const EventQuery& query, Reply<EventPage> reply) {
  FindAndRead<EventPage>(FindById(query.queue_id), std::move(reply),
                         [query](const ports::EventStore& store, const TaskSummary&) {
                           return ReadEvents(store, query);
                         });
}

void DirectorDriver::ListTasks(const ListQuery& query, Reply<TaskPage> reply) {
  Post(MakeCommand(
      {.access = Command::Access::kRead},
      [query](DirectorEngine& engine, Moment) { return engine.views().List(query); },
      [this, reply](const absl::StatusOr<ListPage>& page) {
        if (!page.ok()) return reply(page.status());
        const auto read = [page = *page](const ports::EventStore& store) {
          return ReadPage(store, page);
        };
        if (!Read(reader_, reads_, reply, read)) reply(Overloaded(reads_.limit().max_pending));
      }));
}

std::function<void(Redrive::ReadCallback)> DirectorDriver::ReadFunction(flow::Lane& lane) {
  return [this, &lane](const Redrive::ReadCallback& callback) {
    const auto itself = [](const ports::EventStore& store) { return &store; };
    if (!Read(reader_, lane, callback, itself)) callback(Overloaded(options_.calls_max));
  };
}

std::function<void(CommandPtr)> DirectorDriver::PostFunction() {
  return [this](CommandPtr command) { Post(std::move(command)); };
}

void DirectorDriver::RedriveTasks(std::vector<absl::StatusOr<core::QueueId>> tasks, std::string who,
                                  Redrive::MakeSubmission make_submission, Redrive::Reply reply) {
  std::make_shared<Redrive>(Redrive::Deps{ReadFunction(reads_), PostFunction()}, std::move(tasks),
                            std::move(who), std::move(make_submission), std::move(reply))
      ->ReadGroup();
}

std::shared_ptr<SubmitStream> DirectorDriver::SubmitTasks(SubmitStream::Callbacks callbacks) {
  const auto post = [this](CommandPtr& command, std::function<void()> on_room) {
    return PostOrWait(command, std::move(on_room));
  };
  return std::make_shared<SubmitStream>(SubmitStream::Deps{NewCallId(), post, PostFunction()},
                                        std::move(callbacks));
}

std::shared_ptr<TaskWatch> DirectorDriver::WatchTasks(WatchQuery query,
                                                      TaskWatch::Callbacks callbacks) {
  return std::make_shared<TaskWatch>(TaskWatch::Deps{feed_, ReadFunction(watches_), PostFunction()},
                                     std::move(query), std::move(callbacks));
}

void DirectorDriver::CreateCheckpoint(const std::string& name, Reply<ports::Checkpoint> reply) {
  const auto copy = [name](const ports::EventStore& store) { return store.CreateCheckpoint(name); };
  if (!Read(reader_, checkpoints_, reply, copy)) reply(TooManyCheckpoints());
}

void DirectorDriver::GoAway(absl::Duration patience) {
  // Shared, because the reply may come after the wait has timed out.
  struct Wait {
    base::Mutex mutex;
    base::CondVar changed;
    bool is_done ABSL_GUARDED_BY(mutex) = false;
  };
  const auto wait = std::make_shared<Wait>();
  const auto end = [wait](const absl::Status&) {
    base::MutexLock lock(wait->mutex);
    wait->is_done = true;
    wait->changed.NotifyAll();
  };
  Post(MakeCommand(
      {},
      [](DirectorEngine& engine, Moment now) {
        engine.GoAway(now);
        return absl::OkStatus();
      },
      end));
  base::MutexLock lock(wait->mutex);
  wait->changed.WaitFor(wait->mutex, patience,
                        [&wait]()
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(wait->mutex) { return wait->is_done; });
}

void DirectorDriver::BeginDrain() {
  base::MutexLock lock(mutex_);
  drain_requested_ = true;
  wake_decider_.NotifyOne();
}

void DirectorDriver::DecideLoop() {
  while (DecideRound()) {
  }
  base::MutexLock lock(mutex_);
  writer_state_ = WriterState::kStopped;
  wake_writer_.NotifyOne();
}

bool DirectorDriver::HasWork() const {
  // While the disk is busy, waiting for more commands costs nothing: several are decided together.
  const bool has_commands =
      inbox_.size() >= (writer_state_ == WriterState::kIdle ? 1 : kCommandsAtOnce) &&
      !open_turn_is_full_;
  return has_commands || drain_requested_ || writer_state_ == WriterState::kFailed ||
         (writer_state_ == WriterState::kIdle && (stopping_ || has_open_turn_));
}

void DirectorDriver::WaitForWork() {
  while (true) {
    if (deciding_) {
      decider_wakes_at_ = absl::InfiniteDuration();
      wake_decider_.Wait(mutex_);
      continue;
    }
    // No timer fires before the commands that have arrived are decided. While the open turn is full
    // they cannot be decided; then the writing thread ends the wait.
    decider_wakes_at_ = open_turn_is_full_ ? absl::InfiniteDuration() : director_->NextTurnAt();
    const absl::Duration wait = std::min(decider_wakes_at_ - director_->Now().monotonic, kIdleMax);
    if (HasWork() || wait <= absl::ZeroDuration()) return;
    wake_decider_.WaitFor(mutex_, wait);
  }
}

DirectorDriver::Inbox DirectorDriver::TakeInbox() {
  if (open_turn_is_full_) return {};
  calls_in_inbox_ = messages_in_inbox_ = 0;
  return {std::exchange(inbox_, {}), std::exchange(on_room_, {}), /*is_taken=*/true};
}

bool DirectorDriver::DecideRound() {
  Inbox inbox;
  Turn failed;
  absl::Status failure;
  bool idle = false;
  bool draining = false;
  bool stopping = false;
  {
    base::MutexLock lock(mutex_);
    has_open_turn_ = director_->has_turn();
    open_turn_is_full_ = director_->calls_in_turn() >= options_.calls_max;
    deciding_ = false;
    WaitForWork();
    deciding_ = true;
    if (writer_state_ == WriterState::kFailed) {
      failed = std::exchange(staged_turn_, {});
      failure = std::exchange(commit_error_, absl::OkStatus());
      writer_state_ = WriterState::kIdle;
    }
    idle = writer_state_ == WriterState::kIdle;
    inbox = TakeInbox();
    stopping = stopping_;
    draining = std::exchange(drain_requested_, false) || stopping;
  }
  for (const std::function<void()>& run : inbox.on_room) run();
  const bool last = stopping && idle && inbox.commands.empty() && failure.ok();
  if (!failure.ok()) director_->Fail(failed, failure);
  if (idle) director_->ReopenIfDue();
  const Moment now = director_->Now();
  if (draining) director_->BeginShutdown(now);
  absl::Span<CommandPtr> rest = absl::MakeSpan(inbox.commands);
  while (!rest.empty()) {
    director_->Decide(rest.subspan(0, kCommandsAtOnce), now);
    rest.remove_prefix(std::min(rest.size(), kCommandsAtOnce));
    HandOverTurn();
  }
  if (inbox.is_taken) director_->FireTimers(now);
  if (last && !director_->has_turn()) return false;
  HandOverTurn();
  return true;
}

void DirectorDriver::HandOverTurn() {
  if (!director_->has_turn()) return;
  base::MutexLock lock(mutex_);
  if (writer_state_ != WriterState::kIdle) return;
  StageTurn();
  wake_writer_.NotifyOne();
}

void DirectorDriver::StageTurn() {
  // A staged turn that is overwritten would be in memory but never on disk.
  CHECK(staged_turn_.is_empty());
  staged_turn_ = director_->TakeTurn();
  writer_state_ = WriterState::kWriting;
}

void DirectorDriver::WriteLoop() {
  while (true) {
    Turn turn;
    bool has_turn = false;
    {
      base::MutexLock lock(mutex_);
      while (writer_state_ != WriterState::kWriting && writer_state_ != WriterState::kStopped &&
             !WriterCanDecide()) {
        wake_writer_.Wait(mutex_);
      }
      if (writer_state_ == WriterState::kStopped) return;
      has_turn = writer_state_ == WriterState::kWriting;
      turn = std::exchange(staged_turn_, {});
      // The deciding thread stages no other turn before this one is written. The same holds if
      // there was no turn and this thread is going to decide.
      writer_state_ = WriterState::kWriting;
    }
    absl::Status status;
    if (has_turn) status = director_->Commit(turn);
    if (has_turn && status.ok()) status = director_->Flush(std::exchange(turn, {}));
    if (status.ok() && DecideOnWriter()) continue;
    base::MutexLock lock(mutex_);
    writer_state_ = status.ok() ? WriterState::kIdle : WriterState::kFailed;
    staged_turn_ = std::move(turn);
    commit_error_ = std::move(status);
    if (HasWork() && !WriterCanDecide()) wake_decider_.NotifyOne();
  }
}

bool DirectorDriver::HasFewCommands() const {
  return !inbox_.empty() && inbox_.size() < kCommandsAtOnce;
}

bool DirectorDriver::WriterCanDecide() const {
  return !deciding_ && !drain_requested_ && !stopping_ && writer_state_ != WriterState::kFailed &&
         (has_open_turn_ || HasFewCommands());
}

bool DirectorDriver::DecideOnWriter() {
  Inbox inbox;
  {
    base::MutexLock lock(mutex_);
    if (!WriterCanDecide()) return false;
    deciding_ = true;
    if (HasFewCommands()) inbox = TakeInbox();
  }
  for (const std::function<void()>& run : inbox.on_room) run();
  const Moment now = director_->Now();
  director_->Decide(absl::MakeSpan(inbox.commands), now);
  if (inbox.is_taken) director_->FireTimers(now);
  base::MutexLock lock(mutex_);
  deciding_ = has_open_turn_ = open_turn_is_full_ = false;
  const bool has_next = director_->has_turn();
  if (has_next) StageTurn();
  const bool is_due_earlier = director_->NextTurnAt() < decider_wakes_at_;
  if ((HasWork() && !WriterCanDecide()) || is_due_earlier) wake_decider_.NotifyOne();
  return has_next;
}

}  // namespace callboard::director
