#include "libs/director/store_reader.h"

#include <utility>
#include <vector>

#include "libs/base/error.h"
#include "libs/core/task_state.h"

namespace callboard::director {

StoreReader::~StoreReader() {
  base::MutexLock lock(mutex_);
  while (posted_ > 0) executor_.Wait(mutex_, changed_, absl::InfiniteDuration());
}

void StoreReader::Attach(const ports::EventStore* store) {
  base::MutexLock lock(mutex_);
  ++attaching_;
  while (reading_ > 0) executor_.Wait(mutex_, changed_, absl::InfiniteDuration());
  --attaching_;
  store_ = store;
  changed_.NotifyAll();
}

bool StoreReader::Post(flow::Lane& lane, Read read) {
  absl::StatusOr<flow::LaneReservation> place = lane.TryReserve();
  if (!place.ok()) return false;
  {
    base::MutexLock lock(mutex_);
    ++posted_;
  }
  std::move(*place).Run([this, read = std::move(read)]() mutable { Run(std::move(read)); });
  return true;
}

void StoreReader::Run(Read read) {
  const ports::EventStore* store = nullptr;
  {
    base::MutexLock lock(mutex_);
    while (attaching_ > 0) executor_.Wait(mutex_, changed_, absl::InfiniteDuration());
    ++reading_;
    store = store_;
  }
  read(store);
  // The function may hold the last reference to an object that uses the owner of this reader;
  // destroy it before posted_ is decremented.
  read = nullptr;
  base::MutexLock lock(mutex_);
  --reading_;
  --posted_;
  changed_.NotifyAll();
}

absl::StatusOr<core::Task> ReadTask(const ports::EventStore& store, const TaskSummary& summary) {
  ASSIGN_OR_RETURN(const std::vector<core::TaskRecord> records,
                   store.TaskRecords(summary.queue_id));
  if (records.empty()) return TaskNotFound(summary.queue_id);
  core::Task task = TaskFromRecords(records);
  // If the task has changed since the summary, keep the position of its last record, which matches
  // the state of that record.
  if (task.state == summary.state && task.dispatch == summary.dispatch) {
    task.position = summary.position;
  }
  task.redriven_as = summary.redriven_as;
  return task;
}

core::Task TaskFromRecords(absl::Span<const core::TaskRecord> records) {
  core::Task task = core::BuildTask(records);
  if (task.state == core::LifecycleState::kPending)
    task.position = records.back().event.place_after;
  return task;
}

}  // namespace callboard::director
