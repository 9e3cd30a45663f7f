#ifndef CALLBOARD_SERVICES_DIRECTOR_LOG_TAIL_H_
#define CALLBOARD_SERVICES_DIRECTOR_LOG_TAIL_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "callboard/v1/queue.pb.h"
#include "libs/adapters/output_files/output_keeper.h"
#include "libs/core/task.h"
#include "libs/director/driver.h"
#include "libs/director/task_watch.h"
#include "libs/ports/clock.h"
#include "libs/server/call.h"

namespace callboard {

// What a request asks for. INVALID_ARGUMENT names each wrong field.
absl::StatusOr<adapters::OutputKeeper::Wanted> WantedFrom(const v1::TailTaskLogsRequest& request);

v1::TailTaskLogsResponse ToProto(const adapters::OutputKeeper::Shown& shown);

// One TailTaskLogs call: shows what is kept, the next piece whenever the one before is sent, and
// watches a task that lives, to hear of its end. The call keeps it, and it ends with the call.
class LogTail : public std::enable_shared_from_this<LogTail> {
 public:
  using Call = server::StreamCall<v1::TailTaskLogsResponse>;
  // All outlive it.
  struct Desk {
    director::DirectorDriver& driver;
    adapters::OutputKeeper& outputs;
    const ports::Clock& clock;
  };

  LogTail(Call call, Desk desk, const adapters::OutputKeeper::Wanted& wanted)
      : call_(std::move(call)), desk_(desk), wanted_(wanted) {}

  ~LogTail();

  // NOT_FOUND/TASK_NOT_FOUND ends it when there is no such task.
  void Begin();

 private:
  void OnTask(const core::Task& task);
  void OnShown(const absl::StatusOr<adapters::OutputKeeper::Shown>& shown);
  void WatchForItsEnd();
  void OnWatched(const director::Watched& watched);
  void OnWatchEnded(const absl::Status& status);

  const Call call_;
  const Desk desk_;
  adapters::OutputKeeper::Wanted wanted_;
  std::shared_ptr<adapters::OutputReader> reader_;
  // Of a task that lives.
  std::shared_ptr<director::TaskWatch> watch_;
  // The last that was heard of.
  core::DispatchNumber dispatch_;
};

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_LOG_TAIL_H_
