#include "libs/store/record_codec.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "callboard/storage/v1/record.pb.h"
#include "libs/base/text.h"
#include "libs/ports/event_store.h"
#include "libs/store/database.h"
#include "libs/testing/random_message.h"
#include "libs/testing/status_matchers.h"
#include "libs/testing/submissions.h"
#include "libs/wire/time.h"

namespace callboard::store {
namespace {

using google::protobuf::util::MessageDifferencer;
using test::HasReason;
using test::IsOk;
using test::StatusIs;
using testing::HasSubstr;

constexpr core::QueueId kTask = core::QueueId(core::Ulid(1, 2));
constexpr absl::string_view kTaskText = "task/queue-0000000000000g000000000002/3";

struct EncodedRecord {
  std::string key;
  std::string value;
};

// Encodes a record, which must result in a single put.
EncodedRecord Encode(const core::Record& record) {
  struct Puts : rocksdb::WriteBatch::Handler {
    void Put(const rocksdb::Slice& key, const rocksdb::Slice& value) override {
      all.push_back({key.ToString(), value.ToString()});
    }
    std::vector<EncodedRecord> all;
  };
  rocksdb::WriteBatch batch;
  RecordEncoder().Append(record, batch);
  Puts puts;
  EXPECT_TRUE(batch.Iterate(&puts).ok());
  EXPECT_EQ(puts.all.size(), 1u);
  return puts.all.at(0);
}

absl::Status Decode(const std::string& key, const std::string& value) {
  core::Record record;
  return RecordDecoder().Decode(key, value, record);
}
absl::Status Decode(const storage::v1::TaskRecord& message) {
  return Decode(TaskKey(kTask, 3), message.SerializeAsString());
}

// Returns the smallest message that is a valid record.
storage::v1::TaskRecord SmallMessage() {
  storage::v1::TaskRecord message;
  message.set_kind(v1::TaskEvent::KIND_ADMITTED);
  message.mutable_admitted()->set_spec(*test::SpecBytesOf("p"));
  message.mutable_admitted()->set_trace(std::string(25, '\0'));
  return message;
}

// Returns a random task record. All kinds of change are equally likely.
storage::v1::TaskRecord DrawMessage() {
  storage::v1::TaskRecord message;
  test::FillRandomly(message);
  const auto& changes = *message.GetDescriptor()->FindOneofByName("change");
  const int change = *rc::gen::inRange(0, changes.field_count());
  test::FillRandomly(*message.GetReflection()->MutableMessage(&message, changes.field(change)));
  if (message.has_admitted()) {
    v1::TaskSpec spec;
    test::FillRandomly(spec);
    message.mutable_admitted()->set_spec(spec.SerializeAsString());
    message.mutable_admitted()->set_trace(std::string(24, 'x') + '\1');
  }
  if (message.has_ended() && message.ended().has_run()) {
    // Fields of a run that is reported, but not stored.
    v1::AgentRun& run = *message.mutable_ended()->mutable_run();
    run.clear_task_id();
    run.clear_started_at();
    run.clear_finished_at();
    run.clear_pid();
  }
  return message;
}

TEST(RecordCodecTest, MessageIsPreservedOrRejectedWithItsKey) {
  int preserved = 0;
  int rejected = 0;
  MessageDifferencer differencer;
  // Entries of maps are generated in any order.
  differencer.set_repeated_field_comparison(MessageDifferencer::AS_SET);
  EXPECT_TRUE(rc::check([&] {
    storage::v1::TaskRecord message = DrawMessage();
    core::Record record;
    const absl::Status status =
        RecordDecoder().Decode(TaskKey(kTask, 3), message.SerializeAsString(), record);
    if (!status.ok()) {
      ++rejected;
      RC_ASSERT(status.code() == absl::StatusCode::kDataLoss);
      RC_ASSERT(absl::StrContains(status.message(), kTaskText));
      return;
    }
    ++preserved;
    // Else the batch would contain deletes of the replaced records as well.
    std::get<core::TaskRecord>(record).replaces = 0;
    const EncodedRecord encoded = Encode(record);
    storage::v1::TaskRecord written;
    RC_ASSERT(written.ParseFromString(encoded.value));
    written.set_replaces(message.replaces());
    RC_ASSERT(encoded.key == TaskKey(kTask, 3));
    RC_ASSERT(differencer.Compare(written, message));
  }));
  EXPECT_GT(preserved, 500);
  EXPECT_GT(rejected, 100);
}

TEST(RecordCodecTest, TraceIsPreservedOrRejectedWhenInvalid) {
  storage::v1::TaskRecord message = SmallMessage();
  message.set_event_number(4);
  for (const char flags : {0, 1}) {
    message.mutable_admitted()->set_trace(std::string(24, 'x') + flags);
    core::Record record;
    ASSERT_THAT(RecordDecoder().Decode(TaskKey(kTask, 3), message.SerializeAsString(), record),
                IsOk());
    const auto& admitted = std::get<core::TaskAdmitted>(std::get<core::TaskRecord>(record).change);
    EXPECT_EQ(admitted.trace.sampled, flags == 1);
    EXPECT_EQ(Encode(record).value, message.SerializeAsString());
  }
  for (const std::string& wrong : {std::string(24, 'x'), std::string(25, 'x')}) {
    message.mutable_admitted()->set_trace(wrong);
    EXPECT_THAT(Decode(message), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("trace")));
  }
}

TEST(RecordCodecTest, KeysMatchTheDocumentedFormat) {
  const auto key = [](const core::Record& record) { return Encode(record).key; };
  EXPECT_EQ(key(core::EpochBegan{1}), "queue/epoch");
  EXPECT_EQ(key(core::QueueSwitched{}), "queue/switched");
  EXPECT_EQ(key(core::LeasesExtended{}), "queue/leases");
  EXPECT_EQ(key(core::DispatchesForgotten{}), "queue/forgotten");
  EXPECT_EQ(key(core::AgentMarked{"agent-1", true, ""}), "queue/agent/agent-1");
  EXPECT_EQ(key(core::RequestRemembered{"me", "a"}), std::string("queue/request/me\0a", 18));
  EXPECT_EQ(TaskKey(core::QueueId(core::Ulid(0x0102030405060708, 0x1112131415161718)), 0x2122),
            std::string("task/\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14\x15\x16\x17\x18"
                        "\0\0\0\0\0\0\x21\x22",
                        29));
}

TEST(RecordCodecTest, TaskKeysSortByTaskAndThenByNumber) {
  const core::QueueId later(core::Ulid(1, 3));
  EXPECT_LT(TaskKey(kTask, 255), TaskKey(kTask, 256));
  EXPECT_LT(TaskKey(kTask, ~uint64_t{0}), TaskKey(later, 1));
  EXPECT_LT(TaskKey(later, 1), TaskKey(core::QueueId(core::Ulid(0x80, 0)), 1));
}

TEST(RecordCodecTest, DistantTimesArePreserved) {
  v1::SubmitTaskRequest submit = test::MakeSubmit("echo");
  *submit.mutable_earliest_start_at() =
      wire::ToProto(absl::FromCivil(absl::CivilDay(1, 1, 1), absl::UTCTimeZone()));
  *submit.mutable_deadline_at() =
      wire::ToProto(absl::FromCivil(absl::CivilDay(9999, 12, 31), absl::UTCTimeZone()));
  core::TaskRecord record = {.queue_id = kTask};
  record.number = 1;
  record.event.number = 2;
  record.change = core::TaskAdmitted{.spec = test::ToSpec(submit)};
  const EncodedRecord encoded = Encode(record);
  core::Record read;
  ASSERT_THAT(RecordDecoder().Decode(encoded.key, encoded.value, read), IsOk());
  EXPECT_EQ(read, core::Record(record));
}

TEST(RecordCodecTest, RequestIdMayContainAnyByte) {
  const core::RequestRemembered request = {"me", std::string("a\0\xff", 3)};
  const EncodedRecord encoded = Encode(request);
  core::Record read;
  ASSERT_THAT(RecordDecoder().Decode(encoded.key, encoded.value, read), IsOk());
  EXPECT_EQ(read, core::Record(request));
}

TEST(RecordCodecTest, TextThatIsNotUtf8IsRepairedOnReading) {
  storage::v1::TaskRecord message;
  message.set_kind(v1::TaskEvent::KIND_FAILED);
  message.set_why("cut: \xe2\x82");
  message.mutable_ended()->set_state(v1::Task::STATE_FAILED);
  message.mutable_ended()->set_failure(storage::v1::DISPATCH_FAILURE_NONE);
  message.mutable_ended()->set_error("cut: \xc3");
  core::Record read;
  ASSERT_THAT(RecordDecoder().Decode(TaskKey(kTask, 3), message.SerializeAsString(), read), IsOk());
  const auto& record = std::get<core::TaskRecord>(read);
  EXPECT_EQ(record.event.why, "cut: \xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(std::get<core::TaskEnded>(record.change).error, "cut: \xef\xbf\xbd");
}

// Replaces every text in the message by the result of `visit`.
template <class Visit>
void ForEachText(google::protobuf::Message& message, Visit visit) {
  const std::set<std::string> no_texts = {"queue_id", "redrive_of", "trace", "spec", "result"};
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!field->is_repeated()) ForEachText(*reflection.MutableMessage(&message, field), visit);
      for (int i = 0; field->is_repeated() && i < reflection.FieldSize(message, field); ++i) {
        ForEachText(*reflection.MutableRepeatedMessage(&message, field, i), visit);
      }
    } else if (field->type() == google::protobuf::FieldDescriptor::TYPE_BYTES &&
               no_texts.count(field->name()) == 0) {
      reflection.SetString(&message, field, visit(reflection.GetString(message, field)));
    }
  }
}

