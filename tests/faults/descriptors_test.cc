// A director whose descriptors are all taken, by connections.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "libs/base/check.h"
#include "libs/testing/file_text.h"
#include "libs/testing/http_client.h"
#include "libs/testing/process.h"
#include "libs/testing/process_table.h"
#include "libs/testing/running_server.h"
#include "tests/crash/history_checker.h"
#include "tests/crash/load.h"
#include "tests/crash/queue_client.h"

namespace callboard::faults {
namespace {

using crash::Call;
using crash::QueueClient;
using test::HttpConnection;

// What the process has used of a processor, in ticks of ten milliseconds.
uint64_t TicksOf(pid_t pid) {
  const std::string stat = test::FileText(absl::StrCat("/proc/", pid, "/stat"));
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(stat.rfind(')') + 1), ' ', absl::SkipEmpty());
  // utime and stime of proc(5), counted from the state.
  uint64_t user = 0;
  uint64_t kernel = 0;
  CHECK(absl::SimpleAtoi(fields[11], &user) && absl::SimpleAtoi(fields[12], &kernel)) << stat;
  return user + kernel;
}

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

TEST_F(DescriptorsTest, ConnectionsThatTakeAllDescriptorsEndNothingAndCostNothing) {
  QueueClient client(address_);
  ASSERT_EQ(Submit(client), Call::Answer::kDone);
  std::deque<std::unique_ptr<HttpConnection>> crowd;
  for (const uint16_t port : {test::PortOf(address_), http_port_}) {
    for (int i = 0; i < 100; ++i) crowd.push_back(std::make_unique<HttpConnection>(port));
  }
  director_.WaitForLine("server=connection_refused");
  // What is kept for others stays theirs.
  EXPECT_LT(test::DescriptorsOf(director_.pid()), kDescriptors - 5);
  EXPECT_EQ(test::HttpGet(http_port_, "/livez").status, 200);
  // Who is there already goes on, and so does the store.
  EXPECT_EQ(Submit(client), Call::Answer::kDone);
  EXPECT_EQ(Submit(client), Call::Answer::kDone);

  const uint64_t ticks = TicksOf(director_.pid());
  EXPECT_FALSE(director_.WaitForExit(absl::Seconds(1)).has_value());
  EXPECT_LE(TicksOf(director_.pid()), ticks + 30) << "it does not try in a loop";

  crowd.clear();
  // Somebody new is let in.
  while (Submit(*std::make_unique<QueueClient>(address_)) != Call::Answer::kDone) {
  }
  EXPECT_EQ(test::HttpGet(http_port_, "/livez").status, 200);
  const crash::Verdict verdict = crash::CheckHistory(history_, *client.FindAll());
  EXPECT_TRUE(verdict.ok()) << verdict.ToString();
}

}  // namespace
}  // namespace callboard::faults
