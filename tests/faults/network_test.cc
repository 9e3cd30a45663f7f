// Networks that are slow, that cut connections, and that lose answers, for a moment; soak_test.cc
// has worse ones for longer.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "absl/time/time.h"
#include "libs/testing/new_folder.h"
#include "libs/testing/tcp_proxy.h"
#include "tests/crash/director_process.h"
#include "tests/crash/history_checker.h"
#include "tests/crash/load.h"
#include "tests/crash/queue_client.h"
#include "tests/faults/bad_network.h"
#include "tests/faults/shell_agent.h"

namespace callboard::faults {
namespace {

using crash::Call;
using crash::QueueClient;
using test::TcpProxy;

TEST(NetworkTest, NothingIsLostOrDoubledWhereConnectionsAreSlowAndCut) {
  const NetworkReport report =
      RunOver({.delay = absl::Milliseconds(20), .cut_every = 40}, /*acknowledged=*/200);
  EXPECT_TRUE(report.verdict.ok()) << report.ToString();
  EXPECT_GE(report.verdict.acknowledged, 200u);
  EXPECT_GT(report.completed, 0u);
}

TEST(NetworkTest, LinkThatComesAndGoesWithinALeaseCostsARunNothing) {
  const FlapReport report =
      RunOverFlappingLink(/*flaps=*/3, absl::Milliseconds(700), absl::Milliseconds(700),
                          {"--lease.heartbeat=1s", "--lease.self_fence=10s",
                           "--lease.kill_grace=1s", "--lease.redispatch_after=16s"});
  EXPECT_TRUE(report.completed);
  EXPECT_EQ(report.dispatches, 1u);
}

// An answer that is lost after the work was done, of a submit and of a cancel.
class LostAnswerTest : public testing::Test {
 protected:
  // Makes `call` over a network that loses the answer, and cuts the connection once `is_done`.
  template <class Call, class IsDone>
  void LoseAnswerOf(Call call, IsDone is_done) {
    network_.Set(TcpProxy::Direction::kToClient, TcpProxy::Flow::kSwallowed);
    std::thread caller(call);
    while (!is_done()) {
    }
    network_.Cut();
    caller.join();
    network_.Set(TcpProxy::Direction::kToClient, TcpProxy::Flow::kThrough);
  }
  Call Submit(QueueClient& client) {
    return crash::Resubmit({.request_id = "one", .content = "text"}, client,
                           [this] { return ++tick_; });
  }

  crash::DirectorProcess director_{test::NewFolder()};
  TcpProxy network_{director_.address()};
  QueueClient far_{network_.address()};
  QueueClient near_{director_.address()};
  uint64_t tick_ = 0;
};

TEST_F(LostAnswerTest, SubmitThatIsMadeAgainFindsItsTask) {
  // The connection stands: the request goes through.
  ASSERT_TRUE(far_.Depth().ok());
  crash::History history;
  LoseAnswerOf([&] { history.push_back(Submit(far_)); }, [&] { return *near_.Depth() == 1; });
  ASSERT_EQ(history.back().answer, Call::Answer::kUnknown);
  history.push_back(Submit(far_));
  // The connection may have to be made anew.
  while (history.back().answer == Call::Answer::kUnknown) history.push_back(Submit(far_));
  EXPECT_TRUE(history.back().deduplicated);
  const crash::Verdict verdict = crash::CheckHistory(history, *near_.FindAll());
  EXPECT_TRUE(verdict.ok()) << verdict.ToString();
  EXPECT_EQ(verdict.acknowledged, 1u);
}

TEST_F(LostAnswerTest, CancelThatIsMadeAgainIsAnsweredAgain) {
  const Call submitted = Submit(far_);
  ASSERT_EQ(submitted.answer, Call::Answer::kDone);
  Call cancel = {.kind = Call::Kind::kCancel, .queue_id = submitted.queue_id};
  LoseAnswerOf([&] { cancel.answer = crash::AnswerFrom(far_.Cancel(submitted.queue_id)); },
               [&] { return *near_.Depth() == 0; });
  ASSERT_EQ(cancel.answer, Call::Answer::kUnknown);
  while (cancel.answer == Call::Answer::kUnknown) {
    cancel.answer = crash::AnswerFrom(far_.Cancel(submitted.queue_id));
  }
  EXPECT_EQ(cancel.answer, Call::Answer::kDone);
  const crash::Verdict verdict = crash::CheckHistory({submitted, cancel}, *near_.FindAll());
  EXPECT_TRUE(verdict.ok()) << verdict.ToString();
}

}  // namespace
}  // namespace callboard::faults