TEST(RecordCodecTest, EveryTextIsRepairedToUtf8) {
  uint64_t texts = 0;
  const auto check = [&texts](const std::string& key, google::protobuf::Message& message) {
    ForEachText(message, [](const std::string& text) { return text + "\xff\xe2\x82"; });
    core::Record record;
    if (!RecordDecoder().Decode(key, message.SerializeAsString(), record).ok()) return;
    RC_ASSERT(message.ParseFromString(Encode(record).value));
    ForEachText(message, [&texts](const std::string& text) {
      ++texts;
      RC_ASSERT(base::ValidUtf8(text) == text);
      return text;
    });
  };
  EXPECT_TRUE(rc::check([&] {
    storage::v1::TaskRecord task = DrawMessage();
    // Else the encoder would delete the replaced records one by one.
    task.set_replaces(0);
    check(TaskKey(kTask, 3), task);
    storage::v1::QueueSwitched switched;
    switched.mutable_pause()->set_who("who");
    switched.mutable_pause()->set_why("why");
    *switched.mutable_drain() = switched.pause();
    check("queue/switched", switched);
    storage::v1::AgentMarked marked;
    marked.set_cordoned_instance("instance");
    marked.set_why("why");
    check("queue/agent/a", marked);
  }));
  EXPECT_GT(texts, 10'000u);
}

TEST(RecordCodecTest, SmallestMessageIsDecoded) { EXPECT_THAT(Decode(SmallMessage()), IsOk()); }

TEST(RecordCodecTest, GarbageIsRejectedWithItsKey) {
  const absl::Status status = Decode(TaskKey(kTask, 3), "\xff\xff\xff");
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss, HasSubstr(std::string(kTaskText))));
  EXPECT_THAT(status, HasReason(std::string(ports::kStoreRefused)));
  EXPECT_THAT(Decode("queue/epoch", "\xff"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("queue/epoch")));
}

