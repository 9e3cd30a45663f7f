// The contract of every event store, as a test suite to instantiate for each implementation:
//
//   struct MemoryHarness {
//     ports::EventStoreOpener& stores();  // The same store for as long as the harness lives.
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(Memory, EventStoreContractTest, MemoryHarness);
#ifndef CALLBOARD_LIBS_TESTING_EVENT_STORE_CONTRACT_H_
#define CALLBOARD_LIBS_TESTING_EVENT_STORE_CONTRACT_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "libs/core/trace.h"
#include "libs/ports/event_store.h"
#include "libs/testing/status_matchers.h"
#include "libs/testing/stored_records.h"

namespace callboard::test {

template <class Harness>
class EventStoreContractTest : public testing::Test {
 protected:
  static constexpr core::QueueId kTask = core::QueueId(core::Ulid(1, 2));
  static constexpr core::QueueId kOtherTask = core::QueueId(core::Ulid(1, 3));

  // Closes the store if it is open, and opens it again.
  void Reopen(ports::StoreAccess access = ports::StoreAccess::kReadWrite) {
    store_.reset();
    auto store = harness_.stores().Open(access);
    ASSERT_THAT(store, IsOk());
    store_ = *std::move(store);
  }
  void SetUp() override { Reopen(); }

  void Commit(const std::vector<core::Record>& batch) {
    ASSERT_THAT(store_->Commit(batch), IsOk());
  }
  // Returns the records that a director would load.
  std::vector<core::Record> Loaded() {
    const absl::StatusOr<std::vector<core::Record>> records = StoredRecords(*store_);
    EXPECT_THAT(records, IsOk());
    return records.value_or(std::vector<core::Record>());
  }

