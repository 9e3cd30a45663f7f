#include "libs/adapters/grpc_link/grpc_agent_link.h"

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
#include "libs/adapters/system_clock/system_clock.h"
#include "libs/base/error.h"
#include "libs/base/mutex.h"
#include "libs/core/answer.h"
#include "libs/testing/fake_clock.h"
#include "libs/testing/scripted_agent.h"
#include "libs/testing/tcp_proxy.h"

namespace callboard::adapters {
namespace {

using core::FenceToken;
using Direction = test::TcpProxy::Direction;
using Flow = test::TcpProxy::Flow;
using Known = GrpcAgentLink::Known;
using ::testing::HasSubstr;

FenceToken Token(uint64_t task) {
  return {core::QueueId(core::Ulid(0, task)), core::DispatchNumber(1), 7};
}

core::StartRun Start(uint64_t task, size_t prompt_bytes = 10) {
  core::TaskSpec spec;
  spec.prompt = std::string(prompt_bytes, 'x');
  return {Token(task), std::make_shared<const core::TaskSpec>(std::move(spec)), absl::Seconds(1)};
}

// Lines of the notebook: items by their place in the variant.
constexpr char kRunEnded[] = "item 1";
constexpr char kHeartbeat[] = "item 2";
constexpr char kLoadReported[] = "item 3";

// Writes down everything that it hears, as lines.
class Notebook final : public ports::AgentListener {
 public:
  bool OnOpened(core::SessionId session, const core::AgentOpened& opened) override {
    base::MutexLock lock(mutex_);
    session_ = session;
    Note(absl::StrCat("opened ", opened.name));
    return true;
  }
  bool OnItems(core::SessionId, const std::vector<core::AgentItem>& items) override {
    base::MutexLock lock(mutex_);
    if (refusals_ > 0) {
      --refusals_;
      return false;
    }
    for (const core::AgentItem& item : items) Note(absl::StrCat("item ", item.index()));
    return true;
  }
  void OnOutput(core::SessionId, core::OutputWritten output) override {
    base::MutexLock lock(mutex_);
    Note(absl::StrCat("output ", output.chunks.size()));
  }
  void OnBroken(core::SessionId, const absl::Status& why) override {
    base::MutexLock lock(mutex_);
    const bool too_large = base::DetailsOf(why).reason == ports::kMessageTooLarge;
    Note(too_large ? "broken by a message" : "broken");
  }
  void OnUnreachable(const std::string& name, const absl::Status& why) override {
    base::MutexLock lock(mutex_);
    Note(absl::StrCat(core::IsSessionRefusal(why) ? "refused by " : "unreachable ", name));
  }
  void OnNotWritten(const FenceToken& token) override {
    base::MutexLock lock(mutex_);
    Note(absl::StrCat("not written ", core::TaskIdText(token.queue_id, token.dispatch)));
  }

  // Waits for the next line.
  std::string Next() {
    base::MutexLock lock(mutex_);
    while (lines_.empty()) changed_.Wait(mutex_);
    std::string line = std::move(lines_.front());
    lines_.pop_front();
    return line;
  }
  // Waits for a line, past others.
  void WaitFor(const std::string& line) {
    while (Next() != line) continue;
  }
  bool empty() {
    base::MutexLock lock(mutex_);
    return lines_.empty();
  }
  core::SessionId session() {
    base::MutexLock lock(mutex_);
    return session_;
  }
  void RefuseItems(int times) {
    base::MutexLock lock(mutex_);
    refusals_ = times;
  }

 private:
  void Note(std::string line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    lines_.push_back(std::move(line));
    changed_.NotifyAll();
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  core::SessionId session_ ABSL_GUARDED_BY(mutex_);
  int refusals_ ABSL_GUARDED_BY(mutex_) = 0;
};

class GrpcAgentLinkTest : public testing::Test {
 protected:
  // A Session with the agent, through the proxy.
  void Connect() {
    link_.Redial(7);
    link_.Start(notebook_);
    link_.Dial(proxy_.address(), Known::kForEver);
    agent_.WaitForSession();
    agent_.SayOpened("agent-1");
    ASSERT_EQ(notebook_.Next(), "opened agent-1");
  }

