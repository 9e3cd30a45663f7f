// Leases must last even if the director's disk stalls or clocks are set.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/testing/files.h"
#include "libs/testing/process.h"
#include "libs/testing/running_server.h"
#include "tests/crash/director_process.h"
#include "tests/crash/disk.h"
#include "tests/crash/history_checker.h"
#include "tests/crash/load.h"
#include "tests/crash/queue_client.h"
#include "tests/faults/shell_agent.h"

namespace callboard::faults {
namespace {

using crash::Call;
using crash::FoundTask;
using crash::QueueClient;
using State = crash::FoundTask::State;

// A director and an agent, each with a disk and a clock that the test controls. The agent runs one
// task at a time with a short lease.
class LastingLeaseTest : public testing::Test {
 protected:
  std::filesystem::path File(const std::string& name) const { return folder_ / name; }

  // Submits a task that runs until Open(), and waits until it runs.
  std::string StartGatedTask() {
    const std::string id = Submit(
        "gated", absl::StrCat("echo >", File("running").string(), "; ", WaitForGate(File("gate"))));
    while (!std::filesystem::exists(File("running"))) std::this_thread::yield();
    return id;
  }
  void Open() const { std::ofstream(File("gate")) << "open"; }

  std::string Submit(const std::string& request_id, const std::string& script) {
    history_.push_back(crash::Resubmit({.request_id = request_id, .content = script}, client_,
                                       [this] { return director_disk_.Tick(); }));
    EXPECT_EQ(history_.back().answer, Call::Answer::kDone);
    return history_.back().queue_id;
  }
  FoundTask WaitForEnd(const std::string& queue_id) {
    while (true) {
      FoundTask task = *client_.Get(queue_id);
      if (task.state != State::kPending && task.state != State::kRunning) return task;
    }
  }
  crash::CheckResult Check() {
    return crash::CheckHistory(history_, *client_.FindAll(), {.runs = true});
  }

  const std::filesystem::path folder_ = test::NewFolder();
  crash::Disk director_disk_{test::NewFolder()};
  crash::Disk agent_disk_{test::NewFolder()};
  crash::DirectorProcess director_{director_disk_, ShortLease()};
  std::optional<test::Process> agent_{
      std::in_place, [this] {
        std::vector<std::string> command = {"/usr/bin/env"};
        for (const std::string& variable : agent_disk_.environment()) command.push_back(variable);
        for (const std::string& word :
             test::ServerCommand(kAgent, ShellAgentFlags(director_.address()))) {
          command.push_back(word);
        }
        return command;
      }()};
  QueueClient client_{director_.address()};
  crash::History history_;
};

TEST_F(LastingLeaseTest, StalledDiskEndsNoRunOfAHealthyAgent) {
  const std::string id = StartGatedTask();
  const uint64_t syncs = director_disk_.control().syncs;
  // Longer than the lease of both sides.
  director_disk_.control().spike_every = 1;
  director_disk_.control().spike_delay_ms = 10'000;
  // The submit waits for a sync, and so does the whole turn.
  Submit("while stalled", "echo");
  director_disk_.control().spike_every = 0;
  EXPECT_GT(director_disk_.control().syncs, syncs);
  EXPECT_EQ(client_.Get(id)->state, State::kRunning);
  Open();
  const FoundTask task = WaitForEnd(id);
  EXPECT_EQ(task.state, State::kCompleted);
  EXPECT_EQ(task.dispatches, 1u);
  EXPECT_TRUE(Check().ok()) << Check().ToString();
}

TEST_F(LastingLeaseTest, SettingWallClocksChangesNeitherOrderNorLeases) {
  const std::string gated = StartGatedTask();
  std::vector<std::string> ids;
  for (const absl::Duration jump :
       {absl::Hours(1), -absl::Hours(1), absl::Hours(24), absl::ZeroDuration()}) {
    director_disk_.SetWallClock(jump);
    agent_disk_.SetWallClock(-jump);
    const std::string number = absl::StrCat(ids.size());
    ids.push_back(Submit(number, absl::StrCat("echo ", number, " >>", File("order").string())));
    EXPECT_EQ(client_.Get(ids.back())->position, ids.size());
  }
  const absl::StatusOr<std::vector<std::string>> queue = client_.ListQueue();
  ASSERT_TRUE(queue.ok());
  EXPECT_EQ(*queue, ids);
  // Set back by a day: every lease would have expired if it used this clock.
  director_disk_.SetWallClock(-absl::Hours(24));
  agent_disk_.SetWallClock(absl::Hours(24));
  EXPECT_EQ(client_.Get(gated)->state, State::kRunning);
  Open();
  EXPECT_EQ(WaitForEnd(gated).dispatches, 1u);
  for (const std::string& id : ids) {
    const FoundTask task = WaitForEnd(id);
    EXPECT_EQ(task.state, State::kCompleted);
    EXPECT_EQ(task.dispatches, 1u);
  }
  EXPECT_EQ(test::FileText(File("order")), "0\n1\n2\n3\n");
  EXPECT_TRUE(Check().ok()) << Check().ToString();
}

}  // namespace
}  // namespace callboard::faults
