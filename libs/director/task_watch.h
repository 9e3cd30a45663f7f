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
  // All when empty.
  std::vector<core::QueueId> tasks = {};
  // Whether something was seen before; and what it is to go on from, if that can be known.
  bool resumes = false;
  std::optional<FeedPlace> from = {};
};

// What is shown at a time: tasks as they are, or what happened to them. Bounded in number and in
// bytes.
struct Watched {
  struct Item {
    // As it is by then: after the event, and maybe after later ones. Shared by items of one task.
    std::shared_ptr<const core::Task> task;
    // Absent for a task that is shown because it is there.
    std::optional<core::TaskEvent> event = {};
  };
  std::vector<Item> items = {};
  // What was shown before is void: the tasks follow as they are.
  bool reset = false;
  // To go on from after this; absent before the last of the tasks as they are.
  std::optional<FeedPlace> place = {};
};

// Shows tasks to somebody: first as they are, or from where he left off, then each change. One
// piece at a time: the next is read, in a lane, when there is room for it (GoOn()). Until then
// nothing but the feed remembers what it has missed.
//
//   Begin() ─► Look()/List() ─► ReadTasks() ─► … ─► Next() ◄─► ReadChanges()
//                    ▲                               │ the store was opened anew
//                    └───────────────────────────────┘
//
// Each step follows from the one before: no two run at once, on whatever thread; only Stop() and
// OnLeftBehind() may come at any time.
class TaskWatch final : public Follower, public std::enable_shared_from_this<TaskWatch> {
 public:
  // Gets the store, or why there is none.
  using Reading = std::function<void(absl::StatusOr<const ports::EventStore*>)>;
  // What it needs of its driver, which outlives it.
  struct Desk {
    ChangeFeed& feed;
    std::function<void(Reading)> read;
    std::function<void(CommandPtr)> post;
  };
  // Who watches. Is shown no more after `end` or `fall_behind`, of which one comes at most.
  struct Viewer {
    std::function<void(Watched)> show;
    // OK when all of the named tasks have ended.
    std::function<void(absl::Status)> end;
    // It was so slow that what it missed is forgotten.
    std::function<void()> fall_behind;
  };

  TaskWatch(Desk desk, WatchQuery query, Viewer viewer);

  // NOT_FOUND/TASK_NOT_FOUND ends it when one of the tasks does not exist.
  void Begin();
  // There is room for more. REQUIRES: something was shown since the last call.
  void GoOn() { Next(); }
  // He has left.
  void Stop();

 private:
  void OnChanges() override { Next(); }
  void OnLeftBehind() override;

  void Next();
  // Starts to show the tasks as they are.
  void ShowAll(FeedPlace place, bool reset);
  void Look(bool show);
  void List(const ListQuery& query);
  void ReadTasks();
  void ReadChanges();
  void ShowTasks(const ports::EventStore& store);
  void ShowChanges(const ports::EventStore& store);
  void Show(Watched watched);
  void End(absl::Status status);

  const Desk desk_;
  const WatchQuery query_;
  const Viewer viewer_;
  std::atomic<bool> over_ = false;

  // Of the tasks as they are: where the feed was before; those still to be read; the page after.
  std::optional<FeedPlace> begun_at_;
  bool reset_ = false;
  std::deque<Glance> glances_;
  std::optional<ListQuery> next_page_;
  // Changes still to be read, and the place behind them.
  std::deque<Change> changes_;
  FeedPlace behind_changes_;
  // Of the named tasks, those that have not ended.
  std::set<core::QueueId> live_;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_TASK_WATCH_H_