  // The agent's last run has ended. Nobody answers.
  void EndLastRun(uint64_t task) {
    agent_.SayTogether({core::AgentItem(core::RunEnded{Token(task), {.exit_code = 0}}),
                        core::AgentItem(core::LoadReported{{{"default", {.slots = 1}}}})});
    EXPECT_EQ(notebook_.Next(), kRunEnded);
    EXPECT_EQ(notebook_.Next(), kLoadReported);
  }

  test::FakeClock clock_;
  test::ScriptedAgent agent_;
  test::TcpProxy proxy_{agent_.address()};
  Notebook notebook_;
  GrpcAgentLink link_{
      {.lease = {.heartbeat = absl::Seconds(3)}, .redial_max = absl::Milliseconds(50)}, clock_};
};

TEST_F(GrpcAgentLinkTest, SessionBeginsWithTheTermsOfTheDirector) {
  link_.Redial(7);
  link_.Start(notebook_);
  link_.Dial(agent_.address(), Known::kForEver);
  const core::SessionTerms terms = agent_.WaitForSession();
  EXPECT_EQ(terms.director_epoch, 7u);
  EXPECT_EQ(terms.lease.heartbeat, absl::Seconds(3));
}

TEST_F(GrpcAgentLinkTest, EverythingIsSaidInItsOrder) {
  Connect();
  for (uint64_t task = 1; task <= 200; ++task) link_.Say(notebook_.session(), {Start(task)});
  for (uint64_t task = 1; task <= 200; ++task) {
    EXPECT_EQ(agent_.NextItem<core::StartRun>().token, Token(task));
  }
  agent_.Accept(Token(1));
  agent_.Finish(Token(1));
  EXPECT_EQ(notebook_.Next(), "item 0");
  EXPECT_EQ(notebook_.Next(), "item 1");
}

TEST_F(GrpcAgentLinkTest, ManyLargeItemsGoIntoMessagesThatGrpcTakes) {
  Connect();
  for (uint64_t task = 1; task <= 12; ++task)
    link_.Say(notebook_.session(), {Start(task, 1 << 20)});
  for (uint64_t task = 1; task <= 12; ++task) {
    EXPECT_EQ(agent_.NextItem<core::StartRun>().token, Token(task));
  }
}

TEST_F(GrpcAgentLinkTest, HeartbeatIsAcknowledgedWhenItIsQueued) {
  Connect();
  notebook_.RefuseItems(3);
  agent_.Say(core::AgentItem(core::Heartbeat{absl::Seconds(42), {}}));
  EXPECT_EQ(agent_.NextHeartbeatAcknowledgement().agent_time, absl::Seconds(42));
  EXPECT_EQ(notebook_.Next(), "item 2") << "brought again until it was taken";
}

TEST_F(GrpcAgentLinkTest, BrokenSessionIsToldAndDialledAgain) {
  Connect();
  proxy_.Cut();
  EXPECT_EQ(notebook_.Next(), "broken");
  agent_.WaitForSession();
  agent_.SayOpened("agent-1");
  notebook_.WaitFor("opened agent-1");
}

TEST_F(GrpcAgentLinkTest, StartForASessionThatIsGoneIsNotWritten) {
  Connect();
  const core::SessionId session = notebook_.session();
  agent_.HangUp();
  EXPECT_EQ(notebook_.Next(), "broken");
  link_.Say(session, {Start(1)});
  notebook_.WaitFor(
      absl::StrCat("not written ", core::TaskIdText(Token(1).queue_id, Token(1).dispatch)));
}

TEST_F(GrpcAgentLinkTest, StartThatWasHandedToGrpcIsNeverCalledNotWritten) {
  Connect();
  proxy_.Set(Direction::kToServer, Flow::kSwallowed);
  const uint64_t before = proxy_.bytes_to_server();
  link_.Say(notebook_.session(), {Start(1)});
  while (proxy_.bytes_to_server() == before) std::this_thread::yield();
  proxy_.Cut();
  EXPECT_EQ(notebook_.Next(), "broken") << "it may have been heard";
}

TEST_F(GrpcAgentLinkTest, WhatWaitsBehindAStuckWriteIsNotWrittenWhenTheSessionBreaks) {
  Connect();
  proxy_.Set(Direction::kToServer, Flow::kHeld);
  // The first fills what gRPC and the sockets hold; what comes after it is still ours.
  for (uint64_t task = 1; task <= 60; ++task)
    link_.Say(notebook_.session(), {Start(task, 1 << 20)});
  agent_.HangUp();
  std::vector<std::string> lines;
  do {
    lines.push_back(notebook_.Next());
  } while (lines.back() != "broken");
  EXPECT_GT(lines.size(), 1u);
  EXPECT_EQ(lines[lines.size() - 2],
            absl::StrCat("not written ", core::TaskIdText(Token(60).queue_id, Token(60).dispatch)));
  proxy_.Cut();
}

TEST_F(GrpcAgentLinkTest, AgentThatCannotBeReachedIsToldOnceItHasAName) {
  Connect();
  proxy_.Accept(false);
  proxy_.Cut();
  EXPECT_EQ(notebook_.Next(), "broken");
  EXPECT_EQ(notebook_.Next(), "unreachable agent-1");
  proxy_.Accept(true);
  agent_.WaitForSession();
  agent_.SayOpened("agent-1");
  notebook_.WaitFor("opened agent-1");
}

TEST_F(GrpcAgentLinkTest, AgentThatRefusesTheSessionIsToldByTheNameItAnnounced) {
  agent_.RefuseSessions(absl::UnauthenticatedError("who are you"));
  link_.Redial(7);
  link_.Start(notebook_);
  link_.Dial(agent_.address(), Known::kWhileAnnounced, "agent-1");
  EXPECT_EQ(notebook_.Next(), "refused by agent-1");
}

TEST_F(GrpcAgentLinkTest, SessionThatEndsForAMessageThatIsTooLargeSaysSo) {
  Connect();
  core::RunResult result = {.result = std::string(5 << 20, 'x')};
  agent_.Finish(Token(1), result);
  EXPECT_EQ(notebook_.Next(), "broken by a message");
}

TEST_F(GrpcAgentLinkTest, AnnouncementDoesNotCutTheWaitAfterASessionThatBroke) {
  GrpcAgentLink link({.redial_min = absl::Hours(1), .redial_max = absl::Hours(1)}, clock_);
  link.Redial(7);
  link.Redial(7);
  link.Start(notebook_);
  link.Dial(agent_.address(), Known::kWhileAnnounced, "agent-1");
  agent_.WaitForSession();
  agent_.SayOpened("agent-1");
  notebook_.WaitFor("opened agent-1");
  agent_.HangUp();
  notebook_.WaitFor("broken");
  link.Dial(agent_.address(), Known::kWhileAnnounced, "agent-1");
  link.Redial(8);
  EXPECT_EQ(agent_.WaitForSession().director_epoch, 8u) << "the next Session is that of Redial()";
}

TEST_F(GrpcAgentLinkTest, NewAddressesAreDialledAtOnceOnlyAsOftenAsTheRateAllows) {
  GrpcAgentLink link(
      {.redial_min = absl::Hours(1), .redial_max = absl::Hours(1), .redials_per_second = 5},
      clock_);
  link.Start(notebook_);
  for (int port = 1; port <= 20; ++port) {
    link.Dial(absl::StrCat("127.0.0.1:", port), Known::kWhileAnnounced,
              absl::StrCat("dead-", port));
  }
  for (int dial = 1; dial <= 5; ++dial)
    EXPECT_THAT(notebook_.Next(), HasSubstr("unreachable dead"));
  // A fifth of a second later there may be one more, and the others still wait.
  clock_.Advance(absl::Milliseconds(200));
  link.Dial("127.0.0.1:21", Known::kWhileAnnounced, "last");
  EXPECT_EQ(notebook_.Next(), "unreachable last");
}

TEST_F(GrpcAgentLinkTest, AgentThatWasNotReachedIsDialledAtItsLastAddressOnly) {
  link_.Redial(7);
  link_.Start(notebook_);
  std::deque<test::TcpProxy> silent;
  for (int i = 0; i < 5; ++i) {
    silent.emplace_back(agent_.address()).Set(Direction::kToServer, Flow::kSwallowed);
    link_.Dial(silent.back().address(), Known::kWhileAnnounced, "agent-1");
    EXPECT_EQ(link_.addresses(), 1u);
  }
  link_.Dial(agent_.address(), Known::kWhileAnnounced, "agent-1");
  EXPECT_EQ(link_.addresses(), 1u);
  agent_.WaitForSession();
  agent_.SayOpened("agent-1");
  notebook_.WaitFor("opened agent-1");
  link_.Stop();
}

TEST_F(GrpcAgentLinkTest, AddressesThatWereNeverReachedAreBounded) {
  GrpcAgentLink link({.unreached_max = 3}, clock_);
  link.Redial(7);
  link.Start(notebook_);
  for (int port = 1; port <= 20; ++port) {
    link.Dial(absl::StrCat("127.0.0.1:", port), Known::kWhileAnnounced,
              absl::StrCat("dead-", port));
  }
  EXPECT_EQ(link.addresses(), 3u);
  link.Dial(agent_.address(), Known::kForEver);
  agent_.WaitForSession();
  EXPECT_EQ(link.addresses(), 4u);
  link.Stop();
}

TEST_F(GrpcAgentLinkTest, ChannelDialsNothingByItself) {
  GrpcAgentLink link({.redial_min = absl::Hours(1), .redial_max = absl::Hours(1)}, clock_);
  link.Redial(7);
  link.Start(notebook_);
  proxy_.Accept(false);
  link.Dial(proxy_.address(), Known::kForEver, "refusing");
  EXPECT_EQ(notebook_.Next(), "unreachable refusing");
  // Meanwhile connections to another time out.
  test::TcpProxy silent(agent_.address());
  silent.Set(Direction::kToClient, Flow::kSwallowed);
  for (int dial = 1; dial <= 3; ++dial) {
    link.Dial(silent.address(), Known::kForEver, "silent");
    EXPECT_EQ(notebook_.Next(), "unreachable silent");
    clock_.Advance(absl::Hours(2));
  }
  // A second one may be on its way when the next address is dialled.
  EXPECT_LE(proxy_.attempts(), 2u);
  link.Stop();
}

TEST_F(GrpcAgentLinkTest, ItemThatTheDirectorDoesNotKnowIsIgnoredAndCounted) {
  Connect();
  agent_.SayTogether({core::UnknownItem(), core::AgentItem(core::Heartbeat{absl::Seconds(1), {}}),
                      core::UnknownItem()});
  EXPECT_EQ(notebook_.Next(), kHeartbeat);
  EXPECT_EQ(agent_.NextHeartbeatAcknowledgement().agent_time, absl::Seconds(1));
  EXPECT_EQ(link_.unknown_items(), 2u);
}

TEST_F(GrpcAgentLinkTest, NewEpochEndsSessionsAndDialsInItsName) {
  Connect();
  link_.Redial(8);
  EXPECT_EQ(agent_.WaitForSession().director_epoch, 8u);
}

TEST_F(GrpcAgentLinkTest, NonsenseEndsTheSession) {
  Connect();
  agent_.Say(core::AgentItem(core::StartAnswered{FenceToken(), absl::OkStatus()}));
  EXPECT_EQ(notebook_.Next(), "broken");
}

TEST_F(GrpcAgentLinkTest, MessageThatDoesNotParseEndsTheSession) {
  Connect();
  // gRPC reports the end of the stream and leaves it open.
  agent_.Say(core::AgentItem(core::LoadReported{{{"\xff", {.slots = 1}}}}));
  EXPECT_EQ(notebook_.Next(), "broken");
  agent_.WaitForSession();
}

TEST_F(GrpcAgentLinkTest, SessionsThatBreakAtOnceAreDialledEverLater) {
  GrpcAgentLink link({.redial_min = absl::Milliseconds(10), .redial_max = absl::Hours(1)}, clock_);
  link.Redial(7);
  link.Start(notebook_);
  const SystemClock real;
  const absl::Duration begin = real.MonotonicNow();
  link.Dial(agent_.address(), Known::kForEver);
  for (int session = 0; session < 6; ++session) {
    agent_.WaitForSession();
    agent_.SayOpened("agent-1");
    notebook_.WaitFor("opened agent-1");
    agent_.HangUp();
  }
  // At least half of 20, 40, 80, 160 and 320 ms.
  EXPECT_GE(real.MonotonicNow() - begin, absl::Milliseconds(310));
  link.Stop();
}

TEST_F(GrpcAgentLinkTest, OutputComesAfterTheItemsOfItsMessageAndIsAcknowledgedByWhoeverWroteIt) {
  Connect();
  agent_.Say(core::OutputWritten{Token(1), {{.number = 1, .data = "hello"}}});
  EXPECT_EQ(notebook_.Next(), "output 1");
  link_.Acknowledge(notebook_.session(), {Token(1), 1});
  EXPECT_EQ(std::get<core::OutputAcknowledged>(*agent_.Next()).number, 1u);
}

TEST_F(GrpcAgentLinkTest, AgentIsHeardAlsoWhenItsResultIsNotAnswered) {
  Connect();
  for (uint64_t task = 1; task <= 2; ++task) EndLastRun(task);
  agent_.Say(core::AgentItem(core::Heartbeat{absl::Seconds(42), {}}));
  EXPECT_EQ(notebook_.Next(), kHeartbeat);
}

TEST_F(GrpcAgentLinkTest, BreakIsHeardOfAlsoWhenAResultIsNotAnswered) {
  Connect();
  EndLastRun(1);
  proxy_.Cut();
  EXPECT_EQ(notebook_.Next(), "broken");
}

TEST_F(GrpcAgentLinkTest, LinkEndsAlsoWhenAResultIsNotAnswered) {
  Connect();
  EndLastRun(1);
  link_.Leave(absl::Minutes(1));
  EXPECT_TRUE(notebook_.empty());
}

TEST_F(GrpcAgentLinkTest, WhoLeavesSaysWhatIsYetToBeSaid) {
  Connect();
  for (uint64_t task = 1; task <= 20; ++task)
    link_.Say(notebook_.session(), {Start(task, 1 << 20)});
  link_.Say(notebook_.session(), {core::GoingAway{absl::Minutes(5)}});
  std::thread leaving([this] { link_.Leave(absl::Minutes(1)); });
  for (uint64_t task = 1; task <= 20; ++task) {
    EXPECT_EQ(agent_.NextItem<core::StartRun>().token, Token(task));
  }
  EXPECT_EQ(agent_.NextItem<core::GoingAway>().extension, absl::Minutes(5));
  EXPECT_EQ(agent_.Next(), std::nullopt);
  leaving.join();
  EXPECT_TRUE(notebook_.empty());
}

TEST_F(GrpcAgentLinkTest, WhoLeavesWaitsNoLongerThanHeWantsTo) {
  Connect();
  proxy_.Set(Direction::kToServer, Flow::kSwallowed);
  link_.Say(notebook_.session(), {core::GoingAway{absl::Minutes(5)}});
  link_.Leave(absl::Milliseconds(1));
  EXPECT_TRUE(notebook_.empty());
}

TEST_F(GrpcAgentLinkTest, StoppedLinkTellsNothingMore) {
  Connect();
  link_.Stop();
  EXPECT_EQ(agent_.Next(), std::nullopt);
  EXPECT_TRUE(notebook_.empty());
}

}  // namespace
}  // namespace callboard::adapters
