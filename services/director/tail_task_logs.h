#ifndef CALLBOARD_SERVICES_DIRECTOR_TAIL_TASK_LOGS_H_
#define CALLBOARD_SERVICES_DIRECTOR_TAIL_TASK_LOGS_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "callboard/v1/queue.pb.h"
#include "libs/core/task.h"
#include "libs/director/driver.h"
#include "libs/director/task_watch.h"
#include "libs/ports/environment.h"
#include "libs/server/call.h"
#include "libs/store/output_keeper.h"

namespace callboard {

// Parses a request. Returns INVALID_ARGUMENT with the name of each wrong field.
absl::StatusOr<store::OutputKeeper::ReadRequest> OutputRequestFrom(
    const v1::TailTaskLogsRequest& request);

v1::TailTaskLogsResponse ToProto(const store::OutputKeeper::ReadResult& output);

// One TailTaskLogs call. Sends the stored output piece by piece: each piece is read after the
// previous one is sent. While the task is live, a watch on it reports its end.
//
// The call's callbacks own this object: it is destroyed with the call.
class TailTaskLogsCall : public std::enable_shared_from_this<TailTaskLogsCall> {
 public:
  using Call = server::StreamCall<v1::TailTaskLogsResponse>;
  // The members outlive this object.
  struct Deps {
    director::DirectorDriver& driver;
    store::OutputKeeper& outputs;
    const ports::Clock& clock;
  };

  TailTaskLogsCall(Call call, Deps deps, const store::OutputKeeper::ReadRequest& request)
      : call_(std::move(call)), deps_(deps), request_(request) {}

  ~TailTaskLogsCall();

  // Ends the call with NOT_FOUND/TASK_NOT_FOUND when there is no such task.
  void Begin();

 private:
  void OnTask(const core::Task& task);
  void OnOutput(const absl::StatusOr<store::OutputKeeper::ReadResult>& output);
  void WatchTaskEnd();
  void OnTaskChange(const director::WatchUpdate& update);
  void OnWatchEnded(const absl::Status& status);

  const Call call_;
  const Deps deps_;
  store::OutputKeeper::ReadRequest request_;
  std::shared_ptr<store::OutputReader> reader_;
  // Null unless the task was live when the call began.
  std::shared_ptr<director::TaskWatch> watch_;
  // Number of the task's newest known dispatch.
  core::DispatchNumber dispatch_;
};

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_TAIL_TASK_LOGS_H_
