// How the driver uses its two threads.
//
// A turn has two halves. The first half decides commands in memory (Director::Decide(),
// FireTimers()) and costs microseconds. The second half commits the resulting records with a sync
// and then sends replies and messages (Director::Commit(), Flush()); it costs milliseconds. The
// deciding thread and the writing thread overlap the two halves: while one turn is being written,
// the next one is decided on top of it. At most one turn is being written at any time, so turns
// reach the disk in the order in which they were decided.
//
// A turn moves through these places:
//
//   inbox_       commands that Post() has added
//      │ Decide()            by the deciding thread or, when there are few, by the writing thread
//   open turn    in the Director: records, replies and messages so far; grows until it is staged
//      │ StageTurn()         only when no other turn is staged or being written
//   staged_turn_
//      │ Commit(), Flush()   by the writing thread, without holding the mutex
//   done
//
// Handing a turn from one thread to the other costs a wakeup, which is expensive compared with
// deciding one command. So when the deciding thread is asleep and only a few commands have arrived,
// it stays asleep: the writing thread takes over its role, decides the commands itself, and then
// writes the turn.
//
// Two variables under `mutex_` describe the state:
//
//   deciding_      True while one of the threads decides. That thread alone may use the Director,
//                  except that the writing thread may Commit() and Flush() at the same time. While
//                  it is false the Director is only read, under the mutex.
//   writer_state_  kIdle, kWriting, kFailed or kStopped, see below.
//
//     deciding_  writer_state_  deciding thread                     writing thread
//   1 false      kIdle          waits for HasWork() or a timer      waits
//   2 true       kIdle          decides; will stage the turn        waits
//   3 true       kWriting       decides the next turn               commits and flushes a turn
//   4 true       kWriting       waits                               decides a few commands
//   5 false      kWriting       waits for HasWork() or a timer      commits and flushes a turn
//   6 any        kFailed        finishes its round, then calls      waits
//                               Director::Fail()
//   7 true       kStopped       has returned                        returns
//
// The driver starts in row 2. Transitions:
//
//   1 → 2  A timer is due, a drain or a stop was requested, or there are commands that the writing
//          thread has not taken, for example because they are too many for it.
//   1 → 4  Fewer than kCommandsAtOnce commands arrived (WriterCanDecide()).
//   2 → 3  The first group of commands is decided and its turn is staged (HandOverTurn()).
//   2 → 1  The round is over and there was nothing to commit.
//   3 → 5  The round is over. Its turn stays open until the writing thread is done.
//   3 → 2  The turn is written while the deciding thread still decides.
//   5 → 3  kCommandsAtOnce commands are waiting, a timer is due, or a drain was requested.
//   5 → 4  The turn is written; there is an open turn, or a few commands are waiting
//          (DecideOnWriter()).
//   5 → 1  The turn is written, and there is nothing else for the writing thread to do.
//   4 → 5  The writing thread has staged the turn that it decided.
//   4 → 1  The commands produced nothing to commit.
//   3 → 6  The commit or the flush failed. Nothing is staged until the deciding thread has handled
//   5 → 6  the failure, because everything that was decided since then builds on lost records.
//   6 → 2  The deciding thread takes the failed turn, and opens the store again.
//   2 → 7  The driver is being destroyed, the inbox is empty and everything is written.
//
// Two limits bound the memory. The inbox holds at most DriverOptions::calls_max calls and
// agent_messages_max messages. An open turn that answers calls_max calls is full: nothing is taken
// from the inbox, and no timer fires, until the writing thread has taken that turn.
#ifndef CALLBOARD_LIBS_DIRECTOR_DRIVER_H_
#define CALLBOARD_LIBS_DIRECTOR_DRIVER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/base/mutex.h"
#include "libs/core/queue.h"
#include "libs/director/change_feed.h"
#include "libs/director/command.h"
#include "libs/director/director.h"
#include "libs/director/redrive.h"
#include "libs/director/store_reader.h"
#include "libs/director/submit_stream.h"
#include "libs/director/task_watch.h"
#include "libs/flow/flow.h"
#include "libs/flow/limits.h"

