#ifndef CALLBOARD_SERVICES_CLI_TASK_BOARD_H_
#define CALLBOARD_SERVICES_CLI_TASK_BOARD_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "callboard/v1/queue.pb.h"

namespace callboard::cli {

// What somebody who watches tasks knows of them. Made of the messages of WatchTasks, over as many
// streams as it takes; knows no network and no terminal.
class TaskBoard {
 public:
  // Ended tasks that it remembers, unless they are named: the last ones.
  static constexpr size_t kEndedMax = 100;

  // Of those tasks; of all when empty.
  explicit TaskBoard(const std::vector<std::string>& named = {});

  // Takes in a message, and returns what is new in it. What happened always is. A task as it is is
  // new when it was not known to be so; but one that had ended before the watch began is not,
  // unless it is named.
  std::vector<v1::WatchTasksResponse::Change> Take(const v1::WatchTasksResponse& message);

  // For the next stream.
  v1::WatchTasksRequest Request() const;

  // Running ones, then pending ones, each as they were submitted, which their ids say: a position
  // is that of when its task was last told, and others have left the line since.
  std::vector<const v1::Task*> Live() const;
  // Those that ended last first.
  std::vector<const v1::Task*> Ended() const;
  // The name of the agent that has or had the task last, or else its address; empty when none had.
  std::string AgentOf(const v1::Task& task) const;

  // OK when all of the named tasks have completed; else says what became of the others.
  absl::Status Verdict() const;

 private:
  bool IsNew(const v1::Task& task) const;
  void Put(const v1::Task& task);

  const std::set<std::string> named_;
  std::string resume_token_;
  std::map<std::string, v1::Task> tasks_;
  // Of the ended ones, by when.
  std::set<std::pair<absl::Time, std::string>> ended_;
  // The same as of the last reset, to tell what is new since.
  std::map<std::string, v1::Task> before_;
  // When the last change happened of which it knows; and the same as of the last reset.
  absl::Time latest_ = absl::InfinitePast();
  absl::Time latest_before_ = absl::InfiniteFuture();
  // Names by URL.
  std::map<std::string, std::string> agents_;
};

bool IsEnded(v1::Task::State state);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_TASK_BOARD_H_
