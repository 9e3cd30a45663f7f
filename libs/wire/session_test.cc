#include "libs/wire/session.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <memory>
#include <variant>

#include "libs/base/error.h"
#include "libs/testing/status_matchers.h"
#include "libs/wire/spec.h"
#include "libs/wire/task.h"

namespace callboard::wire {
namespace {

using google::protobuf::util::MessageDifferencer;
using test::HasReason;
using test::IsOk;
using test::StatusIs;
using testing::HasSubstr;

constexpr core::FenceToken kToken = {.queue_id = core::QueueId(core::Ulid(5, 6)),
                                     .dispatch = core::DispatchNumber(3),
                                     .director_epoch = 2};

// Converts a message to its proto and back.
template <class Message>
Message RoundTrip(const Message& message) {
  const auto item = ToProto(message);
  const absl::StatusOr<Message> parsed = FromProto(item);
  EXPECT_THAT(parsed, IsOk());
  EXPECT_TRUE(MessageDifferencer::Equals(ToProto(*parsed), item)) << "a field was lost";
  return *parsed;
}

TEST(SessionWireTest, TermsRoundTrip) {
  const core::SessionTerms terms = {
      .director_epoch = 7,
      .lease = {absl::Seconds(1), absl::Seconds(2), absl::Seconds(9), absl::Milliseconds(1500)},
      .version = 3,
      .features = {"a", "b"}};
  EXPECT_EQ(std::get<core::SessionTerms>(RoundTrip(core::DirectorMessage(terms))), terms);
}

TEST(SessionWireTest, StartRoundTrips) {
  v1::TaskSpec spec;
  spec.set_prompt("echo hello");
  (*spec.mutable_env())["A"] = "1";
  spec.set_session_id("s");
  spec.set_timeout_seconds(20);
  core::StartRun sent;
  sent.token = kToken;
  sent.spec = std::make_shared<const std::string>(spec.SerializeAsString());
  sent.agent_time = absl::Milliseconds(123456);
  sent.trace = core::NewTrace({1, 2, 3});
  v1::SessionRequest::Item item;
  ASSERT_TRUE(item.ParseFromString(ToProto(core::DirectorMessage(sent)).SerializeAsString()));
  const absl::StatusOr<core::DirectorMessage> message = FromProto(item);
  ASSERT_THAT(message, IsOk());
  const auto& start = std::get<core::StartRun>(*message);
  EXPECT_EQ(start.token, kToken);
  EXPECT_EQ(*start.run, ReadRunSpec(spec));
  EXPECT_EQ(start.agent_time, absl::Milliseconds(123456));
  EXPECT_EQ(start.trace, sent.trace);
}

TEST(SessionWireTest, MessagesAboutADispatchRoundTrip) {
  EXPECT_EQ(
      std::get<core::CancelRun>(RoundTrip(core::DirectorMessage(core::CancelRun{kToken}))).token,
      kToken);
  EXPECT_EQ(
      std::get<core::ResultAck>(RoundTrip(core::DirectorMessage(core::ResultAck{kToken}))).token,
      kToken);
  EXPECT_EQ(
      std::get<core::FenceOff>(RoundTrip(core::DirectorMessage(core::FenceOff{kToken}))).token,
      kToken);
  const auto output =
      std::get<core::OutputAck>(RoundTrip(core::DirectorMessage(core::OutputAck{kToken, 9})));
  EXPECT_EQ(output.token, kToken);
  EXPECT_EQ(output.number, 9u);
}

TEST(SessionWireTest, TimesRoundTrip) {
  EXPECT_EQ(
      std::get<core::GoingAway>(RoundTrip(core::DirectorMessage(core::GoingAway{absl::Minutes(5)})))
          .extension,
      absl::Minutes(5));
  EXPECT_EQ(std::get<core::HeartbeatAck>(
                RoundTrip(core::DirectorMessage(core::HeartbeatAck{absl::Nanoseconds(7)})))
                .agent_time,
            absl::Nanoseconds(7));
}

TEST(SessionWireTest, SessionOpenedRoundTrips) {
  const core::SessionOpened opened = {.name = "agent-1",
                                      .instance_id = "i",
                                      .url = "grpc://127.0.0.1:1",
                                      .labels = {{"os", "linux"}},
                                      .lanes = {{"default", {2, 1}}},
                                      .leaving = true,
                                      .agent_time = absl::Seconds(9),
                                      .running = {kToken},
                                      .lost = {kToken},
                                      .ended = {kToken},
                                      .version = 3,
                                      .features = {"a", "b"}};
  const auto parsed = std::get<core::SessionOpened>(RoundTrip(core::AgentMessage(opened)));
  EXPECT_EQ(parsed.name, opened.name);
  EXPECT_EQ(parsed.instance_id, opened.instance_id);
  EXPECT_EQ(parsed.url, opened.url);
  EXPECT_EQ(parsed.labels, opened.labels);
  EXPECT_EQ(parsed.lanes, opened.lanes);
  EXPECT_TRUE(parsed.leaving);
  EXPECT_EQ(parsed.agent_time, opened.agent_time);
  EXPECT_EQ(parsed.running, opened.running);
  EXPECT_EQ(parsed.lost, opened.lost);
  EXPECT_EQ(parsed.ended, opened.ended);
  EXPECT_EQ(parsed.version, opened.version);
  EXPECT_EQ(parsed.features, opened.features);
}

TEST(SessionWireTest, ResultRoundTrips) {
  const core::RunEnded ended = {kToken,
                                {.end = core::RunResult::End::kFailed,
                                 .exit_code = 7,
                                 .result = "out",
                                 .result_truncated = true,
                                 .error = "why"}};
  const auto parsed = std::get<core::RunEnded>(RoundTrip(core::AgentMessage(ended)));
  EXPECT_EQ(parsed.token, ended.token);
  EXPECT_EQ(parsed.result, ended.result);
}

TEST(SessionWireTest, UnknownEndIsAFailureAndAnotherStateAnError) {
  v1::SessionResponse::Item item =
      ToProto(core::AgentMessage(core::RunEnded{kToken, {.exit_code = 0, .result = "out"}}));
  v1::AgentRun& run = *item.mutable_result()->mutable_run();
  run.set_state(static_cast<v1::AgentRun::State>(99));
  const absl::StatusOr<core::AgentMessage> parsed = FromProto(item);
  ASSERT_THAT(parsed, IsOk());
  const auto& ended = std::get<core::RunEnded>(*parsed);
  EXPECT_EQ(ended.result.end, core::RunResult::End::kFailed);
  EXPECT_EQ(ended.result.result, "out");
  EXPECT_THAT(ended.result.error, HasSubstr("99"));
  for (const v1::AgentRun::State state :
       {v1::AgentRun::STATE_UNSPECIFIED, v1::AgentRun::STATE_WORKING}) {
    run.set_state(state);
    EXPECT_THAT(FromProto(item).status(), StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST(SessionWireTest, TextThatIsNotUtf8KeepsTheMessageReadable) {
  const core::RunEnded ended = {kToken,
                                {.end = core::RunResult::End::kFailed,
                                 .signal = "\xff",
                                 .result = "\xff",
                                 .error = "cut: \xe2\x82"}};
  const core::StartAnswer rejected = {kToken, absl::InvalidArgumentError("\xc3")};
  for (const core::AgentMessage& message :
       {core::AgentMessage(ended), core::AgentMessage(rejected)}) {
    v1::SessionResponse::Item parsed;
    EXPECT_TRUE(parsed.ParseFromString(ToProto(message).SerializeAsString()));
  }
}

TEST(SessionWireTest, AnswersRoundTripWithTheirDetails) {
  const auto accepted = std::get<core::StartAnswer>(
      RoundTrip(core::AgentMessage(core::StartAnswer{kToken, absl::OkStatus()})));
  EXPECT_THAT(accepted.answer, IsOk());
  const auto busy = std::get<core::StartAnswer>(RoundTrip(core::AgentMessage(core::StartAnswer{
      kToken, base::WithRetryAfter(base::WithReason(absl::AbortedError("busy"), "AGENT_BUSY"),
                                   absl::Seconds(3))})));
  EXPECT_THAT(busy.answer, StatusIs(absl::StatusCode::kAborted, "busy"));
  EXPECT_THAT(busy.answer, HasReason("AGENT_BUSY"));
  EXPECT_EQ(base::GetErrorDetails(busy.answer).retry_after, absl::Seconds(3));
}

TEST(SessionWireTest, HeartbeatLoadAndOutputRoundTrip) {
  const auto heartbeat = std::get<core::Heartbeat>(
      RoundTrip(core::AgentMessage(core::Heartbeat{absl::Seconds(4), {kToken}})));
  EXPECT_EQ(heartbeat.agent_time, absl::Seconds(4));
  EXPECT_EQ(heartbeat.running, std::vector{kToken});
  const auto load = std::get<core::LoadReport>(
      RoundTrip(core::AgentMessage(core::LoadReport{{{"gpu", {4, 2}}}, /*leaving=*/true})));
  EXPECT_EQ(load.lanes, (core::LaneLoads{{"gpu", {4, 2}}}));
  EXPECT_TRUE(load.leaving);
  const core::OutputChunk chunk = {.number = 4,
                                   .stream = core::OutputStream::kStderr,
                                   .data = std::string("\0\xff", 2),
                                   .at = absl::FromUnixSeconds(5),
                                   .dropped_bytes = 6};
  const auto output =
      std::get<core::RunOutput>(RoundTrip(core::AgentMessage(core::RunOutput{kToken, {chunk}})));
  EXPECT_EQ(output.chunks, std::vector{chunk});
  EXPECT_FALSE(output.is_last);
  EXPECT_TRUE(std::get<core::RunOutput>(
                  RoundTrip(core::AgentMessage(core::RunOutput{kToken, {}, /*is_last=*/true})))
                  .is_last);
}

TEST(SessionWireTest, UnknownItemIsNoError) {
  v1::SessionRequest::Item request;
  request.GetReflection()->MutableUnknownFields(&request)->AddVarint(1000, 1);
  const absl::StatusOr<core::DirectorMessage> from_director = FromProto(request);
  ASSERT_THAT(from_director, IsOk());
  EXPECT_TRUE(std::holds_alternative<core::UnknownItem>(*from_director));
  v1::SessionResponse::Item response;
  response.GetReflection()->MutableUnknownFields(&response)->AddVarint(1000, 1);
  const absl::StatusOr<core::AgentMessage> from_agent = FromProto(response);
  ASSERT_THAT(from_agent, IsOk());
  EXPECT_TRUE(std::holds_alternative<core::UnknownItem>(*from_agent));
}

TEST(SessionWireTest, FeaturesAreBounded) {
  v1::SessionResponse::Item response;
  for (int i = 0; i < 65; ++i) response.mutable_opened()->add_features("f");
  EXPECT_THAT(FromProto(response),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("opened.features")));
}

TEST(SessionWireTest, ErrorNamesTheInvalidField) {
  v1::SessionRequest::Item request;
  request.mutable_start()->mutable_token()->set_queue_id("queue-x");
  EXPECT_THAT(FromProto(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("queue_id")));
  request.mutable_open();
  EXPECT_THAT(FromProto(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("director_epoch")));
  v1::SessionResponse::Item response;
  *response.mutable_result()->mutable_token() = ToProto(kToken);
  EXPECT_THAT(FromProto(response),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("run.state")));
  response.mutable_heartbeat()->mutable_agent_time()->set_seconds(-1);
  EXPECT_THAT(FromProto(response),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("agent_time")));
}

}  // namespace
}  // namespace callboard::wire
