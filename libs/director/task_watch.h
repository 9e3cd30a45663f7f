#ifndef CALLBOARD_LIBS_DIRECTOR_TASK_WATCH_H_
#define CALLBOARD_LIBS_DIRECTOR_TASK_WATCH_H_

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/core/ids.h"
#include "libs/core/task.h"
#include "libs/director/change_feed.h"
#include "libs/director/command.h"
#include "libs/ports/event_store.h"

namespace callboard::director {

struct WatchQuery {
  // Empty: all tasks.
  std::vector<core::QueueId> tasks = {};
  // Whether the client has received updates before, and the cursor to resume from, if it is valid.
  bool resumes = false;
  std::optional<FeedCursor> from = {};
};

// One message to the client: tasks as they are, or changes. Bounded in number and in bytes.
struct WatchUpdate {
  struct Item {
    // The state at the time of reading: after the event, and possibly after later ones. Shared by
    // items of the same task.
    std::shared_ptr<const core::Task> task;
    // Absent in a snapshot.
    std::optional<core::TaskEvent> event = {};
  };
  std::vector<Item> items = {};
  // Earlier updates are void: a new snapshot follows.
  bool reset = false;
  // Cursor to resume after this update; absent until the snapshot is complete.
  std::optional<FeedCursor> cursor = {};
};

// A client's subscription to changes of tasks: first a snapshot of the tasks, or a resumption, then
// each change. Sends one update at a time: it reads the next one, in a lane, after Continue().
// Until then only the feed keeps the changes that the client has not received.
//
//   Begin() ─► FindTasks()/List() ─► ReadTasks() ─► … ─► Next() ◄─► ReadChanges()
//                     ▲                                    │ the store was opened again
//                     └────────────────────────────────────┘
//
// Steps never overlap, on whichever thread they run: each one starts the next. Only Stop() and
// OnFellBehind() may come at any time.
class TaskWatch final : public FeedSubscriber, public std::enable_shared_from_this<TaskWatch> {
 public:
  // Receives the store, or the reason why there is none.
  using ReadCallback = std::function<void(absl::StatusOr<const ports::EventStore*>)>;
  // Dependencies, provided by the driver, which outlives the watch.
  struct Deps {
    ChangeFeed& feed;
    std::function<void(ReadCallback)> read;
    std::function<void(CommandPtr)> post;
  };
  // Called on any thread. At most one of `on_end` and `on_fell_behind` is called, and no update
  // follows.
  struct Callbacks {
    std::function<void(WatchUpdate)> on_update;
    // OK when all named tasks have ended.
    std::function<void(absl::Status)> on_end;
    // The client was too slow: changes that it has not received are no longer in memory.
    std::function<void()> on_fell_behind;
  };

  TaskWatch(Deps deps, WatchQuery query, Callbacks callbacks);

  // Ends with NOT_FOUND/TASK_NOT_FOUND when one of the tasks does not exist.
  void Begin();
  // Requests the next update. REQUIRES: an update was sent since the last call.
  void Continue() { Next(); }
  // The client has gone.
  void Stop();

 private:
  void OnChanges() override { Next(); }
  void OnFellBehind() override;

  void Next();
  // Starts to send all tasks as they are.
  void SendSnapshot(FeedCursor cursor, bool reset);
  void FindTasks(bool send_snapshot);
  void List(const ListQuery& query);
  void ReadTasks();
  void ReadChanges();
  void SendTasks(const ports::EventStore& store);
  void SendChanges(const ports::EventStore& store);
  void SendUpdate(WatchUpdate update);
  void End(absl::Status status);

  const Deps deps_;
  const WatchQuery query_;
  const Callbacks callbacks_;
  std::atomic<bool> finished_ = false;

  // The snapshot: position of the feed before it, tasks that are still to be read, and the query of
  // the next page.
  std::optional<FeedCursor> snapshot_cursor_;
  bool reset_ = false;
  std::deque<TaskSummary> summaries_;
  std::optional<ListQuery> next_page_;
  // Changes that are still to be read, and the position after them.
  std::deque<Change> changes_;
  FeedCursor changes_cursor_;
  // The named tasks that have not ended.
  std::set<core::QueueId> live_tasks_;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_TASK_WATCH_H_