TEST(RecordCodecTest, UnknownKeyIsRefused) {
  EXPECT_THAT(Decode("queue/mood", ""),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("queue/mood")));
  EXPECT_THAT(Decode("task/short\x01", ""),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("task/short\\x01")));
  EXPECT_THAT(Decode("queue/request/me", ""),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("queue/request/me")));
}

TEST(RecordCodecTest, MissingFieldIsRejected) {
  storage::v1::TaskRecord message = SmallMessage();
  message.mutable_admitted()->clear_spec();
  EXPECT_THAT(Decode(message), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("spec")));
  message.clear_change();
  EXPECT_THAT(Decode(message), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("change")));
  message.mutable_bounced();
  EXPECT_THAT(Decode(message), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("dispatched")));
}

TEST(RecordCodecTest, UnknownValueIsRefused) {
  storage::v1::TaskRecord message = SmallMessage();
  message.set_kind(static_cast<v1::TaskEvent::Kind>(99));
  EXPECT_THAT(Decode(message), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("kind")));
  message = SmallMessage();
  v1::TaskSpec spec;
  spec.add_retry_on("sometimes");
  message.mutable_admitted()->set_spec(spec.SerializeAsString());
  EXPECT_THAT(Decode(message), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("spec")));
  message = SmallMessage();
  message.mutable_ended()->set_state(v1::Task::STATE_FAILED);
  message.mutable_ended()->set_failure(storage::v1::DISPATCH_FAILURE_NONE);
  message.mutable_ended()->mutable_run()->set_state(static_cast<v1::AgentRun::State>(99));
  EXPECT_THAT(Decode(message), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("run.state")));
  message = SmallMessage();
  message.mutable_admitted()->set_redrive_of("short");
  EXPECT_THAT(Decode(message), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("redrive_of")));
}

}  // namespace
}  // namespace callboard::store
