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
#include "libs/flow/flow_options.h"

namespace callboard::director {

struct DriverOptions {
  EngineOptions engine = {};
  // Calls that may wait for a turn; more are refused.
  size_t calls_max = 4096;
  // Agents' messages that may wait beside them; for more their Sessions are not read.
  size_t agent_messages_max = 4096;
};

// A page of tasks, and where the next one begins.
struct TaskPage {
  struct Item {
    core::Task task;
    ListCursor here;
  };
  std::vector<Item> tasks = {};
  std::optional<ListCursor> next = {};
};

// What happened to a task: so many of all its events, from one on.
struct EventQuery {
  core::QueueId queue_id = {};
  size_t first = 0;
  size_t page_size = 50;
};
struct EventPage {
  std::vector<core::TaskEvent> events = {};
  // The number of the first, and whether there are more behind the last.
  size_t first = 0;
  bool has_more = false;
};

// Where the driver reads the store, for calls and for watches, and copies it: lanes that its Flow
// has.
inline constexpr absl::string_view kReadsLane = "reads";
inline constexpr absl::string_view kWatchesLane = "watches";
inline constexpr absl::string_view kCheckpointsLane = "checkpoints";
std::vector<flow::LaneOptions> DriverLanes(uint32_t reads_at_once, const DriverOptions& options);

// A Director and its threads: one decides, and while it does, another commits what was decided
// before and says it; a few commands the other one decides itself, when it has nothing to write.
// The store is read and copied in lanes.
//
// Thread-safe. No call blocks: each is answered through its callback, once, on one of the driver's
// threads or, when it is refused, on the caller's. A callback must not block, nor destroy the
// driver.
class DirectorDriver {
 public:
  // Recovers before it returns. The store's error when it can be neither written nor, on a full
  // disk, read. `flow` has DriverLanes() and outlives the driver.
  static absl::StatusOr<std::unique_ptr<DirectorDriver>> Open(const DriverOptions& options,
                                                              const World& world, flow::Flow& flow);
  // Takes one last turn, so that every call is answered.
  ~DirectorDriver();
  DirectorDriver(const DirectorDriver&) = delete;
  DirectorDriver& operator=(const DirectorDriver&) = delete;

  // A name for a call that may have to wait.
  CallId NextCall() { return CallId(++last_call_); }

  // Hands over a command for the next turn. False when too many wait: a caller's command is refused
  // with UNAVAILABLE/OVERLOADED, an agent's is left as it was, to be posted again.
  bool Post(CommandPtr&& command);
  // The same for a caller that can wait, as a stream of submits: nothing is refused, but
  // `when_room` is run, once, when another try is worth it. Leaves half of the room to callers that
  // cannot.
  bool PostOrWait(CommandPtr& command, std::function<void()> when_room);

  template <class T>
  using Reply = std::function<void(absl::StatusOr<T>)>;

  // Answers what `decide` returns in its turn.
  template <class T>
  void Ask(Command::Need need, std::function<absl::StatusOr<T>(DirectorEngine&, Moment)> decide,
           Reply<T> reply) {
    Post(CallCommand<T>(need, std::move(decide), std::move(reply)));
  }

  // Answers the status as of its turn.
  void GetQueueStatus(Reply<core::QueueStatus> reply);
  // NOT_FOUND/TASK_NOT_FOUND.
  void GetTask(core::QueueId id, Reply<core::Task> reply);
  void ListTasks(const ListQuery& query, Reply<TaskPage> reply);
  // NOT_FOUND/TASK_NOT_FOUND.
  void ListTaskEvents(const EventQuery& query, Reply<EventPage> reply);
  void ExplainTask(core::QueueId id, Reply<Explanation> reply);
  void KickDispatcher(Reply<Kicked> reply);
  void CancelTask(core::QueueId id, const std::string& who, const std::string& why,
                  Reply<CancelAnswer> reply);
  // Each as DirectorEngine::Redrive(), in the order given.
  void RedriveTasks(std::vector<absl::StatusOr<core::QueueId>> tasks, std::string who,
                    Redrive::Reply reply);
  // A stream of submits, each in a turn like any other.
  std::shared_ptr<SubmitStream> SubmitTasks(SubmitStream::Owner owner);
  // A watch that is yet to begin. What is shown is on disk.
  std::shared_ptr<TaskWatch> WatchTasks(WatchQuery query, TaskWatch::Viewer viewer);
  // As EventStore::CreateCheckpoint(); one at a time, and one more that waits.
  void CreateCheckpoint(const std::string& name, Reply<ports::Checkpoint> reply);

  // Stops admission, with the next turn. Never refused.
  void BeginDrain();
  // Tells agents that a director will be back, so that what they run goes on until then. Waits
  // until they are told, but no longer than `patience`: a director that cannot write it down any
  // more leaves them to their leases.
  void GoAway(absl::Duration patience);

 private:
  DirectorDriver(const DriverOptions& options, std::unique_ptr<Director> director,
                 flow::Flow& flow);

  // Reads what the store has of a task, if there is one, in the turn's wake.
  template <class T, class Reading>
  void LookAndRead(core::QueueId id, Reply<T> reply, Reading reading);

  // Reads the store in that lane, on behalf of something with several steps.
  std::function<void(Redrive::Reading)> ReadsIn(flow::Lane& lane);
  std::function<void(CommandPtr)> Posts();

  // What waited, for whoever decides.
  struct Arrived {
    std::vector<CommandPtr> commands = {};
    std::vector<std::function<void()>> when_room = {};
    // Nothing that came before is left.
    bool is_all = false;
  };
  Arrived TakeArrived() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void DecideAll();
  void WriteAll();
  // One round of the deciding thread; false after the last.
  bool DecideSome();
  // Until there is something to decide and nobody else does it.
  void WaitForWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The writing thread, when it has nothing to write, takes the open turn with the few commands
  // that have come, so that nobody else has to be woken up for them. False when there is none to
  // take.
  bool TakeNext();
  bool CanTakeNext() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AreFew() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives the open turn to the writing thread if that waits for one.
  void HandOver();
  void PutTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the deciding thread can go on.
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

  // Touched by whoever decides only, but for Commit() and Say().
  std::unique_ptr<Director> director_;

  base::Mutex mutex_;
  // For the deciding thread, and for the writing one.
  base::CondVar something_to_decide_;
  base::CondVar something_to_write_;
  std::vector<CommandPtr> waiting_ ABSL_GUARDED_BY(mutex_);
  // What they stand for: calls of callers, and messages of others.
  size_t calls_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t messages_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  // Those who wait for room.
  std::vector<std::function<void()>> when_room_ ABSL_GUARDED_BY(mutex_);
  bool drain_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Somebody decides.
  bool deciding_ ABSL_GUARDED_BY(mutex_) = true;
  // When the deciding thread wakes up by itself.
  absl::Duration wakes_at_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  // Of the open turn, while nobody decides.
  bool has_turn_ ABSL_GUARDED_BY(mutex_) = false;
  bool turn_is_full_ ABSL_GUARDED_BY(mutex_) = false;
  // A turn on its way to the disk, or one that the writing thread takes for itself; and one that
  // did not get there.
  enum class Writing { kNothing, kTurn, kFailed, kStop };
  Writing writing_ ABSL_GUARDED_BY(mutex_) = Writing::kNothing;
  Turn turn_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);

  std::thread writer_;
  std::thread decider_;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_DRIVER_H_
