#ifndef CALLBOARD_SERVICES_CLI_LIVE_SCREEN_H_
#define CALLBOARD_SERVICES_CLI_LIVE_SCREEN_H_

#include <map>
#include <string>
#include <thread>

#include "callboard/config/v1/cli.pb.h"
#include "callboard/v1/queue.pb.h"
#include "libs/adapters/system_clock/system_clock.h"
#include "libs/base/mutex.h"
#include "services/cli/task_board.h"

namespace callboard::cli {

// Whether standard output is a terminal that can be drawn on.
bool CanDraw(const std::map<std::string, std::string>& environment);

// A board on the terminal at standard output, drawn anew in its place at changes and every second.
// What was drawn last stays there, and after each frame the terminal is as it was found, whatever
// ends the process. One per process.
class LiveScreen {
 public:
  // Nobody else writes to the terminal meanwhile.
  LiveScreen(const config::v1::CliConfig& config, TaskBoard board, bool has_colour);
  ~LiveScreen();
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  void Take(const v1::WatchTasksResponse& message);
  v1::WatchTasksRequest Request();
  absl::Status Verdict();

 private:
  void DrawUntilOver();
  void Draw() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // With the time that one frame may wait for the status.
  const config::v1::CliConfig config_;
  const bool has_colour_;
  const adapters::SystemClock clock_;
  base::Mutex mutex_;
  base::CondVar changed_;
  TaskBoard board_ ABSL_GUARDED_BY(mutex_);
  v1::QueueStatus status_ ABSL_GUARDED_BY(mutex_);
  std::string note_ ABSL_GUARDED_BY(mutex_);
  // Whether there is something to draw; whether there is something new.
  bool has_begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_changed_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
  // What is there now: as many lines, of a window of that size.
  size_t lines_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t columns_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t rows_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread drawer_;
};

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_LIVE_SCREEN_H_
