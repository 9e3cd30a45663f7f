#include "libs/director/task_watch.h"

#include <map>
#include <string>
#include <utility>

#include "libs/base/status_macros.h"
#include "libs/core/life.h"
#include "libs/director/task_reads.h"

namespace callboard::director {
namespace {

// Tasks in a page of the list, and items that are shown at a time.
constexpr size_t kPageTasks = 64;
constexpr size_t kShownItems = 256;
// What a watcher that does not read costs, about. With one more task after it, still below what a
// message holds.
constexpr size_t kShownBytes = 64 << 10;

size_t BytesOf(const std::map<std::string, std::string>& entries) {
  size_t bytes = 0;
  for (const auto& [key, value] : entries) bytes += key.size() + value.size();
  return bytes;
}

// What a task takes in memory, about, and in a message at most.
size_t BytesOf(const core::Task& task) {
  const core::TaskSpec& spec = task.spec;
  return sizeof(task) + spec.prompt.size() + spec.payload.size() + task.result.size() +
         task.last_error.size() + BytesOf(spec.env) + BytesOf(spec.labels) +
         BytesOf(spec.required_labels) + (spec.project.has_value() ? spec.project->path.size() : 0);
}

bool IsEnded(core::TaskState state) {
  return state == core::TaskState::kCompleted || state == core::TaskState::kFailed ||
         state == core::TaskState::kCancelled;
}

// Whether a piece that has grown by this item is to be shown before more comes.
bool IsFull(const Watched& watched, size_t bytes) {
  return watched.items.size() >= kShownItems || bytes >= kShownBytes;
}

}  // namespace

TaskWatch::TaskWatch(Desk desk, WatchQuery query, Viewer viewer)
    : desk_(std::move(desk)), query_(std::move(query)), viewer_(std::move(viewer)) {}

void TaskWatch::Begin() {
  const absl::StatusOr<ChangeFeed::Followed> followed =
      desk_.feed.Follow(shared_from_this(), query_.tasks, query_.from);
  if (!followed.ok()) return End(followed.status());
  // He may have left before.
  if (over_) return desk_.feed.Unfollow(*this);
  if (!followed->resumed) return ShowAll(followed->place, query_.resumes);
  if (query_.tasks.empty()) return Next();
  Look(/*show=*/false);
}

void TaskWatch::Stop() {
  over_ = true;
  desk_.feed.Unfollow(*this);
}

void TaskWatch::OnLeftBehind() {
  if (!over_.exchange(true)) viewer_.fall_behind();
}

void TaskWatch::Next() {
  if (over_) return;
  if (!glances_.empty()) return ReadTasks();
  if (next_page_.has_value()) return List(*std::exchange(next_page_, std::nullopt));
  if (changes_.empty()) {
    ChangeFeed::Taken taken = desk_.feed.Take(*this, kShownItems);
    if (taken.began_anew) return ShowAll(taken.place, /*reset=*/true);
    if (taken.changes.empty()) {
      if (!query_.tasks.empty() && live_.empty()) End(absl::OkStatus());
      return;
    }
    changes_.assign(taken.changes.begin(), taken.changes.end());
    behind_changes_ = taken.place;
  }
  ReadChanges();
}

void TaskWatch::ShowAll(FeedPlace place, bool reset) {
  begun_at_ = place;
  reset_ = reset;
  changes_.clear();
  if (!query_.tasks.empty()) return Look(/*show=*/true);
  List({.page_size = kPageTasks});
}

void TaskWatch::Look(bool show) {
  const auto look = [tasks = query_.tasks](DirectorEngine& engine,
                                           Moment) -> absl::StatusOr<std::deque<Glance>> {
    std::deque<Glance> glances;
    for (const core::QueueId& id : tasks) {
      ASSIGN_OR_RETURN(Glance glance, engine.Look(id));
      glances.push_back(std::move(glance));
    }
    return glances;
  };
  desk_.post(CallCommand<std::deque<Glance>>(
      Command::Need::kRead, look,
      [self = shared_from_this(), show](absl::StatusOr<std::deque<Glance>> glances) {
        if (!glances.ok()) return self->End(glances.status());
        self->live_.clear();
        for (const Glance& glance : *glances) {
          if (!IsEnded(glance.state)) self->live_.insert(glance.queue_id);
        }
        if (show) self->glances_ = *std::move(glances);
        self->Next();
      }));
}

void TaskWatch::List(const ListQuery& query) {
  desk_.post(CallCommand<ListPage>(
      Command::Need::kRead,
      [query](DirectorEngine& engine, Moment) -> absl::StatusOr<ListPage> {
        return engine.List(query);
      },
      [self = shared_from_this()](const absl::StatusOr<ListPage>& page) {
        if (!page.ok()) return self->End(page.status());
        for (const ListPage::Item& item : page->tasks) self->glances_.push_back(item.glance);
        if (page->next.has_value()) {
          self->next_page_ = ListQuery{.page_size = kPageTasks, .after = page->next};
        }
        self->ReadTasks();
      }));
}

void TaskWatch::ReadTasks() {
  desk_.read([self = shared_from_this()](absl::StatusOr<const ports::EventStore*> store) {
    if (!store.ok()) return self->End(store.status());
    self->ShowTasks(**store);
  });
}

void TaskWatch::ReadChanges() {
  desk_.read([self = shared_from_this()](absl::StatusOr<const ports::EventStore*> store) {
    if (!store.ok()) return self->End(store.status());
    self->ShowChanges(**store);
  });
}

void TaskWatch::ShowTasks(const ports::EventStore& store) {
  Watched watched = {.reset = reset_};
  size_t bytes = 0;
  while (!glances_.empty() && !IsFull(watched, bytes)) {
    absl::StatusOr<core::Task> task = TaskAt(store, glances_.front());
    glances_.pop_front();
    if (absl::IsNotFound(task.status())) continue;
    if (!task.ok()) return End(task.status());
    bytes += BytesOf(*task);
    watched.items.push_back({std::make_shared<const core::Task>(*std::move(task))});
  }
  if (glances_.empty() && !next_page_.has_value()) {
    watched.place = std::exchange(begun_at_, std::nullopt);
  } else if (watched.items.empty()) {
    return Next();
  }
  reset_ = false;
  Show(std::move(watched));
}

void TaskWatch::ShowChanges(const ports::EventStore& store) {
  Watched watched;
  size_t bytes = 0;
  std::vector<core::TaskRecord> records;
  std::shared_ptr<const core::Task> task;
  while (!changes_.empty() && !IsFull(watched, bytes)) {
    const Change change = changes_.front();
    changes_.pop_front();
    watched.place = {{behind_changes_.epoch, change.number}};
    if (task == nullptr || task->queue_id != change.queue_id) {
      absl::StatusOr<std::vector<core::TaskRecord>> read = store.TaskRecords(change.queue_id);
      if (!read.ok()) return End(read.status());
      records = *std::move(read);
      // Forgotten since.
      if (records.empty()) continue;
      task = std::make_shared<const core::Task>(TaskAsOf(records));
    }
    const auto record = std::find_if(records.begin(), records.end(), [&change](const auto& one) {
      return one.event.number == change.event;
    });
    if (record == records.end()) continue;
    for (core::TaskEvent& event : core::EventsFrom({&*record, 1})) {
      bytes += BytesOf(*task) + event.why.size();
      watched.items.push_back({task, std::move(event)});
    }
  }
  if (changes_.empty()) watched.place = behind_changes_;
  // What happened was overwritten by what happened then, or is forgotten.
  if (watched.items.empty()) return Next();
  Show(std::move(watched));
}

void TaskWatch::Show(Watched watched) {
  if (over_) return;
  for (const Watched::Item& item : watched.items) {
    if (IsEnded(item.task->state)) live_.erase(item.task->queue_id);
  }
  viewer_.show(std::move(watched));
}

void TaskWatch::End(absl::Status status) {
  desk_.feed.Unfollow(*this);
  if (!over_.exchange(true)) viewer_.end(std::move(status));
}

}  // namespace callboard::director
