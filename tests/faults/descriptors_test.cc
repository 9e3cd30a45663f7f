// A director whose file descriptors are all used by connections.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/testing/http_client.h"
#include "libs/testing/process.h"
#include "libs/testing/running_server.h"
#include "tests/crash/history_checker.h"
#include "tests/crash/load.h"
#include "tests/crash/queue_client.h"

namespace callboard::faults {
namespace {

using crash::Call;
using crash::QueueClient;
using test::HttpConnection;

constexpr size_t kDescriptors = 64;

class DescriptorsTest : public testing::Test {
 protected:
  DescriptorsTest() {
    const std::string line = director_.WaitForLine("server=listening");
    address_ = test::FieldOf(line, "grpc");
    http_port_ = test::PortOf(test::FieldOf(line, "http"));
  }

  static std::vector<std::string> Command() {
    std::vector<std::string> command = {"/usr/bin/prlimit",
                                        absl::StrCat("--nofile=", kDescriptors)};
    for (const std::string& word :
         test::ServerCommand("services/director/callboard-director", {"--queue.max_size=0"})) {
      command.push_back(word);
    }
    return command;
  }
  Call::Answer Submit(QueueClient& client) {
    history_.push_back(
        crash::Resubmit({.request_id = absl::StrCat(history_.size()), .content = "text"}, client,
                        [this] { return ++tick_; }));
    return history_.back().answer;
  }

  test::Process director_{Command()};
  std::string address_;
  uint16_t http_port_ = 0;
  crash::History history_;
  uint64_t tick_ = 0;
};

TEST_F(DescriptorsTest, ConnectionsWithAllDescriptorsBreakNothing) {
  QueueClient client(address_);
  ASSERT_EQ(Submit(client), Call::Answer::kDone);
  std::deque<std::unique_ptr<HttpConnection>> connections;
  for (const uint16_t port : {test::PortOf(address_), http_port_}) {
    for (int i = 0; i < 100; ++i) connections.push_back(std::make_unique<HttpConnection>(port));
  }
  director_.WaitForLine("server=connection_refused");
  // The reserved descriptors stay free.
  EXPECT_LT(test::DescriptorsOf(director_.pid()), kDescriptors - 5);
  EXPECT_EQ(test::HttpGet(http_port_, "/livez").status, 200);
  // Existing clients and the store keep working.
  EXPECT_EQ(Submit(client), Call::Answer::kDone);
  EXPECT_EQ(Submit(client), Call::Answer::kDone);

  const absl::Duration used = test::ProcessorTimeOf(director_.pid());
  EXPECT_FALSE(director_.WaitForExit(absl::Seconds(1)).has_value());
  EXPECT_LE(test::ProcessorTimeOf(director_.pid()) - used, absl::Milliseconds(300))
      << "the director must not retry in a loop";

  connections.clear();
  // New clients are accepted again.
  while (Submit(*std::make_unique<QueueClient>(address_)) != Call::Answer::kDone) {
  }
  EXPECT_EQ(test::HttpGet(http_port_, "/livez").status, 200);
  const crash::CheckResult check_result = crash::CheckHistory(history_, *client.FindAll());
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
}

}  // namespace
}  // namespace callboard::faults
