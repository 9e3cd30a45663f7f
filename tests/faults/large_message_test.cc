// Messages of the maximum size and larger ones.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/base/error.h"
#include "libs/core/limits.h"
#include "libs/testing/files.h"
#include "libs/testing/process.h"
#include "libs/testing/status_matchers.h"
#include "tests/crash/director_process.h"
#include "tests/crash/history_checker.h"
#include "tests/crash/queue_client.h"

namespace callboard::faults {
namespace {

using crash::Call;
using crash::QueueClient;
using test::StatusIs;
using ::testing::AnyOf;
using ::testing::HasSubstr;

// KiB. More than the intended 256 MiB: gRPC's quota is soft, and one run in thirty takes a little
// more (docs/FAULTS.md).
constexpr uint64_t kMemoryMax = 384 * 1024;

class LargeMessageTest : public testing::Test {
 protected:
  absl::Status Submit(const std::string& request_id, size_t bytes) {
    Call call = {.invoked = ++tick_, .request_id = request_id, .content = std::string(bytes, 'x')};
    const auto submitted = client_.Submit(call.request_id, call.content);
    call.answered = ++tick_;
    call.answer = submitted.ok() ? Call::Answer::kDone : Call::Answer::kRejected;
    if (submitted.ok()) {
      call.queue_id = submitted->queue_id;
      call.position = submitted->position;
    }
    history_.push_back(std::move(call));
    return submitted.status();
  }
  crash::CheckResult Check() { return crash::CheckHistory(history_, *client_.FindAll()); }
  uint64_t PeakMemory() { return test::StatusOf(director_.process().pid(), "VmHWM"); }

  crash::DirectorProcess director_{test::NewFolder()};
  QueueClient client_{director_.address()};
  crash::History history_;
  uint64_t tick_ = 0;
};

TEST_F(LargeMessageTest, MaximumSizeIsAcceptedAndOneByteMoreIsRejected) {
  EXPECT_THAT(Submit("limit", core::kBodyBytesMax), test::IsOk());
  EXPECT_THAT(Submit("one more", core::kBodyBytesMax + 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("prompt")));
  EXPECT_THAT(Submit("message", core::kMessageBytesMax + 100'000),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("larger than max")));
  const crash::CheckResult check_result = Check();
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
  EXPECT_EQ(check_result.acknowledged, 1u);
}

TEST_F(LargeMessageTest, TenHugePromptsUseBoundedMemory) {
  constexpr size_t kBytes = 100'000'000;
  EXPECT_THAT(Submit("alone", kBytes), StatusIs(absl::StatusCode::kResourceExhausted));
  const std::string content(kBytes, 'x');
  std::vector<std::thread> threads;
  std::vector<absl::Status> ends(10);
  for (absl::Status& end : ends) {
    threads.emplace_back([this, &content, &end] {
      end = QueueClient(director_.address()).Submit("together", content).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& end : ends) {
    // Too large, or rejected because there is no memory left.
    EXPECT_THAT(end, AnyOf(StatusIs(absl::StatusCode::kResourceExhausted),
                           StatusIs(absl::StatusCode::kUnavailable)));
  }
  EXPECT_LE(PeakMemory(), kMemoryMax);
  EXPECT_THAT(Submit("well", 4), test::IsOk());
  EXPECT_TRUE(Check().ok()) << Check().ToString();
}

}  // namespace
}  // namespace callboard::faults
