#include "libs/testing/faulty_event_stores.h"

#include <utility>

#include "libs/base/check.h"
#include "libs/base/status_macros.h"

namespace callboard::test {
namespace {

class FaultyEventStore final : public ports::EventStore {
 public:
  // The functions outlive the store.
  FaultyEventStore(std::unique_ptr<ports::EventStore> store,
                   const FaultyEventStores::DecideCommit& decide,
                   const FaultyEventStores::OnWritten& on_written)
      : store_(std::move(store)), decide_(decide), on_written_(on_written) {}

  absl::Status Commit(absl::Span<const core::Record> batch) override {
    CHECK(!failed_) << "a store that has failed must not be written again";
    CHECK(!batch.empty());
    const FaultyEventStores::Fate fate = decide_();
    failed_ = !fate.status.ok();
    if (fate.written) {
      RETURN_IF_ERROR(store_->Commit(batch));
      for (const core::Record& record : batch) {
        if (on_written_) on_written_(record);
      }
    }
    return fate.status;
  }
  absl::Status Load(const ports::RecordTaker& take) const override { return store_->Load(take); }
  absl::StatusOr<std::vector<core::TaskRecord>> TaskRecords(core::QueueId id) const override {
    return store_->TaskRecords(id);
  }
  absl::StatusOr<core::SpecPtr> TaskSpec(core::QueueId id) const override {
    return store_->TaskSpec(id);
  }
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

absl::StatusOr<std::unique_ptr<ports::EventStore>> FaultyEventStores::Open(
    ports::StoreAccess access) {
  RETURN_IF_ERROR(open_status_);
  ASSIGN_OR_RETURN(std::unique_ptr<ports::EventStore> store, stores_.Open(access));
  return std::make_unique<FaultyEventStore>(std::move(store), decide_, on_written_);
}

}  // namespace callboard::test
