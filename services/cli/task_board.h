// `callboard watch`: the state of the watched tasks, and its display on a terminal.

#ifndef CALLBOARD_SERVICES_CLI_TASK_BOARD_H_
#define CALLBOARD_SERVICES_CLI_TASK_BOARD_H_

#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "callboard/config/v1/cli.pb.h"
#include "callboard/v1/queue.pb.h"
#include "libs/base/mutex.h"
#include "libs/system/system.h"

namespace callboard::cli {

// The state of the watched tasks, built from the messages of WatchTasks. It survives the end of a
// stream and continues with the next one. Independent of network and terminal. Not thread-safe.
class TaskBoard {
 public:
  // Number of ended tasks that are kept, the newest ones. Tasks that are named are always kept.
  static constexpr size_t kEndedMax = 100;

  // `named`: ids of the watched tasks; empty to watch all.
  explicit TaskBoard(const std::vector<std::string>& named = {});

  // Applies a message and returns the changes in it that are new. A change with an event is always
  // new. A change without one shows a task's current state; it is new if the board had another
  // state of the task. A task that had ended before the watch began is not new, unless it is named.
  std::vector<v1::WatchTasksResponse::Change> Update(const v1::WatchTasksResponse& message);

  // Returns the request for the next stream, which continues after the last message.
  v1::WatchTasksRequest Request() const;

  // Returns the running tasks, then the pending ones, both in the order of their ids, which is the
  // order of submission. Positions are not used: they are outdated once other tasks have left the
  // queue.
  std::vector<const v1::Task*> Live() const;
  // Returns the ended tasks, the newest first.
  std::vector<const v1::Task*> Ended() const;
  // Returns the name, or else the address, of the task's last agent; empty if it had none.
  std::string AgentOf(const v1::Task& task) const;

  // Returns OK when all named tasks have completed, else an error with the states of the others.
  absl::Status CompletionStatus() const;

 private:
  bool IsNew(const v1::Task& task) const;
  void Store(const v1::Task& task);

  const std::set<std::string> named_;
  std::string resume_token_;
  std::map<std::string, v1::Task> tasks_;
  // The ended tasks, ordered by the time of their end.
  std::set<std::pair<absl::Time, std::string>> ended_;
  // tasks_ as of the last reset, to find out which tasks have changed since.
  std::map<std::string, v1::Task> tasks_before_reset_;
  // Time of the latest known change.
  absl::Time latest_change_ = absl::InfinitePast();
  // latest_change_ as of the last reset; InfiniteFuture before the first one.
  absl::Time latest_before_reset_ = absl::InfiniteFuture();
  // Names of agents by their URL.
  std::map<std::string, std::string> agents_;
};

bool IsEnded(v1::Task::State state);

// Returns one line without a line end: time, task, state after the change, agent, dispatch, reason.
std::string ChangeLine(const v1::WatchTasksResponse::Change& change);

// The terminal on which a view is drawn, and the current time.
struct Frame {
  size_t columns = 80;
  size_t rows = 24;
  bool has_colour = false;
  absl::Time now = {};
};

// Returns the lines of a view that fits the frame: the queue, its live tasks and the last ended
// ones. The lines have no line ends. `note` is a message about the connection; may be empty.
std::vector<std::string> BoardLines(const TaskBoard& board, const v1::QueueStatus& status,
                                    const std::string& note, const Frame& frame);

// Draws a TaskBoard on the terminal at standard output and redraws it in place, on changes and
// every second. The last frame stays on the terminal. The modes of the terminal are restored after
// each frame, so that the process can end at any time.
//
// Thread-safe: a thread of its own draws. At most one per process.
class LiveScreen {
 public:
  // REQUIRES: nothing else writes to the terminal until the LiveScreen is destroyed.
  LiveScreen(const config::v1::CliConfig& config, TaskBoard board, bool has_colour);
  ~LiveScreen();
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  // These forward to the board.
  void Update(const v1::WatchTasksResponse& message);
  v1::WatchTasksRequest Request();
  absl::Status CompletionStatus();

 private:
  void DrawLoop();
  void Draw() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Its timeout is the longest wait of a frame for the queue status.
  const config::v1::CliConfig config_;
  const bool has_colour_;
  const system::SystemClock clock_;
  base::Mutex mutex_;
  base::CondVar changed_;
  TaskBoard board_ ABSL_GUARDED_BY(mutex_);
  v1::QueueStatus status_ ABSL_GUARDED_BY(mutex_);
  std::string note_ ABSL_GUARDED_BY(mutex_);
  // Whether a message has arrived: nothing is drawn before that.
  bool has_message_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether a message has arrived since the last frame.
  bool is_changed_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Number of lines of the last frame, and the size of the window in which it was drawn.
  size_t lines_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t columns_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t rows_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread drawer_;
};

// Shows the named tasks, or all, and their changes on standard output: drawn in place on a
// terminal, else a line for each change. With names, ends when all of these tasks have ended, and
// returns ABORTED if one did not complete. Returns NOT_FOUND for an unknown task.
absl::Status WatchTasks(const config::v1::CliConfig& config,
                        const std::vector<std::string>& queue_ids);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_TASK_BOARD_H_
