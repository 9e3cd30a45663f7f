#include "libs/director/task_watch.h"

#include <map>
#include <string>
#include <utility>

#include "libs/base/error.h"
#include "libs/core/task_state.h"
#include "libs/director/engine.h"
#include "libs/director/store_reader.h"

namespace callboard::director {
namespace {

// Tasks per page of the list, and items per update.
constexpr size_t kPageTasks = 64;
constexpr size_t kUpdateItems = 256;
// Approximate memory that a client costs if it does not read. An update that exceeds it by one task
// still fits into a message.
constexpr size_t kUpdateBytes = 64 << 10;

// The approximate memory size of a task, which is an upper bound of its size in a message.
size_t BytesOf(const core::Task& task) {
  return sizeof(task) + task.spec->size() + task.result.size() + task.last_error.size();
}

bool IsEnded(core::LifecycleState state) {
  return state == core::LifecycleState::kCompleted || state == core::LifecycleState::kFailed ||
         state == core::LifecycleState::kCancelled;
}

// Returns whether the update is large enough to be sent.
bool IsFull(const WatchUpdate& update, size_t bytes) {
  return update.items.size() >= kUpdateItems || bytes >= kUpdateBytes;
}

}  // namespace

TaskWatch::TaskWatch(Deps deps, WatchQuery query, Callbacks callbacks)
    : deps_(std::move(deps)), query_(std::move(query)), callbacks_(std::move(callbacks)) {}

void TaskWatch::Begin() {
  const absl::StatusOr<ChangeFeed::SubscribeResult> subscribed =
      deps_.feed.Subscribe(shared_from_this(), query_.tasks, query_.from);
  if (!subscribed.ok()) return End(subscribed.status());
  // The client may have gone before.
  if (finished_) return deps_.feed.Unsubscribe(*this);
  if (!subscribed->resumed) return SendSnapshot(subscribed->cursor, query_.resumes);
  if (query_.tasks.empty()) return Next();
  FindTasks(/*send_snapshot=*/false);
}

void TaskWatch::Stop() {
  finished_ = true;
  deps_.feed.Unsubscribe(*this);
}

void TaskWatch::OnFellBehind() {
  if (!finished_.exchange(true)) callbacks_.on_fell_behind();
}

void TaskWatch::Next() {
  if (finished_) return;
  if (!summaries_.empty()) return ReadTasks();
  if (next_page_.has_value()) return List(*std::exchange(next_page_, std::nullopt));
  if (changes_.empty()) {
    ChangeFeed::ChangeBatch batch = deps_.feed.TakeChanges(*this, kUpdateItems);
    if (batch.was_reset) return SendSnapshot(batch.cursor, /*reset=*/true);
    if (batch.changes.empty()) {
      if (!query_.tasks.empty() && live_tasks_.empty()) End(absl::OkStatus());
      return;
    }
    changes_.assign(batch.changes.begin(), batch.changes.end());
    changes_cursor_ = batch.cursor;
  }
  ReadChanges();
}

void TaskWatch::SendSnapshot(FeedCursor cursor, bool reset) {
  snapshot_cursor_ = cursor;
  reset_ = reset;
  changes_.clear();
  if (!query_.tasks.empty()) return FindTasks(/*send_snapshot=*/true);
  List({.page_size = kPageTasks});
}

void TaskWatch::FindTasks(bool send_snapshot) {
  const auto look = [tasks = query_.tasks](DirectorEngine& engine,
                                           Moment) -> absl::StatusOr<std::deque<TaskSummary>> {
    std::deque<TaskSummary> summaries;
    for (const core::QueueId& id : tasks) {
      ASSIGN_OR_RETURN(TaskSummary summary, engine.views().Summarize(id));
      summaries.push_back(std::move(summary));
    }
    return summaries;
  };
  deps_.post(MakeCommand({.access = Command::Access::kRead}, look,
                         [self = shared_from_this(),
                          send_snapshot](absl::StatusOr<std::deque<TaskSummary>> summaries) {
                           if (!summaries.ok()) return self->End(summaries.status());
                           self->live_tasks_.clear();
                           for (const TaskSummary& summary : *summaries) {
                             if (!IsEnded(summary.state))
                               self->live_tasks_.insert(summary.queue_id);
                           }
                           if (send_snapshot) self->summaries_ = *std::move(summaries);
                           self->Next();
                         }));
}

void TaskWatch::List(const ListQuery& query) {
  deps_.post(MakeCommand(
      {.access = Command::Access::kRead},
      [query](DirectorEngine& engine, Moment) { return engine.views().List(query); },
      [self = shared_from_this()](const absl::StatusOr<ListPage>& page) {
        if (!page.ok()) return self->End(page.status());
        for (const ListPage::Item& item : page->tasks) self->summaries_.push_back(item.summary);
        if (page->next.has_value()) {
          self->next_page_ = ListQuery{.page_size = kPageTasks, .after = page->next};
        }
        self->ReadTasks();
      }));
}

void TaskWatch::ReadTasks() {
  deps_.read([self = shared_from_this()](absl::StatusOr<const ports::EventStore*> store) {
    if (!store.ok()) return self->End(store.status());
    self->SendTasks(**store);
  });
}

void TaskWatch::ReadChanges() {
  deps_.read([self = shared_from_this()](absl::StatusOr<const ports::EventStore*> store) {
    if (!store.ok()) return self->End(store.status());
    self->SendChanges(**store);
  });
}

void TaskWatch::SendTasks(const ports::EventStore& store) {
  WatchUpdate update = {.reset = reset_};
  size_t bytes = 0;
  while (!summaries_.empty() && !IsFull(update, bytes)) {
    absl::StatusOr<core::Task> task = ReadTask(store, summaries_.front());
    summaries_.pop_front();
    if (absl::IsNotFound(task.status())) continue;
    if (!task.ok()) return End(task.status());
    bytes += BytesOf(*task);
    update.items.push_back({std::make_shared<const core::Task>(*std::move(task))});
  }
  if (summaries_.empty() && !next_page_.has_value()) {
    update.cursor = std::exchange(snapshot_cursor_, std::nullopt);
  } else if (update.items.empty()) {
    return Next();
  }
  reset_ = false;
  SendUpdate(std::move(update));
}

void TaskWatch::SendChanges(const ports::EventStore& store) {
  WatchUpdate update;
  size_t bytes = 0;
  std::vector<core::TaskRecord> records;
  std::shared_ptr<const core::Task> task;
  while (!changes_.empty() && !IsFull(update, bytes)) {
    const Change change = changes_.front();
    changes_.pop_front();
    update.cursor = {{changes_cursor_.epoch, change.number}};
    if (task == nullptr || task->queue_id != change.queue_id) {
      absl::StatusOr<std::vector<core::TaskRecord>> read = store.TaskRecords(change.queue_id);
      if (!read.ok()) return End(read.status());
      records = *std::move(read);
      // The task was forgotten since.
      if (records.empty()) continue;
      task = std::make_shared<const core::Task>(TaskFromRecords(records));
    }
    const auto record = std::find_if(records.begin(), records.end(), [&change](const auto& one) {
      return one.event.number == change.event;
    });
    if (record == records.end()) continue;
    for (core::TaskEvent& event : core::BuildEvents({&*record, 1})) {
      bytes += BytesOf(*task) + event.why.size();
      update.items.push_back({task, std::move(event)});
    }
  }
  if (changes_.empty()) update.cursor = changes_cursor_;
  // The events were replaced by later ones, or forgotten.
  if (update.items.empty()) return Next();
  SendUpdate(std::move(update));
}

void TaskWatch::SendUpdate(WatchUpdate update) {
  if (finished_) return;
  for (const WatchUpdate::Item& item : update.items) {
    if (IsEnded(item.task->state)) live_tasks_.erase(item.task->queue_id);
  }
  callbacks_.on_update(std::move(update));
}

void TaskWatch::End(absl::Status status) {
  deps_.feed.Unsubscribe(*this);
  if (!finished_.exchange(true)) callbacks_.on_end(std::move(status));
}

}  // namespace callboard::director
