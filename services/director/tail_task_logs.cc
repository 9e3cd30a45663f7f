#include "services/director/tail_task_logs.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "libs/base/error.h"
#include "libs/wire/fields.h"
#include "libs/wire/session.h"

namespace callboard {

using store::OutputKeeper;

absl::StatusOr<OutputKeeper::ReadRequest> OutputRequestFrom(
    const v1::TailTaskLogsRequest& request) {
  wire::FieldChecks checks;
  OutputKeeper::ReadRequest output_request = {
      .task = wire::ReadRequiredQueueId(request.queue_id(), checks),
      .after = {.dispatch = core::DispatchNumber(request.dispatch()),
                .number = request.after_number()},
      .follow = request.follow()};
  RETURN_IF_ERROR(checks.status());
  return output_request;
}

v1::TailTaskLogsResponse ToProto(const OutputKeeper::ReadResult& output) {
  v1::TailTaskLogsResponse response;
  for (const store::OutputPiece::Item& item : output.items) {
    *response.add_chunks() = wire::ToProto(item.chunk, item.dispatch);
  }
  return response;
}

TailTaskLogsCall::~TailTaskLogsCall() {
  if (reader_ != nullptr) reader_->Stop();
  if (watch_ != nullptr) watch_->Stop();
}

void TailTaskLogsCall::Begin() {
  deps_.driver.GetTask(request_.task,
                       [self = shared_from_this()](const absl::StatusOr<core::Task>& task) {
                         if (!task.ok()) return self->call_.Finish(task.status());
                         self->OnTask(*task);
                       });
}

void TailTaskLogsCall::OnTask(const core::Task& task) {
  dispatch_ = task.dispatch;
  if (request_.after.dispatch == core::DispatchNumber()) request_.after.dispatch = task.dispatch;
  if (!request_.follow) request_.last_dispatch = request_.after.dispatch;
  const auto show = [weak =
                         weak_from_this()](const absl::StatusOr<OutputKeeper::ReadResult>& output) {
    if (const auto self = weak.lock()) self->OnOutput(output);
  };
  absl::StatusOr<std::shared_ptr<store::OutputReader>> reader = deps_.outputs.Read(request_, show);
  if (!reader.ok()) return call_.Finish(reader.status());
  reader_ = *std::move(reader);
  call_.SetSentHook([self = shared_from_this()] { self->reader_->RequestNext(); });
  if (task.finished_at.has_value()) {
    // Never negative: the wall clock may have been set back since.
    const absl::Duration ago = deps_.clock.WallNow() - *task.finished_at;
    reader_->OnTaskEnded(task.dispatch, std::max(ago, absl::ZeroDuration()));
  } else if (request_.follow) {
    WatchTaskEnd();
  }
  reader_->RequestNext();
}

void TailTaskLogsCall::OnOutput(const absl::StatusOr<OutputKeeper::ReadResult>& output) {
  if (!output.ok()) return call_.Finish(output.status());
  // Write() returns false when the call has ended; this object ends with it.
  if (!output->items.empty()) std::ignore = call_.Write(ToProto(*output));
  if (output->is_last) call_.Finish(absl::OkStatus());
}

void TailTaskLogsCall::WatchTaskEnd() {
  const auto show = [weak = weak_from_this()](const director::WatchUpdate& update) {
    if (const auto self = weak.lock()) self->OnTaskChange(update);
  };
  const auto end = [weak = weak_from_this()](const absl::Status& status) {
    if (const auto self = weak.lock()) self->OnWatchEnded(status);
  };
  watch_ = deps_.driver.WatchTasks({.tasks = {request_.task}},
                                   {show, end, [call = call_] { call.CutOff(); }});
  watch_->Begin();
}

void TailTaskLogsCall::OnTaskChange(const director::WatchUpdate& update) {
  for (const director::WatchUpdate::Item& item : update.items) dispatch_ = item.task->dispatch;
  watch_->Continue();
}

void TailTaskLogsCall::OnWatchEnded(const absl::Status& status) {
  // The task has ended. NOT_FOUND: so long ago that it is no longer stored.
  if (status.ok() || absl::IsNotFound(status)) {
    return reader_->OnTaskEnded(dispatch_, absl::ZeroDuration());
  }
  call_.Finish(status);
}

}  // namespace callboard
