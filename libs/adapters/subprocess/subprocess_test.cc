#include "libs/adapters/subprocess/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/flow/abort.h"
#include "libs/testing/file_text.h"
#include "libs/testing/new_folder.h"
#include "libs/testing/status_matchers.h"

namespace callboard::adapters {
namespace {

using test::FileText;
using test::IsOk;
using test::StatusIs;

SubprocessOptions Shell(const std::string& script, absl::Duration kill_grace = absl::Seconds(10)) {
  return {.argv = {"/bin/sh", "-c", script},
          .environment = {"PATH=/usr/bin:/bin"},
          .kill_grace = kill_grace};
}

// Returns once a process has written its number there.
pid_t PidIn(const std::filesystem::path& file) {
  int pid = 0;
  while (!std::filesystem::exists(file) || !absl::SimpleAtoi(FileText(file), &pid)) {
    std::this_thread::yield();
  }
  return pid;
}

// Returns once the process runs no more; whoever inherited it may not have looked yet.
void WaitUntilDead(pid_t pid) {
  const std::string stat = absl::StrCat("/proc/", pid, "/stat");
  for (std::string text = FileText(stat); !text.empty() && !absl::StrContains(text, ") Z");
       text = FileText(stat)) {
    std::this_thread::yield();
  }
}

TEST(SubprocessTest, ExitCodeAndSignalAreExact) {
  EXPECT_EQ(RunSubprocess(Shell("exit 7"), {})->exit_code, 7);
  EXPECT_EQ(RunSubprocess(Shell("exit 7"), {})->signal, 0);
  EXPECT_EQ(RunSubprocess(Shell("kill -KILL $$"), {})->signal, SIGKILL);
}

TEST(SubprocessTest, ProgramThatDoesNotExistIsNotFound) {
  EXPECT_THAT(RunSubprocess({.argv = {"/no/such/program"}}, {}),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST(SubprocessTest, RequestedStopStartsNothing) {
  const std::filesystem::path file = test::NewFolder() / "ran";
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(flow::IsAbortError(
      RunSubprocess(Shell("touch " + file.string()), stop.get_token()).status()));
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(SubprocessTest, StopEndsTheProcessAndItsChildren) {
  const std::filesystem::path file = test::NewFolder() / "child";
  std::stop_source stop;
  pid_t child = 0;
  std::thread stopper([&] {
    child = PidIn(file);
    stop.request_stop();
  });
  const auto end =
      RunSubprocess(Shell("sleep 1000 & echo $! >" + (file.string() + ".new") + "; mv " +
                          file.string() + ".new " + file.string() + "; wait"),
                    stop.get_token());
  stopper.join();
  EXPECT_TRUE(flow::IsAbortError(end.status()));
  WaitUntilDead(child);
}

TEST(SubprocessTest, ProcessThatIgnoresTheSignalIsKilledAfterTheGrace) {
  const std::filesystem::path file = test::NewFolder() / "self";
  std::stop_source stop;
  pid_t self = 0;
  std::thread stopper([&] {
    self = PidIn(file);
    stop.request_stop();
  });
  const auto end =
      RunSubprocess(Shell("trap '' TERM; echo $$ >" + file.string() + ".new; mv " + file.string() +
                              ".new " + file.string() + "; while :; do sleep 1000; done",
                          absl::Milliseconds(20)),
                    stop.get_token());
  stopper.join();
  EXPECT_TRUE(flow::IsAbortError(end.status()));
  WaitUntilDead(self);
}

TEST(SubprocessTest, ProcessHasTimeToCleanUpWhenItIsStopped) {
  const std::filesystem::path file = test::NewFolder() / "self";
  std::stop_source stop;
  std::thread stopper([&] {
    PidIn(file);
    stop.request_stop();
  });
  const std::string cleaned = file.string() + ".cleaned";
  const auto end = RunSubprocess(
      Shell("trap 'touch " + cleaned + "; exit 0' TERM; echo $$ >" + file.string() + ".new; mv " +
            file.string() + ".new " + file.string() + "; while :; do sleep 0.01; done"),
      stop.get_token());
  stopper.join();
  EXPECT_TRUE(flow::IsAbortError(end.status()));
  EXPECT_TRUE(std::filesystem::exists(cleaned));
}

TEST(SubprocessTest, ChildrenThatOutliveTheirParentAreKilled) {
  const std::filesystem::path file = test::NewFolder() / "child";
  ASSERT_THAT(RunSubprocess(Shell("sleep 1000 & echo $! >" + file.string()), {}), IsOk());
  WaitUntilDead(PidIn(file));
}

}  // namespace
}  // namespace callboard::adapters
