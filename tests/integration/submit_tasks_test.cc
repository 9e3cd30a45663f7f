// Many tasks over one SubmitTasks stream, on a director with its store.
#include <gmock/gmock.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/testing/otlp_collector.h"
#include "tests/integration/director_fixture.h"

namespace callboard {
namespace {

using test::HasReason;
using test::IsOk;
using test::StatusIs;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Answers = std::vector<v1::SubmitTasksResponse::Item>;

// A SubmitTasks stream that sends arbitrary bytes.
class RawStream {
 public:
  explicit RawStream(const std::shared_ptr<grpc::Channel>& channel) : stub_(channel) {
    stream_ = stub_.PrepareCall(&context_, "/callboard.v1.QueueService/SubmitTasks", &queue_);
    stream_->StartCall(nullptr);
    Await();
  }

  void Write(const std::string& bytes) {
    grpc::Slice slice(bytes);
    stream_->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    EXPECT_TRUE(Await());
  }
  // Returns the next `count` answers, in any number of messages.
  Answers Take(size_t count) {
    Answers answers;
    grpc::ByteBuffer message;
    while (answers.size() < count) {
      stream_->Read(&message, nullptr);
      if (!Await()) break;
      v1::SubmitTasksResponse response;
      EXPECT_TRUE(
          grpc::SerializationTraits<v1::SubmitTasksResponse>::Deserialize(&message, &response)
              .ok());
      answers.insert(answers.end(), response.items().begin(), response.items().end());
    }
    EXPECT_THAT(answers, SizeIs(count));
    return answers;
  }
  absl::Status End() {
    grpc::Status status;
    stream_->Finish(&status, nullptr);
    Await();
    return wire::FromGrpc(status);
  }