namespace callboard::director {

struct DriverOptions {
  EngineOptions engine = {};
  // Calls that may wait in the inbox. Further calls fail with OVERLOADED.
  size_t calls_max = 4096;
  // Agents' messages that may wait in the inbox, in addition to calls. While it is full, their
  // Sessions are not read.
  size_t agent_messages_max = 4096;
};

// A page of tasks, and the cursor of the next page if there is one.
struct TaskPage {
  struct Item {
    core::Task task;
    ListCursor cursor;
  };
  std::vector<Item> tasks = {};
  std::optional<ListCursor> next = {};
};

// Lists the events of a task, starting with event number `first`, counted from 0.
struct EventQuery {
  core::QueueId queue_id = {};
  size_t first = 0;
  size_t page_size = 50;
};
struct EventPage {
  std::vector<core::TaskEvent> events = {};
  // Number of the first event, and whether more events follow.
  size_t first = 0;
  bool has_more = false;
};

// Lanes of the driver's Flow: reads of the store for calls, reads for watches, and checkpoints.
inline constexpr absl::string_view kReadsLane = "reads";
inline constexpr absl::string_view kWatchesLane = "watches";
inline constexpr absl::string_view kCheckpointsLane = "checkpoints";
std::vector<flow::LaneOptions> DriverLanes(uint32_t reads_at_once, const DriverOptions& options);

// A Director with its two threads, which the page at the top of this file describes. Reads and
// checkpoints of the store run in lanes of `flow`.
//
// Thread-safe. No call blocks, except GoAway(). Each call runs its callback exactly once, on one of
// the driver's threads or on a lane's thread; if the call is rejected, on the caller's thread. A
// callback must not block, and must not destroy the driver.
class DirectorDriver {
 public:
  // Recovers before it returns. Returns the store's error if the store can neither be written nor,
  // on a full disk, be read. `flow` has the lanes of DriverLanes() and outlives the driver.
  static absl::StatusOr<std::unique_ptr<DirectorDriver>> Open(const DriverOptions& options,
                                                              const Deps& deps, flow::Flow& flow);
  // Takes a last turn, so that every call is answered.
  ~DirectorDriver();
  DirectorDriver(const DirectorDriver&) = delete;
  DirectorDriver& operator=(const DirectorDriver&) = delete;

  // Returns a new id for a call that may have to wait.
  CallId NewCallId() { return CallId(++last_call_); }

  // Adds a command to the inbox. When the inbox is full, returns false: a caller's command fails
  // with UNAVAILABLE/OVERLOADED; an agent's command is unchanged and can be posted again.
  bool Post(CommandPtr&& command);
  // Like Post(), for a caller that can wait, such as a stream of submits. When there is no room,
  // returns false, leaves the command unchanged, and runs `on_room` once when it is worth trying
  // again. Uses at most half of the inbox; the other half is left to callers that cannot wait.
  bool PostOrWait(CommandPtr& command, std::function<void()> on_room);

  // ---- Calls that take more than one command ----

  template <class T>
  using Reply = std::function<void(absl::StatusOr<T>)>;

  // max_attempts of a submit that leaves it out.
  uint32_t default_max_attempts() const { return options_.engine.queue.max_attempts; }

  // Error: NOT_FOUND/TASK_NOT_FOUND.
  void GetTask(core::QueueId id, Reply<core::Task> reply);
  // Finds the task as DirectorEngine::FindByRequestId() does. A deleted task has only its id and
  // its state.
  void GetTaskByRequestId(const std::string& identity, const std::string& request_id,
                          Reply<core::Task> reply);
  void ListTasks(const ListQuery& query, Reply<TaskPage> reply);
  // Error: NOT_FOUND/TASK_NOT_FOUND.
  void ListTaskEvents(const EventQuery& query, Reply<EventPage> reply);
  // Calls DirectorEngine::Redrive() for each task, in order.
  void RedriveTasks(std::vector<absl::StatusOr<core::QueueId>> tasks, std::string who,
                    Redrive::MakeSubmission make_submission, Redrive::Reply reply);
  // Returns a new stream of submits. Its submits are decided in turns like all others.
  std::shared_ptr<SubmitStream> SubmitTasks(SubmitStream::Callbacks callbacks);
  // Returns a new watch; the caller starts it with TaskWatch::Begin(). A watch shows only what is
  // on disk.
  std::shared_ptr<TaskWatch> WatchTasks(WatchQuery query, TaskWatch::Callbacks callbacks);
  // Runs EventStore::CreateCheckpoint(). One checkpoint runs at a time, and one more may wait.
  void CreateCheckpoint(const std::string& name, Reply<ports::Checkpoint> reply);

