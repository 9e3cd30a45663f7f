// A stop token reaches queue and file.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/flow/abort.h"
#include "libs/flow/run_with_queue.h"
#include "libs/flow/thread_pool.h"
#include "libs/system/staged_file.h"
#include "libs/system/system.h"
#include "libs/testing/files.h"

namespace callboard {
namespace {

using system::StagedFile;

// Creates `path`.started, waits for the stop, and then tries to promote the file at `path`.
absl::Status WriteUntilStopped(const std::string& path, const std::stop_token& stop) {
  ASSIGN_OR_RETURN(StagedFile file, StagedFile::Create(path, StagedFile::Readers::kOwner));
  std::ofstream(absl::StrCat(path, ".started")).flush();
  while (!stop.stop_requested()) std::this_thread::yield();
  return std::move(file).Promote(stop);
}

TEST(AbortChainTest, OneStopReachesQueueAndFile) {
  const std::filesystem::path folder = test::NewFolder();
  const system::SystemClock clock;
  flow::ThreadPool pool(2);
  flow::Flow flow({.lanes = {{.name = "disk", .limit = {2, 8}}}}, pool, clock);
  std::stop_source stop;
  std::thread stopper([&] {
    while (!std::filesystem::exists(folder / "a.started")) std::this_thread::yield();
    stop.request_stop();
  });
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  const flow::RunResults<void> run =
      flow::RunWithQueue(flow.lane("disk"), names,
                         [&](const std::string& name, const flow::ItemContext& context) {
                           return WriteUntilStopped(folder / name, context.stop);
                         },
                         {.on_failure = flow::OnFailure::kContinue, .stop = stop.get_token()});
  stopper.join();
  EXPECT_TRUE(flow::IsAbortError(run.status)) << run.status;
  EXPECT_EQ(run.failed, 0u) << "a stopped item has not failed";
  for (const std::string& name : names) {
    EXPECT_FALSE(std::filesystem::exists(folder / name)) << name;
    EXPECT_FALSE(std::filesystem::exists(folder / (name + ".new"))) << name;
  }
}

}  // namespace
}  // namespace callboard
