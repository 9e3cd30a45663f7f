#include "libs/testing/memory_event_store.h"

#include <utility>
#include <variant>

#include "libs/base/check.h"
#include "libs/base/error.h"

namespace callboard::test {
namespace {

class MemoryEventStore final : public ports::EventStore {
 public:
  MemoryEventStore(MemoryDisk& disk, ports::StoreAccess access, bool& is_open)
      : disk_(disk), access_(access), is_open_(is_open) {
    CHECK(!is_open_) << "the store is open already";
    is_open_ = true;
  }
  ~MemoryEventStore() override { is_open_ = false; }

  absl::Status Commit(absl::Span<const core::Record> batch) override {
    if (access_ == ports::StoreAccess::kReadOnly) {
      return absl::FailedPreconditionError("the store is open for reading only");
    }
    for (const core::Record& record : batch) disk_.Write(record);
    return absl::OkStatus();
  }
  absl::Status Load(const ports::RecordVisitor& take) const override {
    absl::Status status;
    disk_.Read([&](const core::Record& record) {
      if (status.ok()) status = take(record);
    });
    return status;
  }
  absl::StatusOr<std::vector<core::TaskRecord>> TaskRecords(core::QueueId id) const override {
    std::vector<core::TaskRecord> records;
    if (const auto* numbered = disk_.Find(id)) {
      for (const auto& [number, record] : *numbered) records.push_back(record);
    }
    return records;
  }
  absl::StatusOr<core::SpecBytes> Spec(core::QueueId id) const override {
    const auto* numbered = disk_.Find(id);
    if (numbered == nullptr) return core::SpecBytes();
    return std::get<core::TaskAdmitted>(numbered->begin()->second.change).spec->bytes;
  }
  absl::StatusOr<ports::Checkpoint> CreateCheckpoint(const std::string& name) const override {
    return disk_.AddCheckpoint(name);
  }

 private:
  MemoryDisk& disk_;
  const ports::StoreAccess access_;
  bool& is_open_;
};

class FaultyEventStore final : public ports::EventStore {
 public:
  // `decide` and `on_written` must outlive the store.
  FaultyEventStore(std::unique_ptr<ports::EventStore> store,
                   const FaultyEventStores::DecideCommit& decide,
                   const FaultyEventStores::OnWritten& on_written)
      : store_(std::move(store)), decide_(decide), on_written_(on_written) {}

  absl::Status Commit(absl::Span<const core::Record> batch) override {
    CHECK(!failed_) << "a store that has failed must not be written again";
    CHECK(!batch.empty());
    const FaultyEventStores::CommitResult result = decide_();
    failed_ = !result.status.ok();
    if (result.written) {
      RETURN_IF_ERROR(store_->Commit(batch));
      for (const core::Record& record : batch) {
        if (on_written_) on_written_(record);
      }
    }
    return result.status;
  }
  absl::Status Load(const ports::RecordVisitor& take) const override { return store_->Load(take); }
  absl::StatusOr<std::vector<core::TaskRecord>> TaskRecords(core::QueueId id) const override {
    return store_->TaskRecords(id);
  }
  absl::StatusOr<core::SpecBytes> Spec(core::QueueId id) const override { return store_->Spec(id); }
  absl::StatusOr<ports::Checkpoint> CreateCheckpoint(const std::string& name) const override {
    return store_->CreateCheckpoint(name);
  }

 private:
  const std::unique_ptr<ports::EventStore> store_;
  const FaultyEventStores::DecideCommit& decide_;
  const FaultyEventStores::OnWritten& on_written_;
  bool failed_ = false;
};

}  // namespace

void MemoryDisk::Write(const core::Record& record) {
  struct Step {
    void operator()(const core::TaskRecord& task) const {
      auto& numbered = disk.tasks_[task.queue_id];
      numbered.erase(numbered.lower_bound(task.number), numbered.end());
      numbered.emplace(task.number, task);
    }
    void operator()(const core::TaskForgotten& forgotten) const {
      disk.tasks_.erase(forgotten.queue_id);
    }
    void operator()(const core::EpochBegan& began) const { disk.epoch_ = began; }
    void operator()(const core::QueueSwitched& switched) const { disk.switched_ = switched; }
    void operator()(const core::LeasesExtended& extended) const { disk.extended_ = extended; }
    void operator()(const core::DispatchesForgotten& count) const { disk.forgotten_ = count; }
    void operator()(const core::AgentMarked& marked) const {
      disk.agents_.erase(marked.name);
      if (marked.draining || !marked.cordoned_instance.empty()) {
        disk.agents_.emplace(marked.name, marked);
      }
    }
    void operator()(const core::RequestRemembered& request) const {
      disk.requests_[{request.identity, request.request_id}] = request;
    }
    void operator()(const core::RequestForgotten& request) const {
      disk.requests_.erase({request.identity, request.request_id});
    }
    MemoryDisk& disk;
  };
  std::visit(Step{*this}, record);
}

void MemoryDisk::Read(const std::function<void(const core::Record&)>& take) const {
  if (epoch_.has_value()) take(*epoch_);
  if (switched_.has_value()) take(*switched_);
  if (extended_.has_value()) take(*extended_);
  if (forgotten_.has_value()) take(*forgotten_);
  for (const auto& [name, agent] : agents_) take(agent);
  for (const auto& [id, numbered] : tasks_) {
    for (const auto& [number, record] : numbered) take(record);
  }
  for (const auto& [key, request] : requests_) take(request);
}

const std::map<uint64_t, core::TaskRecord>* MemoryDisk::Find(core::QueueId id) const {
  const auto found = tasks_.find(id);
  return found == tasks_.end() ? nullptr : &found->second;
}

absl::StatusOr<ports::Checkpoint> MemoryDisk::AddCheckpoint(const std::string& name) {
  if (!checkpoints_.insert(name).second) return absl::AlreadyExistsError(name);
  return ports::Checkpoint{.path = name};
}

absl::StatusOr<std::unique_ptr<ports::EventStore>> MemoryEventStores::Open(
    ports::StoreAccess access) {
  return std::make_unique<MemoryEventStore>(disk_, access, is_open_);
}

absl::StatusOr<std::unique_ptr<ports::EventStore>> FaultyEventStores::Open(
    ports::StoreAccess access) {
  RETURN_IF_ERROR(open_status_);
  ASSIGN_OR_RETURN(std::unique_ptr<ports::EventStore> store, stores_.Open(access));
  return std::make_unique<FaultyEventStore>(std::move(store), decide_, on_written_);
}

}  // namespace callboard::test
