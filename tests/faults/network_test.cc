// Networks that are slow, cut connections, or lose answers, for a short time; soak_test.cc has
// worse ones for longer.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "absl/time/time.h"
#include "libs/testing/files.h"
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

TEST(NetworkTest, SlowAndCutConnectionsLoseAndDuplicateNothing) {
  const NetworkReport report =
      RunOver({.delay = absl::Milliseconds(20), .cut_every = 40}, /*acknowledged=*/200);
  EXPECT_TRUE(report.check_result.ok()) << report.ToString();
  EXPECT_GE(report.check_result.acknowledged, 200u);
  EXPECT_GT(report.completed, 0u);
}

TEST(NetworkTest, FlappingLinkWithinALeaseDoesNotEndARun) {
  const FlapReport report =
      RunOverFlappingLink(/*flaps=*/3, absl::Milliseconds(700), absl::Milliseconds(700),
                          {"--lease.heartbeat=1s", "--lease.self_fence=10s",
                           "--lease.kill_grace=1s", "--lease.redispatch_after=16s"});
  EXPECT_TRUE(report.completed);
  EXPECT_EQ(report.dispatches, 1u);
}

// Answers of a submit and of a cancel that are lost after the work was done.
class LostAnswerTest : public testing::Test {
 protected:
  // Makes `call` over a network that loses the answer, and cuts the connection once `is_done`.
  template <class Call, class IsDone>
  void LoseAnswerOf(Call call, IsDone is_done) {
    network_.Set(TcpProxy::Direction::kToClient, TcpProxy::Flow::kDropped);
    std::thread caller(call);
    while (!is_done()) {
    }
    network_.Cut();
    caller.join();
    network_.Set(TcpProxy::Direction::kToClient, TcpProxy::Flow::kForwarded);
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

TEST_F(LostAnswerTest, RepeatedSubmitFindsItsTask) {
  // The connection is open, so the request gets through.
  ASSERT_TRUE(far_.Depth().ok());
  crash::History history;
  LoseAnswerOf([&] { history.push_back(Submit(far_)); }, [&] { return *near_.Depth() == 1; });
  ASSERT_EQ(history.back().answer, Call::Answer::kUnknown);
  history.push_back(Submit(far_));
  // The client may have to reconnect.
  while (history.back().answer == Call::Answer::kUnknown) history.push_back(Submit(far_));
  EXPECT_TRUE(history.back().deduplicated);
  const crash::CheckResult check_result = crash::CheckHistory(history, *near_.FindAll());
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
  EXPECT_EQ(check_result.acknowledged, 1u);
}

TEST_F(LostAnswerTest, RepeatedCancelIsAnsweredAgain) {
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
  const crash::CheckResult check_result =
      crash::CheckHistory({submitted, cancel}, *near_.FindAll());
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
}

}  // namespace
}  // namespace callboard::faults
