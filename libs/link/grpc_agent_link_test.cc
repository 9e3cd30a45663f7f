#include "libs/link/grpc_agent_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/base/mutex.h"
#include "libs/core/dispatch_rules.h"
#include "libs/system/system.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/scripted_agent.h"
#include "libs/testing/submissions.h"
#include "libs/testing/tcp_proxy.h"

namespace callboard::link {
namespace {

using core::FenceToken;
using Direction = test::TcpProxy::Direction;
using Flow = test::TcpProxy::Flow;
using DialPolicy = GrpcAgentLink::DialPolicy;
using ::testing::HasSubstr;

FenceToken Token(uint64_t task) {
  return {core::QueueId(core::Ulid(0, task)), core::DispatchNumber(1), 7};
}

core::StartRun Start(uint64_t task, size_t prompt_bytes = 10) {
  return {.token = Token(task),
          .spec = test::SpecBytesOf(std::string(prompt_bytes, 'x')),
          .agent_time = absl::Seconds(1)};
}

// Events of the recording listener: messages by their index in the variant.
constexpr char kStartAnswer[] = "message 1";
constexpr char kRunEnded[] = "message 2";
constexpr char kHeartbeat[] = "message 3";
constexpr char kLoadReport[] = "message 4";

// Records every call as a line of text.
class RecordingListener final : public ports::AgentListener {
 public:
  bool OnSessionOpened(core::AgentSessionId session, const core::SessionOpened& opened) override {
    base::MutexLock lock(mutex_);
    session_ = session;
    Record(absl::StrCat("opened ", opened.name));
    return true;
  }
  bool OnMessages(core::AgentSessionId, std::vector<core::AgentMessage> messages) override {
    base::MutexLock lock(mutex_);
    if (rejections_ > 0) {
      --rejections_;
      return false;
    }
    for (const core::AgentMessage& message : messages) {
      Record(absl::StrCat("message ", message.index()));
    }
    return true;
  }
  void OnOutput(core::AgentSessionId, core::RunOutput output) override {
    base::MutexLock lock(mutex_);
    Record(absl::StrCat("output ", output.chunks.size()));
  }
  void OnSessionClosed(core::AgentSessionId, const absl::Status& reason) override {
    base::MutexLock lock(mutex_);
    const bool too_large = base::GetErrorDetails(reason).reason == ports::kMessageTooLarge;
    Record(too_large ? "broken by a message" : "broken");
  }
  void OnUnreachable(const std::string& name, const absl::Status& reason) override {
    base::MutexLock lock(mutex_);
    Record(absl::StrCat(core::IsSessionRejection(reason) ? "rejected by " : "unreachable ", name));
  }
  void OnStartNotSent(const FenceToken& token) override {
    base::MutexLock lock(mutex_);
    Record(absl::StrCat("not sent ", core::TaskIdText(token.queue_id, token.dispatch)));
  }

  // Waits for the next line.
  std::string Next() {
    base::MutexLock lock(mutex_);
    while (lines_.empty()) changed_.Wait(mutex_);
    std::string line = std::move(lines_.front());
    lines_.pop_front();
    return line;
  }
  // Waits for a line and skips all others.
  void WaitFor(const std::string& line) {
    while (Next() != line) continue;
  }
  bool empty() {
    base::MutexLock lock(mutex_);
    return lines_.empty();
  }
  core::AgentSessionId session() {
    base::MutexLock lock(mutex_);
    return session_;
  }
  void RejectMessages(int times) {
    base::MutexLock lock(mutex_);
    rejections_ = times;
  }

 private:
  void Record(std::string line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    lines_.push_back(std::move(line));
    changed_.NotifyAll();
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  core::AgentSessionId session_ ABSL_GUARDED_BY(mutex_);
  int rejections_ ABSL_GUARDED_BY(mutex_) = 0;
};

class GrpcAgentLinkTest : public testing::Test {
 protected:
  // A Session with the agent, through the proxy.
  void Connect() {
    link_.Redial(7);
    link_.Start(listener_);
    link_.Dial(proxy_.address(), DialPolicy::kAlways);
    agent_.WaitForSession();
    agent_.SendOpened("agent-1");
    ASSERT_EQ(listener_.Next(), "opened agent-1");
  }

