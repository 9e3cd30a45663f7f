#include "services/director/log_tail.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "libs/base/status_macros.h"
#include "libs/wire/field_checks.h"
#include "libs/wire/field_values.h"
#include "libs/wire/session.h"

namespace callboard {

using adapters::OutputKeeper;

absl::StatusOr<OutputKeeper::Wanted> WantedFrom(const v1::TailTaskLogsRequest& request) {
  wire::FieldChecks checks;
  OutputKeeper::Wanted wanted = {.task = wire::ReadRequiredQueueId(request.queue_id(), checks),
                                 .behind = {.dispatch = core::DispatchNumber(request.dispatch()),
                                            .number = request.after_number()},
                                 .follow = request.follow()};
  RETURN_IF_ERROR(checks.status());
  return wanted;
}

v1::TailTaskLogsResponse ToProto(const OutputKeeper::Shown& shown) {
  v1::TailTaskLogsResponse response;
  for (const adapters::OutputPiece::Item& item : shown.items) {
    *response.add_chunks() = wire::ToProto(item.chunk, item.dispatch);
  }
  return response;
}

LogTail::~LogTail() {
  if (reader_ != nullptr) reader_->Leave();
  if (watch_ != nullptr) watch_->Stop();
}

void LogTail::Begin() {
  desk_.driver.GetTask(wanted_.task,
                       [self = shared_from_this()](const absl::StatusOr<core::Task>& task) {
                         if (!task.ok()) return self->call_.Finish(task.status());
                         self->OnTask(*task);
                       });
}

void LogTail::OnTask(const core::Task& task) {
  dispatch_ = task.dispatch;
  if (wanted_.behind.dispatch == core::DispatchNumber()) wanted_.behind.dispatch = task.dispatch;
  if (!wanted_.follow) wanted_.last_dispatch = wanted_.behind.dispatch;
  const auto show = [weak = weak_from_this()](const absl::StatusOr<OutputKeeper::Shown>& shown) {
    if (const auto self = weak.lock()) self->OnShown(shown);
  };
  absl::StatusOr<std::shared_ptr<adapters::OutputReader>> reader =
      desk_.outputs.Read(wanted_, show);
  if (!reader.ok()) return call_.Finish(reader.status());
  reader_ = *std::move(reader);
  call_.OnSent([self = shared_from_this()] { self->reader_->Next(); });
  if (task.finished_at.has_value()) {
    // The time of day may have gone back since.
    const absl::Duration ago = desk_.clock.WallNow() - *task.finished_at;
    reader_->OnTaskEnded(task.dispatch, std::max(ago, absl::ZeroDuration()));
  } else if (wanted_.follow) {
    WatchForItsEnd();
  }
  reader_->Next();
}

void LogTail::OnShown(const absl::StatusOr<OutputKeeper::Shown>& shown) {
  if (!shown.ok()) return call_.Finish(shown.status());
  // False when the call is over, and this with it.
  if (!shown->items.empty()) std::ignore = call_.Write(ToProto(*shown));
  if (shown->is_last) call_.Finish(absl::OkStatus());
}

void LogTail::WatchForItsEnd() {
  const auto show = [weak = weak_from_this()](const director::Watched& watched) {
    if (const auto self = weak.lock()) self->OnWatched(watched);
  };
  const auto end = [weak = weak_from_this()](const absl::Status& status) {
    if (const auto self = weak.lock()) self->OnWatchEnded(status);
  };
  watch_ = desk_.driver.WatchTasks({.tasks = {wanted_.task}},
                                   {show, end, [call = call_] { call.CutOff(); }});
  watch_->Begin();
}

void LogTail::OnWatched(const director::Watched& watched) {
  for (const director::Watched::Item& item : watched.items) dispatch_ = item.task->dispatch;
  watch_->GoOn();
}

void LogTail::OnWatchEnded(const absl::Status& status) {
  // It has ended, maybe so long ago that it is forgotten.
  if (status.ok() || absl::IsNotFound(status)) {
    return reader_->OnTaskEnded(dispatch_, absl::ZeroDuration());
  }
  call_.Finish(status);
}

}  // namespace callboard