 private:
  bool Await() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

class SubmitTasksTest : public test::DirectorFixture {
 protected:
  void Open() { stream_ = stub_->SubmitTasks(&context_); }
  void Write(const std::vector<v1::SubmitTaskRequest>& items) {
    v1::SubmitTasksRequest request;
    for (const v1::SubmitTaskRequest& item : items) *request.add_items() = item;
    EXPECT_TRUE(stream_->Write(request));
  }
  // Returns the next `count` answers, in any number of messages, and checks their order.
  Answers Take(size_t count) {
    Answers answers;
    v1::SubmitTasksResponse response;
    while (answers.size() < count && stream_->Read(&response)) {
      for (const auto& item : response.items()) {
        EXPECT_EQ(item.index(), answered_++);
        answers.push_back(item);
      }
    }
    EXPECT_THAT(answers, SizeIs(count));
    return answers;
  }
  absl::Status End() {
    v1::SubmitTasksResponse response;
    while (stream_->Read(&response)) {
    }
    return wire::FromGrpc(stream_->Finish());
  }

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::SubmitTasksRequest, v1::SubmitTasksResponse>>
      stream_;
  uint64_t answered_ = 0;
};

TEST_F(SubmitTasksTest, TasksAreAdmittedAndAnsweredInTheOrderSent) {
  Start({"--queue.max_size=0"});
  Open();
  constexpr int kMessages = 200;
  auto writing = std::async(std::launch::async, [this] {
    for (int i = 0; i < kMessages; ++i) {
      Write({Prompt("echo"), Prompt("echo"), Prompt("echo")});
    }
    stream_->WritesDone();
  });
  std::vector<std::string> accepted;
  for (const auto& answer : Take(3 * kMessages)) {
    EXPECT_TRUE(answer.has_accepted());
    EXPECT_FALSE(answer.accepted().has_task());
    accepted.push_back(answer.accepted().queue_id());
  }
  writing.get();
  EXPECT_THAT(End(), IsOk());
  EXPECT_THAT(List(), ElementsAreArray(accepted));
}

TEST_F(SubmitTasksTest, RejectedItemDoesNotStopTheOthers) {
  Start({"--queue.max_size=2"});
  Open();
  Write({Prompt("1", "r"), Prompt(""), Prompt("1", "r"), Prompt("2"), Prompt("3")});
  const Answers answers = Take(5);
  EXPECT_EQ(answers[0].accepted().position(), 1u);
  EXPECT_THAT(wire::FromProto(answers[1].refused()),
              StatusIs(absl::StatusCode::kInvalidArgument, "prompt is required"));
  EXPECT_TRUE(answers[2].accepted().deduplicated());
  EXPECT_EQ(answers[2].accepted().queue_id(), answers[0].accepted().queue_id());
  EXPECT_TRUE(answers[3].has_accepted());
  EXPECT_THAT(wire::FromProto(answers[4].refused()), HasReason("QUEUE_FULL"));
  stream_->WritesDone();
  EXPECT_THAT(End(), IsOk());
}

TEST_F(SubmitTasksTest, UnparsableItemDoesNotStopTheOthers) {
  Start();
  // Bytes that the client library would not send.
  const auto item = [](const std::string& bytes) {
    return absl::StrCat("\x0a", std::string(1, static_cast<char>(bytes.size())), bytes);
  };
  std::string bytes;
  for (const std::string& request :
       {Prompt("1").SerializeAsString(), std::string("\x0a\x02\xff\xfe"), std::string("\x0a\x7f"),
        Prompt("2").SerializeAsString()}) {
    absl::StrAppend(&bytes, item(request));
  }
  RawStream stream(director_->NewChannel());
  stream.Write(bytes);
  stream.Write(item(Prompt("3").SerializeAsString()));
  // An unparsable message ends the stream.
  stream.Write("\x0a\x7f");
  const Answers answers = stream.Take(5);
  EXPECT_TRUE(answers[0].has_accepted());
  EXPECT_THAT(wire::FromProto(answers[1].refused()),
              StatusIs(absl::StatusCode::kInvalidArgument, "prompt is not UTF-8"));
  EXPECT_THAT(wire::FromProto(answers[1].refused()), HasReason("INVALID_FIELD"));
  EXPECT_THAT(wire::FromProto(answers[2].refused()), HasReason("MALFORMED_REQUEST"));
  EXPECT_TRUE(answers[3].has_accepted());
  EXPECT_TRUE(answers[4].has_accepted());
  EXPECT_THAT(stream.End(), HasReason("MALFORMED_REQUEST"));
  EXPECT_THAT(List(), SizeIs(3));
}

TEST_F(SubmitTasksTest, WaitingItemBlocksLaterItems) {
  Start({"--queue.max_size=1", "--queue.policy=block"});
  Open();
  Write({Prompt("1"), Prompt("2"), Prompt("")});
  const std::string first = Take(1)[0].accepted().queue_id();
  while (Status().waiting() == 0) {
  }
  ASSERT_THAT(Cancel(first), IsOk());
  const Answers answers = Take(2);
  EXPECT_TRUE(answers[0].has_accepted());
  EXPECT_TRUE(answers[1].has_refused());
  EXPECT_THAT(List(), ElementsAre(answers[0].accepted().queue_id(), first));
  stream_->WritesDone();
  EXPECT_THAT(End(), IsOk());
}

TEST_F(SubmitTasksTest, WaitingCallerThatLeavesIsLoggedAndTraced) {
  test::OtlpCollector collector;
  Start({"--queue.max_size=1", "--queue.policy=block",
         absl::StrCat("--telemetry.otlp_endpoint=", collector.address())});
  context_.AddMetadata("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  Open();
  Write({Prompt("1"), Prompt("2"), Prompt("3")});
  const std::string first = Take(1)[0].accepted().queue_id();
  while (Status().waiting() == 0) {
  }
  context_.TryCancel();
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kCancelled));
  while (Status().waiting() > 0) {
  }
  EXPECT_THAT(List(), ElementsAre(first));
  EXPECT_THAT(director_->process().WaitForLine(" queue=cancel_requested "),
              HasSubstr("phase=waiting who=anonymous source=api identity=anonymous"));
  director_->process().Signal(SIGTERM);
  EXPECT_EQ(director_->process().WaitForExit(absl::Seconds(10)), 0);
  std::vector<std::string> names;
  for (const test::ReceivedSpan& received : collector.WaitForSpans(3, absl::Minutes(1))) {
    names.push_back(received.span.name());
  }
  EXPECT_THAT(names, Contains("queue.cancel"));
}

TEST_F(SubmitTasksTest, WaitingCallerThatLeavesIsTracedWithoutATrace) {
  test::OtlpCollector collector;
  Start({"--queue.max_size=1", "--queue.policy=block",
         absl::StrCat("--telemetry.otlp_endpoint=", collector.address())});
  Open();
  Write({Prompt("1"), Prompt("2")});
  Take(1);
  while (Status().waiting() == 0) {
  }
  context_.TryCancel();
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(director_->process().WaitForLine(" queue=cancel_requested "),
              HasSubstr(" trace_id="));
  director_->process().Signal(SIGTERM);
  EXPECT_EQ(director_->process().WaitForExit(absl::Seconds(10)), 0);
  std::vector<std::string> names;
  for (const test::ReceivedSpan& received : collector.WaitForSpans(2, absl::Minutes(1))) {
    names.push_back(received.span.name());
  }
  EXPECT_THAT(names, Contains("queue.cancel"));
}

TEST_F(SubmitTasksTest, MessageWithTooManyItemsEndsTheStream) {
  Start({"--queue.max_size=0"});
  Open();
  Write({Prompt("1")});
  Write(std::vector<v1::SubmitTaskRequest>(1001, Prompt("2")));
  EXPECT_TRUE(Take(1)[0].has_accepted());
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kInvalidArgument,
                              HasSubstr("items has 1001 entries, at most 1000 are allowed")));
  EXPECT_THAT(List(), SizeIs(1));
}