  // The agent reports the end of its last run. The director does not answer.
  void EndLastRun(uint64_t task) {
    agent_.SendTogether({core::RunEnded{Token(task), {.exit_code = 0}},
                         core::LoadReport{{{"default", {.slots = 1}}}}});
    EXPECT_EQ(listener_.Next(), kRunEnded);
    EXPECT_EQ(listener_.Next(), kLoadReport);
  }

  test::FakeClock clock_;
  test::ScriptedAgent agent_;
  test::TcpProxy proxy_{agent_.address()};
  RecordingListener listener_;
  GrpcAgentLink link_{
      {.lease = {.heartbeat = absl::Seconds(3)}, .redial_max = absl::Milliseconds(50)}, clock_};
};

TEST_F(GrpcAgentLinkTest, SessionOpensWithTheDirectorsTerms) {
  link_.Redial(7);
  link_.Start(listener_);
  link_.Dial(agent_.address(), DialPolicy::kAlways);
  const core::SessionTerms terms = agent_.WaitForSession();
  EXPECT_EQ(terms.director_epoch, 7u);
  EXPECT_EQ(terms.lease.heartbeat, absl::Seconds(3));
}

TEST_F(GrpcAgentLinkTest, ItemsAreSentInOrder) {
  Connect();
  for (uint64_t task = 1; task <= 200; ++task) link_.Send(listener_.session(), {Start(task)});
  for (uint64_t task = 1; task <= 200; ++task) {
    EXPECT_EQ(agent_.NextMessage<core::StartRun>().token, Token(task));
  }
  agent_.Accept(Token(1));
  agent_.Finish(Token(1));
  EXPECT_EQ(listener_.Next(), kStartAnswer);
  EXPECT_EQ(listener_.Next(), kRunEnded);
}

TEST_F(GrpcAgentLinkTest, LargeItemsAreSplitIntoMessagesThatGrpcAccepts) {
  Connect();
  for (uint64_t task = 1; task <= 12; ++task)
    link_.Send(listener_.session(), {Start(task, 1 << 20)});
  for (uint64_t task = 1; task <= 12; ++task) {
    EXPECT_EQ(agent_.NextMessage<core::StartRun>().token, Token(task));
  }
}

TEST_F(GrpcAgentLinkTest, HeartbeatIsAcknowledgedOnceTheListenerTookIt) {
  Connect();
  listener_.RejectMessages(3);
  agent_.Send(core::Heartbeat{absl::Seconds(42), {}});
  EXPECT_EQ(agent_.NextHeartbeatAcknowledgement().agent_time, absl::Seconds(42));
  EXPECT_EQ(listener_.Next(), kHeartbeat) << "delivered again until it was taken";
}

TEST_F(GrpcAgentLinkTest, BrokenSessionIsReportedAndRedialled) {
  Connect();
  proxy_.Cut();
  EXPECT_EQ(listener_.Next(), "broken");
  agent_.WaitForSession();
  agent_.SendOpened("agent-1");
  listener_.WaitFor("opened agent-1");
}

TEST_F(GrpcAgentLinkTest, StartForAClosedSessionIsReportedAsNotSent) {
  Connect();
  const core::AgentSessionId session = listener_.session();
  agent_.EndSession();
  EXPECT_EQ(listener_.Next(), "broken");
  link_.Send(session, {Start(1)});
  listener_.WaitFor(
      absl::StrCat("not sent ", core::TaskIdText(Token(1).queue_id, Token(1).dispatch)));
}

TEST_F(GrpcAgentLinkTest, StartHandedToGrpcIsNeverReportedAsNotSent) {
  Connect();
  proxy_.Set(Direction::kToServer, Flow::kDropped);
  const uint64_t before = proxy_.bytes_to_server();
  link_.Send(listener_.session(), {Start(1)});
  while (proxy_.bytes_to_server() == before) std::this_thread::yield();
  proxy_.Cut();
  EXPECT_EQ(listener_.Next(), "broken") << "the agent may have received it";
}

TEST_F(GrpcAgentLinkTest, StartsQueuedBehindAStuckWriteAreReportedAsNotSent) {
  Connect();
  proxy_.Set(Direction::kToServer, Flow::kHeld);
  // The first starts fill the buffers of gRPC and the sockets. The others stay in the link's queue.
  for (uint64_t task = 1; task <= 60; ++task)
    link_.Send(listener_.session(), {Start(task, 1 << 20)});
  agent_.EndSession();
  std::vector<std::string> lines;
  do {
    lines.push_back(listener_.Next());
  } while (lines.back() != "broken");
  EXPECT_GT(lines.size(), 1u);
  EXPECT_EQ(lines[lines.size() - 2],
            absl::StrCat("not sent ", core::TaskIdText(Token(60).queue_id, Token(60).dispatch)));
  proxy_.Cut();
}

TEST_F(GrpcAgentLinkTest, UnreachableAgentIsReportedOnceItsNameIsKnown) {
  Connect();
  proxy_.Accept(false);
  proxy_.Cut();
  EXPECT_EQ(listener_.Next(), "broken");
  EXPECT_EQ(listener_.Next(), "unreachable agent-1");
  proxy_.Accept(true);
  agent_.WaitForSession();
  agent_.SendOpened("agent-1");
  listener_.WaitFor("opened agent-1");
}

TEST_F(GrpcAgentLinkTest, AgentThatRejectsTheSessionIsReportedByItsAnnouncedName) {
  agent_.RejectSessions(absl::UnauthenticatedError("unknown director"));
  link_.Redial(7);
  link_.Start(listener_);
  link_.Dial(agent_.address(), DialPolicy::kWhileAnnounced, "agent-1");
  EXPECT_EQ(listener_.Next(), "rejected by agent-1");
}

TEST_F(GrpcAgentLinkTest, SessionEndedByATooLargeMessageHasThatReason) {
  Connect();
  core::RunResult result = {.result = std::string(5 << 20, 'x')};
  agent_.Finish(Token(1), result);
  EXPECT_EQ(listener_.Next(), "broken by a message");
}

TEST_F(GrpcAgentLinkTest, AnnouncementDoesNotShortenTheDelayAfterABrokenSession) {
  GrpcAgentLink link({.redial_min = absl::Hours(1), .redial_max = absl::Hours(1)}, clock_);
  link.Redial(7);
  link.Redial(7);
  link.Start(listener_);
  link.Dial(agent_.address(), DialPolicy::kWhileAnnounced, "agent-1");
  agent_.WaitForSession();
  agent_.SendOpened("agent-1");
  listener_.WaitFor("opened agent-1");
  agent_.EndSession();
  listener_.WaitFor("broken");
  link.Dial(agent_.address(), DialPolicy::kWhileAnnounced, "agent-1");
  link.Redial(8);
  EXPECT_EQ(agent_.WaitForSession().director_epoch, 8u)
      << "the next Session is the one of Redial()";
}

TEST_F(GrpcAgentLinkTest, FirstDialsOfNewAddressesKeepToTheRate) {
  GrpcAgentLink link(
      {.redial_min = absl::Hours(1), .redial_max = absl::Hours(1), .redials_per_second = 5},
      clock_);
  link.Start(listener_);
  for (int port = 1; port <= 20; ++port) {
    link.Dial(absl::StrCat("127.0.0.1:", port), DialPolicy::kWhileAnnounced,
              absl::StrCat("dead-", port));
  }
  for (int dial = 1; dial <= 5; ++dial)
    EXPECT_THAT(listener_.Next(), HasSubstr("unreachable dead"));
  // A fifth of a second later one more dial is allowed. The others still wait.
  clock_.Advance(absl::Milliseconds(200));
  link.Dial("127.0.0.1:21", DialPolicy::kWhileAnnounced, "last");
  EXPECT_EQ(listener_.Next(), "unreachable last");
}

TEST_F(GrpcAgentLinkTest, UnreachedAgentIsDialledOnlyAtItsLatestAddress) {
  link_.Redial(7);
  link_.Start(listener_);
  std::deque<test::TcpProxy> silent;
  for (int i = 0; i < 5; ++i) {
    silent.emplace_back(agent_.address()).Set(Direction::kToServer, Flow::kDropped);
    link_.Dial(silent.back().address(), DialPolicy::kWhileAnnounced, "agent-1");
    EXPECT_EQ(link_.address_count(), 1u);
  }
  link_.Dial(agent_.address(), DialPolicy::kWhileAnnounced, "agent-1");
  EXPECT_EQ(link_.address_count(), 1u);
  agent_.WaitForSession();
  agent_.SendOpened("agent-1");
  listener_.WaitFor("opened agent-1");
  link_.Stop();
}

TEST_F(GrpcAgentLinkTest, NumberOfUnreachedAddressesIsLimited) {
  GrpcAgentLink link({.unreached_max = 3}, clock_);
  link.Redial(7);
  link.Start(listener_);
  for (int port = 1; port <= 20; ++port) {
    link.Dial(absl::StrCat("127.0.0.1:", port), DialPolicy::kWhileAnnounced,
              absl::StrCat("dead-", port));
  }
  EXPECT_EQ(link.address_count(), 3u);
  link.Dial(agent_.address(), DialPolicy::kAlways);
  agent_.WaitForSession();
  EXPECT_EQ(link.address_count(), 4u);
  link.Stop();
}

TEST_F(GrpcAgentLinkTest, ChannelDoesNotReconnectByItself) {
  GrpcAgentLink link({.redial_min = absl::Hours(1), .redial_max = absl::Hours(1)}, clock_);
  link.Redial(7);
  link.Start(listener_);
  proxy_.Accept(false);
  link.Dial(proxy_.address(), DialPolicy::kAlways, "refusing");
  EXPECT_EQ(listener_.Next(), "unreachable refusing");
  // Meanwhile connections to another address time out.
  test::TcpProxy silent(agent_.address());
  silent.Set(Direction::kToClient, Flow::kDropped);
  for (int dial = 1; dial <= 3; ++dial) {
    link.Dial(silent.address(), DialPolicy::kAlways, "silent");
    EXPECT_EQ(listener_.Next(), "unreachable silent");
    clock_.Advance(absl::Hours(2));
  }
  // A second attempt may have started when the next address was dialled.
  EXPECT_LE(proxy_.attempts(), 2u);
  link.Stop();
}

TEST_F(GrpcAgentLinkTest, UnknownItemFromAnAgentIsIgnoredAndCounted) {
  Connect();
  agent_.SendTogether(
      {core::UnknownItem(), core::Heartbeat{absl::Seconds(1), {}}, core::UnknownItem()});
  EXPECT_EQ(listener_.Next(), kHeartbeat);
  EXPECT_EQ(agent_.NextHeartbeatAcknowledgement().agent_time, absl::Seconds(1));
  EXPECT_EQ(link_.unknown_items(), 2u);
}

TEST_F(GrpcAgentLinkTest, NewEpochClosesSessionsAndRedialsWithIt) {
  Connect();
  link_.Redial(8);
  EXPECT_EQ(agent_.WaitForSession().director_epoch, 8u);
}

TEST_F(GrpcAgentLinkTest, InvalidItemClosesTheSession) {
  Connect();
  agent_.Send(core::StartAnswer{FenceToken(), absl::OkStatus()});
  EXPECT_EQ(listener_.Next(), "broken");
}

TEST_F(GrpcAgentLinkTest, UnparsableMessageClosesTheSession) {
  Connect();
  // gRPC reports the end of the reads, but leaves the call open.
  agent_.Send(core::LoadReport{{{"\xff", {.slots = 1}}}});
  EXPECT_EQ(listener_.Next(), "broken");
  agent_.WaitForSession();
}

TEST_F(GrpcAgentLinkTest, SessionsThatBreakImmediatelyAreRedialledEverLater) {
  GrpcAgentLink link({.redial_min = absl::Milliseconds(10), .redial_max = absl::Hours(1)}, clock_);
  link.Redial(7);
  link.Start(listener_);
  const system::SystemClock real;
  const absl::Duration start = real.MonotonicNow();
  link.Dial(agent_.address(), DialPolicy::kAlways);
  for (int session = 0; session < 6; ++session) {
    agent_.WaitForSession();
    agent_.SendOpened("agent-1");
    listener_.WaitFor("opened agent-1");
    agent_.EndSession();
  }
  // At least half of 20, 40, 80, 160 and 320 ms.
  EXPECT_GE(real.MonotonicNow() - start, absl::Milliseconds(310));
  link.Stop();
}

TEST_F(GrpcAgentLinkTest, OutputIsDeliveredAndAcknowledgedOnRequest) {
  Connect();
  agent_.Send(core::RunOutput{Token(1), {{.number = 1, .data = "hello"}}});
  EXPECT_EQ(listener_.Next(), "output 1");
  link_.AcknowledgeOutput(listener_.session(), {Token(1), 1});
  EXPECT_EQ(std::get<core::OutputAck>(*agent_.Next()).number, 1u);
}

TEST_F(GrpcAgentLinkTest, MessagesArriveWhileAResultIsUnanswered) {
  Connect();
  for (uint64_t task = 1; task <= 2; ++task) EndLastRun(task);
  agent_.Send(core::Heartbeat{absl::Seconds(42), {}});
  EXPECT_EQ(listener_.Next(), kHeartbeat);
}

TEST_F(GrpcAgentLinkTest, BrokenSessionIsDetectedWhileAResultIsUnanswered) {
  Connect();
  EndLastRun(1);
  proxy_.Cut();
  EXPECT_EQ(listener_.Next(), "broken");
}

TEST_F(GrpcAgentLinkTest, ShutdownCompletesWhileAResultIsUnanswered) {
  Connect();
  EndLastRun(1);
  link_.Shutdown(absl::Minutes(1));
  EXPECT_TRUE(listener_.empty());
}

TEST_F(GrpcAgentLinkTest, ShutdownSendsQueuedItemsFirst) {
  Connect();
  for (uint64_t task = 1; task <= 20; ++task)
    link_.Send(listener_.session(), {Start(task, 1 << 20)});
  link_.Send(listener_.session(), {core::GoingAway{absl::Minutes(5)}});
  std::thread shutdown([this] { link_.Shutdown(absl::Minutes(1)); });
  for (uint64_t task = 1; task <= 20; ++task) {
    EXPECT_EQ(agent_.NextMessage<core::StartRun>().token, Token(task));
  }
  EXPECT_EQ(agent_.NextMessage<core::GoingAway>().extension, absl::Minutes(5));
  EXPECT_EQ(agent_.Next(), std::nullopt);
  shutdown.join();
  EXPECT_TRUE(listener_.empty());
}

TEST_F(GrpcAgentLinkTest, ShutdownWaitsNoLongerThanItsTimeout) {
  Connect();
  proxy_.Set(Direction::kToServer, Flow::kDropped);
  link_.Send(listener_.session(), {core::GoingAway{absl::Minutes(5)}});
  link_.Shutdown(absl::Milliseconds(1));
  EXPECT_TRUE(listener_.empty());
}

TEST_F(GrpcAgentLinkTest, StoppedLinkNotifiesNobody) {
  Connect();
  link_.Stop();
  EXPECT_EQ(agent_.Next(), std::nullopt);
  EXPECT_TRUE(listener_.empty());
}

}  // namespace
}  // namespace callboard::link
