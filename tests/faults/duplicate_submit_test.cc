// Many callers with one request id, at the same time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "libs/base/error.h"
#include "libs/base/mutex.h"
#include "libs/testing/new_folder.h"
#include "tests/crash/director_process.h"
#include "tests/crash/history_checker.h"
#include "tests/crash/queue_client.h"

namespace callboard::faults {
namespace {

using crash::Call;
using crash::QueueClient;
using ::testing::SizeIs;

constexpr int kCallers = 200;
constexpr int kConnections = 20;

struct Answered {
  crash::History history;
  // Answers that something new was accepted.
  int accepted = 0;
  // Refused, because the request id stands for something else.
  int reused = 0;
};

// `contents` are shared out among the callers, all of which use one request id.
Answered SubmitAtOnce(const std::string& address, const std::vector<std::string>& contents) {
  std::vector<std::unique_ptr<QueueClient>> clients;
  for (int i = 0; i < kConnections; ++i) {
    clients.push_back(std::make_unique<QueueClient>(address));
    // A first connection failed now and then with "No such file or directory". The likely cause,
    // not proven: gRPC 1.51 reads the errno of connect() only after other calls, which may have set
    // it. The test is about what follows once there is a connection.
    while (!clients.back()->Depth().ok()) {
    }
  }
  base::Mutex mutex;
  Answered answered;
  uint64_t tick = 0;
  std::latch together(kCallers);
  const auto call = [&](int number) {
    Call own = {.request_id = "one"};
    own.content = contents[static_cast<size_t>(number) % contents.size()];
    together.arrive_and_wait();
    const auto submitted =
        clients[static_cast<size_t>(number % kConnections)]->Submit(own.request_id, own.content);
    base::MutexLock lock(mutex);
    // All of them overlap: nothing is known of their order.
    own.answered = kCallers + ++tick;
    if (base::DetailsOf(submitted.status()).reason == "REQUEST_ID_REUSED") {
      ++answered.reused;
      return;
    }
    ASSERT_TRUE(submitted.ok()) << submitted.status().ToString();
    own.answer = Call::Answer::kDone;
    own.queue_id = submitted->queue_id;
    own.position = submitted->position;
    own.deduplicated = submitted->deduplicated;
    answered.accepted += submitted->deduplicated ? 0 : 1;
    answered.history.push_back(own);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kCallers; ++i) threads.emplace_back(call, i);
  for (std::thread& thread : threads) thread.join();
  return answered;
}

class DuplicateSubmitTest : public testing::Test {
 protected:
  crash::Verdict Check(const crash::History& history) {
    const std::vector<crash::FoundTask> found = *QueueClient(director_.address()).FindAll();
    EXPECT_THAT(found, SizeIs(1));
    return crash::CheckHistory(history, found);
  }

  crash::DirectorProcess director_{test::NewFolder()};
};

TEST_F(DuplicateSubmitTest, TwoHundredCallsWithOneRequestIdAreOneTask) {
  const Answered answered = SubmitAtOnce(director_.address(), {"text"});
  EXPECT_THAT(answered.history, SizeIs(kCallers));
  EXPECT_EQ(answered.accepted, 1);
  for (const Call& call : answered.history) {
    EXPECT_EQ(call.queue_id, answered.history[0].queue_id);
    EXPECT_EQ(call.position, 1u);
  }
  const crash::Verdict verdict = Check(answered.history);
  EXPECT_TRUE(verdict.ok()) << verdict.ToString();
}

TEST_F(DuplicateSubmitTest, RequestIdStandsForTheContentThatCameFirst) {
  const Answered answered = SubmitAtOnce(director_.address(), {"text", "other text"});
  // One of both was first, and all of its callers have it.
  EXPECT_THAT(answered.history, SizeIs(kCallers / 2));
  EXPECT_EQ(answered.reused, kCallers / 2);
  EXPECT_EQ(answered.accepted, 1);
  for (const Call& call : answered.history) {
    EXPECT_EQ(call.content, answered.history[0].content);
  }
  const crash::Verdict verdict = Check(answered.history);
  EXPECT_TRUE(verdict.ok()) << verdict.ToString();
}

}  // namespace
}  // namespace callboard::faults