  // Stops admission with the next turn. Always accepted.
  void BeginDrain();
  // Announces to the agents that the director will be back, so that their runs continue until then.
  // Blocks until the announcement is sent, at most for `patience`. If the announcement cannot be
  // committed, the agents' leases stay as they are.
  void GoAway(absl::Duration patience);

 private:
  DirectorDriver(const DriverOptions& options, std::unique_ptr<Director> director,
                 flow::Flow& flow);

  // Runs `find_fn(engine, now)` in a turn, and then reads the task that it returns from the store
  // in the lane "reads".
  template <class T, class FindFn, class ReadFn>
  void FindAndRead(FindFn find_fn, Reply<T> reply, ReadFn read_fn);

  // Functions for operations that read and post in several steps.
  std::function<void(Redrive::ReadCallback)> ReadFunction(flow::Lane& lane);
  std::function<void(CommandPtr)> PostFunction();

  // The contents of the inbox, for the thread that decides.
  struct Inbox {
    std::vector<CommandPtr> commands = {};
    std::vector<std::function<void()>> on_room = {};
    // False if nothing was taken because the open turn is full.
    bool is_taken = false;
  };
  Inbox TakeInbox() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void DecideLoop();
  void WriteLoop();
  // One round of the deciding thread. Returns false after the last one.
  bool DecideRound();
  // Returns when the deciding thread has work and the writing thread is not deciding.
  void WaitForWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Called by the writing thread after it has flushed a turn, or when it is idle. If the deciding
  // thread waits, decides the few commands in the inbox and stages the open turn. Returns false
  // when no turn was staged.
  bool DecideOnWriter();
  bool WriterCanDecide() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasFewCommands() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Stages the open turn if the writing thread is idle.
  void HandOverTurn();
  void StageTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the deciding thread has to run: rows 1 and 5 of the table.
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasRoom(const Command& command) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(CommandPtr command) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const DriverOptions options_;
  std::atomic<uint64_t> last_call_ = 0;

  ChangeFeed feed_;
  flow::Lane& reads_;
  flow::Lane& watches_;
  flow::Lane& checkpoints_;
  StoreReader reader_;

  // Used only by the thread that decides, except for Commit() and Flush().
  std::unique_ptr<Director> director_;

  base::Mutex mutex_;
  // For the deciding thread, and for the writing thread.
  base::CondVar wake_decider_;
  base::CondVar wake_writer_;
  std::vector<CommandPtr> inbox_ ABSL_GUARDED_BY(mutex_);
  // Weight of the commands in the inbox: calls, and all others.
  size_t calls_in_inbox_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t messages_in_inbox_ ABSL_GUARDED_BY(mutex_) = 0;
  // Callbacks of callers that wait for room.
  std::vector<std::function<void()>> on_room_ ABSL_GUARDED_BY(mutex_);
  bool drain_requested_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // True while one of the threads decides.
  bool deciding_ ABSL_GUARDED_BY(mutex_) = true;
  // When the deciding thread wakes up without a notification.
  absl::Duration decider_wakes_at_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  // The open turn as of the end of the last round. Valid while `deciding_` is false.
  bool has_open_turn_ ABSL_GUARDED_BY(mutex_) = false;
  bool open_turn_is_full_ ABSL_GUARDED_BY(mutex_) = false;
  // kWriting: a turn is staged or being written, or the writing thread decides. kFailed: the commit
  // of `staged_turn_` failed.
  enum class WriterState { kIdle, kWriting, kFailed, kStopped };
  WriterState writer_state_ ABSL_GUARDED_BY(mutex_) = WriterState::kIdle;
  Turn staged_turn_ ABSL_GUARDED_BY(mutex_);
  absl::Status commit_error_ ABSL_GUARDED_BY(mutex_);

  std::thread writer_;
  std::thread decider_;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_DRIVER_H_
