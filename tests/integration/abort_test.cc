// One stop token from the top down to queue, process and file.
#include <gtest/gtest.h>

#include <filesystem>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/adapters/staged_file/staged_file.h"
#include "libs/adapters/subprocess/subprocess.h"
#include "libs/adapters/system_clock/system_clock.h"
#include "libs/base/status_macros.h"
#include "libs/flow/abort.h"
#include "libs/flow/run_with_queue.h"
#include "libs/flow/thread_pool.h"
#include "libs/testing/file_text.h"
#include "libs/testing/new_folder.h"

namespace callboard {
namespace {

using adapters::StagedFile;
using test::FileText;

// Makes `path` with a program that tells its number at `path`.pid and then takes for ever.
absl::Status BuildForEver(const std::string& path, const std::stop_token& stop) {
  ASSIGN_OR_RETURN(StagedFile file, StagedFile::Create(path, StagedFile::Readers::kOwner));
  const std::string script =
      absl::StrCat("echo $$ >", path, ".w; mv ", path, ".w ", path, ".pid; exec sleep 1000");
  RETURN_IF_ERROR(
      adapters::RunSubprocess(
          {.argv = {"/bin/sh", "-c", script}, .environment = {"PATH=/usr/bin:/bin"}}, stop)
          .status());
  return std::move(file).Promote(stop);
}

// Whether a process with the number in the file runs, or may begin to.
bool MayRun(const std::filesystem::path& file) {
  const std::string stat =
      FileText(absl::StrCat("/proc/", absl::StripAsciiWhitespace(FileText(file)), "/stat"));
  return !stat.empty() && !absl::StrContains(stat, ") Z");
}

TEST(AbortChainTest, OneStopReachesQueueProcessAndFile) {
  const std::filesystem::path folder = test::NewFolder();
  const adapters::SystemClock clock;
  flow::ThreadPool pool(2);
  flow::Flow flow({.lanes = {{.name = "proc", .limit = {2, 8}}}}, pool, clock);
  std::stop_source stop;
  std::thread stopper([&] {
    while (!std::filesystem::exists(folder / "a.pid")) std::this_thread::yield();
    stop.request_stop();
  });
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  const flow::RunResults<void> run =
      flow::RunWithQueue(flow.lane("proc"), names,
                         [&](const std::string& name, const flow::ItemContext& context) {
                           return BuildForEver(folder / name, context.stop);
                         },
                         {.on_failure = flow::OnFailure::kGoOn, .stop = stop.get_token()});
  stopper.join();
  EXPECT_TRUE(flow::IsAbortError(run.status)) << run.status;
  EXPECT_EQ(run.failed, 0u) << "stopped is not failed";
  while (MayRun(folder / "a.pid")) std::this_thread::yield();
  for (const std::string& name : names) {
    EXPECT_FALSE(std::filesystem::exists(folder / name)) << name;
    EXPECT_FALSE(std::filesystem::exists(folder / (name + ".new"))) << name;
  }
}

}  // namespace
}  // namespace callboard