  // Returns a record in which every field that all changes share is set.
  static core::TaskRecord RecordOf(core::QueueId task, uint64_t number, core::TaskChange change,
                                   uint64_t replaces = 0) {
    core::TaskRecord record = {
        .queue_id = task, .number = number, .change = std::move(change), .replaces = replaces};
    record.event = {.number = number + 10,
                    .kind = core::TaskEventKind::kRetry,
                    .at = absl::FromUnixMicros(1'700'000'000'123'456),
                    .who = "agent-1",
                    .why = "because",
                    .fault = core::Fault::kAgent,
                    .place_before = 3,
                    .place_after = 4,
                    .dispatch = core::DispatchNumber(5),
                    .agent = "agent-1"};
    return record;
  }
  static core::TaskAdmitted FullAdmitted() {
    core::TaskAdmitted admitted;
    v1::SubmitTaskRequest submit = MakeSubmit(std::string("line\n\0bytes", 11));
    submit.set_request_id("request");
    submit.set_session_id("session");
    submit.set_lane("gpu");
    (*submit.mutable_env())["A"] = "1";
    (*submit.mutable_labels())["team"] = "a";
    submit.mutable_deadline_at()->set_nanos(1);
    submit.mutable_overlap()->set_key("overlap");
    submit.set_max_attempts(4);
    admitted.spec = ToSpec(std::move(submit));
    admitted.fingerprint = {1, ~uint64_t{0}, 4};
    admitted.policy = core::QueuePolicy::kBlock;
    admitted.identity = "me";
    admitted.submitted_at = absl::FromUnixMicros(3);
    admitted.sequence = uint64_t{1} << 40;
    admitted.redrive_of = kOtherTask;
    admitted.trace = core::SubmitSpan(kOtherTask);
    admitted.trace.sampled = false;
    return admitted;
  }
  // Returns one change of each kind, with every field set.
  static std::vector<core::TaskChange> EveryChange() {
    const core::TaskDispatched dispatched = {core::DispatchNumber(1), 2, "instance", "grpc://a:1"};
    const core::RunResult run = {.end = core::RunResult::End::kFailed,
                                 .exit_code = -1,
                                 .signal = "SIGTERM",
                                 .result = std::string("\0\xff", 2),
                                 .result_truncated = true,
                                 .error = "error"};
    return {FullAdmitted(),
            dispatched,
            core::StartAccepted(),
            core::StartAnsweredBusy{dispatched, absl::FromUnixMicros(4), 6, 5},
            core::TaskReturned{.sequence = 7,
                               .counts_as_attempt = true,
                               .failure = core::DispatchFailure::kAgentLost,
                               .reported = true,
                               .backoff = absl::Milliseconds(1500),
                               .error = "why"},
            core::CancelRequested(),
            core::EventOnly(),
            core::TaskEnded{.state = core::LifecycleState::kFailed,
                            .reason = core::FailureReason::kPoison,
                            .counts_as_attempt = true,
                            .failure = core::DispatchFailure::kAgentFailed,
                            .run = run,
                            .error = "why"}};
  }

  Harness harness_;
  std::unique_ptr<ports::EventStore> store_;
};

TYPED_TEST_SUITE_P(EventStoreContractTest);

TYPED_TEST_P(EventStoreContractTest, NewStoreIsEmpty) {
  EXPECT_THAT(this->Loaded(), testing::IsEmpty());
  EXPECT_THAT(*this->store_->TaskRecords(this->kTask), testing::IsEmpty());
}

TYPED_TEST_P(EventStoreContractTest, EveryFieldOfEveryChangeSurvivesReopening) {
  std::vector<core::Record> batch;
  for (core::TaskChange& change : this->EveryChange()) {
    batch.push_back(this->RecordOf(this->kTask, batch.size() + 1, std::move(change)));
  }
  this->Commit(batch);
  EXPECT_EQ(this->Loaded(), batch);
  this->Reopen();
  EXPECT_EQ(this->Loaded(), batch);
  EXPECT_EQ(this->store_->TaskRecords(this->kTask)->size(), batch.size());
  EXPECT_EQ(core::Record(this->store_->TaskRecords(this->kTask)->front()), batch.front());
}

TYPED_TEST_P(EventStoreContractTest, SpecComesFromTheFirstRecord) {
  const core::TaskAdmitted admitted = this->FullAdmitted();
  this->Commit({this->RecordOf(this->kTask, 1, admitted)});
  EXPECT_EQ(**this->store_->Spec(this->kTask), *admitted.spec->bytes);
  EXPECT_EQ(*this->store_->Spec(this->kOtherTask), nullptr);
}

TYPED_TEST_P(EventStoreContractTest, CheckpointNameCannotBeReused) {
  this->Commit({core::EpochBegan{1}});
  EXPECT_THAT(this->store_->CreateCheckpoint("one"), IsOk());
  EXPECT_EQ(this->store_->CreateCheckpoint("one").status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(this->store_->CreateCheckpoint("two"), IsOk());
  this->Commit({core::EpochBegan{2}});
  EXPECT_EQ(this->Loaded(), std::vector<core::Record>{core::EpochBegan{2}});
}

TYPED_TEST_P(EventStoreContractTest, RecordsOfATaskAreLoadedInNumberOrder) {
  for (uint64_t number = 1; number <= 300; ++number) {
    this->Commit({this->RecordOf(this->kTask, number, core::EventOnly()),
                  this->RecordOf(this->kOtherTask, number, core::EventOnly())});
  }
  this->Reopen();
  uint64_t last = 0;
  size_t count = 0;
  for (const core::Record& record : this->Loaded()) {
    const auto& task = std::get<core::TaskRecord>(record);
    if (task.queue_id != this->kTask) continue;
    EXPECT_EQ(task.number, ++last);
    ++count;
  }
  EXPECT_EQ(count, 300u);
}

TYPED_TEST_P(EventStoreContractTest, RecordReplacesRecordsFromItsNumberOn) {
  this->Commit({this->RecordOf(this->kTask, 1, core::EventOnly()),
                this->RecordOf(this->kTask, 2, core::EventOnly()),
                this->RecordOf(this->kTask, 3, core::StartAccepted())});
  const core::TaskRecord later = this->RecordOf(this->kTask, 2, core::CancelRequested(), 2);
  this->Commit({later});
  this->Reopen();
  const std::vector<core::Record> expected = {this->RecordOf(this->kTask, 1, core::EventOnly()),
                                              later};
  EXPECT_EQ(this->Loaded(), expected);
}

TYPED_TEST_P(EventStoreContractTest, ForgottenTaskLeavesNoRecords) {
  this->Commit({this->RecordOf(this->kTask, 1, core::EventOnly()),
                this->RecordOf(this->kTask, 2, core::EventOnly()),
                this->RecordOf(this->kOtherTask, 1, core::EventOnly())});
  this->Commit({core::TaskForgotten{this->kTask, 2}});
  this->Reopen();
  EXPECT_EQ(this->Loaded(),
            std::vector<core::Record>{this->RecordOf(this->kOtherTask, 1, core::EventOnly())});
  EXPECT_THAT(*this->store_->TaskRecords(this->kTask), testing::IsEmpty());
}

TYPED_TEST_P(EventStoreContractTest, OnlyTheLastQueueRecordOfEachKindIsKept) {
  const core::AgentMarked marked = {"agent-1", true, "instance"};
  const core::RequestRemembered remembered = {
      "me", "request", {5, 6}, this->kTask, core::LifecycleState::kFailed, absl::FromUnixMicros(7)};
  this->Commit({core::EpochBegan{1}, core::QueueSwitched{true, false}, core::DispatchesForgotten{4},
                core::LeasesExtended{1, absl::Minutes(1)},
                core::AgentMarked{"agent-1", true, "", "why"},
                core::RequestRemembered{"me", "request", {}, this->kOtherTask}});
  const core::QueueSwitched switched = {
      .draining = true, .drain = core::SwitchCause{"me", "a reason", absl::FromUnixMicros(8)}};
  const std::vector<core::Record> last = {core::EpochBegan{2},
                                          switched,
                                          core::LeasesExtended{2, absl::Minutes(5)},
                                          marked,
                                          remembered,
                                          core::DispatchesForgotten{9}};
  this->Commit(last);
  this->Reopen();
  EXPECT_THAT(this->Loaded(), testing::UnorderedElementsAreArray(last));
}

TYPED_TEST_P(EventStoreContractTest, UnmarkedAgentsAndForgottenRequestsHaveNoRecord) {
  this->Commit({core::AgentMarked{"agent-1", true, ""}, core::AgentMarked{"agent-2", false, "x"},
                core::RequestRemembered{"me", "one"}, core::RequestRemembered{"me", "two"}});
  this->Commit({core::AgentMarked{"agent-1", false, ""}, core::RequestForgotten{"me", "one"}});
  this->Reopen();
  EXPECT_THAT(this->Loaded(),
              testing::UnorderedElementsAre(core::Record(core::AgentMarked{"agent-2", false, "x"}),
                                            core::Record(core::RequestRemembered{"me", "two"})));
}

TYPED_TEST_P(EventStoreContractTest, OneBatchMayWriteAndForgetTheSameThing) {
  this->Commit({this->RecordOf(this->kTask, 1, core::EventOnly()),
                core::TaskForgotten{this->kTask, 1}, core::RequestRemembered{"me", "one"},
                core::RequestForgotten{"me", "one"}, core::EpochBegan{1}, core::EpochBegan{2}});
  this->Reopen();
  EXPECT_EQ(this->Loaded(), std::vector<core::Record>{core::EpochBegan{2}});
}

TYPED_TEST_P(EventStoreContractTest, BatchAppliesTheRecordsOfEachTaskInOrder) {
  constexpr uint64_t kTasks = 20;
  const auto task = [](uint64_t i) { return core::QueueId(core::Ulid(kTasks - i, i)); };
  std::vector<core::Record> batch;
  for (const uint64_t number : {1, 2, 3}) {
    for (uint64_t i = 0; i < kTasks; ++i) {
      batch.push_back(this->RecordOf(task(i), number, core::EventOnly()));
    }
  }
  // Every second task is forgotten and then created again.
  for (uint64_t i = 0; i < kTasks; i += 2) batch.push_back(core::TaskForgotten{task(i), 3});
  for (uint64_t i = 0; i < kTasks; i += 2) {
    batch.push_back(this->RecordOf(task(i), 1, core::StartAccepted()));
  }
  this->Commit(batch);
  this->Reopen();
  for (uint64_t i = 0; i < kTasks; ++i) {
    const auto records = this->store_->TaskRecords(task(i));
    ASSERT_EQ(records->size(), i % 2 == 0 ? 1u : 3u) << i;
    EXPECT_EQ(std::holds_alternative<core::StartAccepted>(records->at(0).change), i % 2 == 0) << i;
  }
}

TYPED_TEST_P(EventStoreContractTest, ReadOnlyStoreLoadsEverythingAndRejectsCommits) {
  this->Commit({core::EpochBegan{1}});
  this->Reopen(ports::StoreAccess::kReadOnly);
  EXPECT_EQ(this->Loaded(), std::vector<core::Record>{core::EpochBegan{1}});
  const std::vector<core::Record> batch = {core::EpochBegan{2}};
  EXPECT_FALSE(this->store_->Commit(batch).ok());
  this->Reopen();
  EXPECT_EQ(this->Loaded(), std::vector<core::Record>{core::EpochBegan{1}});
}

TYPED_TEST_P(EventStoreContractTest, LoadStopsAtTheFirstCallbackError) {
  this->Commit({core::EpochBegan{1}, this->RecordOf(this->kTask, 1, this->FullAdmitted())});
  int offered = 0;
  const absl::Status status = this->store_->Load([&offered](const core::Record&) {
    ++offered;
    return absl::DataLossError("rejected record");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(offered, 1);
}

REGISTER_TYPED_TEST_SUITE_P(
    EventStoreContractTest, NewStoreIsEmpty, EveryFieldOfEveryChangeSurvivesReopening,
    SpecComesFromTheFirstRecord, CheckpointNameCannotBeReused, RecordsOfATaskAreLoadedInNumberOrder,
    RecordReplacesRecordsFromItsNumberOn, ForgottenTaskLeavesNoRecords,
    OnlyTheLastQueueRecordOfEachKindIsKept, UnmarkedAgentsAndForgottenRequestsHaveNoRecord,
    OneBatchMayWriteAndForgetTheSameThing, BatchAppliesTheRecordsOfEachTaskInOrder,
    ReadOnlyStoreLoadsEverythingAndRejectsCommits, LoadStopsAtTheFirstCallbackError);

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_EVENT_STORE_CONTRACT_H_