TEST_F(SubmitTasksTest, StoppingDirectorRejectsWaitingItems) {
  Start({"--queue.max_size=1", "--queue.policy=block"});
  Open();
  Write({Prompt("1"), Prompt("2"), Prompt("3")});
  Take(1);
  while (Status().waiting() == 0) {
  }
  director_->process().Signal(SIGTERM);
  for (const auto& answer : Take(2)) {
    EXPECT_THAT(wire::FromProto(answer.refused()), HasReason("QUEUE_DRAINING"));
  }
  EXPECT_EQ(director_->process().WaitForExit(absl::Seconds(10)), 0);
  EXPECT_FALSE(End().ok());
}

TEST_F(SubmitTasksTest, EveryTaskIsASpanInTheTraceOfTheStream) {
  constexpr char kTraceId[] = "4bf92f3577b34da6a3ce929d0e0e4736";
  test::OtlpCollector collector;
  Start({absl::StrCat("--telemetry.otlp_endpoint=", collector.address())});
  context_.AddMetadata("traceparent", absl::StrCat("00-", kTraceId, "-00f067aa0ba902b7-01"));
  Open();
  v1::SubmitTaskRequest task = Prompt("echo");
  task.set_request_id("once");
  v1::SubmitTaskRequest question = Prompt("echo");
  question.set_validate_only(true);
  // Requests that add no task have no span.
  Write({task, task, question, Prompt("echo")});
  const Answers answers = Take(4);
  EXPECT_EQ(Get(answers[0].accepted().queue_id())->trace_id(), kTraceId);
  EXPECT_EQ(Get(answers[3].accepted().queue_id())->trace_id(), kTraceId);
  stream_->WritesDone();
  EXPECT_THAT(End(), IsOk());
  director_->process().Signal(SIGTERM);
  EXPECT_EQ(director_->process().WaitForExit(absl::Seconds(10)), 0);
  std::vector<std::string> spans;
  for (const test::ReceivedSpan& received : collector.WaitForSpans(3, absl::Minutes(1))) {
    if (received.span.name() == "server.start") continue;
    spans.push_back(absl::StrCat(received.span.name(), " ",
                                 absl::BytesToHexString(received.span.trace_id()), " ",
                                 absl::BytesToHexString(received.span.parent_span_id())));
  }
  const std::string submit =
      absl::StrCat("callboard.v1.QueueService/SubmitTask ", kTraceId, " 00f067aa0ba902b7");
  EXPECT_THAT(spans, ElementsAre(submit, submit));
}

TEST_F(SubmitTasksTest, AnsweredItemsSurviveAKill) {
  Start({"--queue.max_size=0"});
  Open();
  Write(std::vector<v1::SubmitTaskRequest>(1000, Prompt("echo")));
  std::vector<std::string> accepted;
  for (const auto& answer : Take(1000)) accepted.push_back(answer.accepted().queue_id());
  Kill();
  EXPECT_FALSE(End().ok());
  Start({"--queue.max_size=0"});
  EXPECT_THAT(List(), ElementsAreArray(accepted));
}

}  // namespace
}  // namespace callboard
