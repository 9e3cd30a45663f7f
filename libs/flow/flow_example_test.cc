// The examples of docs/FLOW.md. A style guard checks that both are equal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/flow/flow.h"
#include "libs/flow/limits.h"
#include "libs/flow/parallel_limit.h"
#include "libs/flow/run_with_queue.h"
#include "libs/flow/thread_pool.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/files.h"
#include "libs/testing/status_matchers.h"

namespace callboard::flow {
namespace {

using test::IsOk;
using test::StatusIs;
using testing::ElementsAre;
using testing::Pair;

struct Image {
  std::string pixels;
};

absl::StatusOr<Image> Decode(const std::string& file) {
  if (!std::filesystem::exists(file)) return absl::NotFoundError(absl::StrCat("no file ", file));
  return Image{test::FileText(file)};
}

// Sums up the brightness of every image; no more than eight of them are in memory at a time.
absl::StatusOr<uint64_t> Brightness(const std::vector<std::string>& files,
                                    ports::Executor& executor, const std::stop_token& stop) {
  const auto decode = [](const std::string& file, const std::stop_token&) { return Decode(file); };
  ParallelLimit images(executor, files, decode, {.limit = 8, .stop = stop});
  uint64_t brightness = 0;
  while (std::optional<absl::StatusOr<Image>> image = images.Next()) {
    RETURN_IF_ERROR(image->status());
    for (const char pixel : (*image)->pixels) brightness += static_cast<unsigned char>(pixel);
  }
  return brightness;
}

class FlowExampleTest : public testing::Test {
 protected:
  std::string File(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_ / name;
    std::ofstream(path) << text;
    return path;
  }

  const std::filesystem::path folder_ = test::NewFolder();
  test::FakeClock clock_;
};

TEST_F(FlowExampleTest, ReserveThenBuild) {
  ThreadPool pool(2);
  std::vector<std::string> files;
  for (int i = 0; i < 100; ++i) files.push_back(File(absl::StrCat(i), "\2\3"));
  EXPECT_EQ(Brightness(files, pool, {}).value(), 500u);
  files.push_back(folder_ / "missing");
  EXPECT_THAT(Brightness(files, pool, {}), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(FlowExampleTest, ManyItemsThroughALane) {
  ThreadPool pool(4);
  Flow flow({.lanes = {{.name = "uploads", .limit = NamedLaneLimit(4)}}}, pool, clock_);
  const std::vector<std::string> files = {File("a", "1"), File("b", "22"), "missing"};
  std::stop_source interrupted;

  std::map<std::string, std::string> reports;
  const auto upload = [](const std::string& file, const ItemContext&) -> absl::StatusOr<size_t> {
    ASSIGN_OR_RETURN(const Image image, Decode(file));
    return image.pixels.size();
  };
  const RunResults<size_t> uploaded = RunWithQueue(
      flow.lane("uploads"), files, upload,
      {.on_failure = OnFailure::kContinue,
       .retries = 3,
       .backoff = absl::Seconds(1),
       .is_transient = absl::IsUnavailable,
       .stop = interrupted.get_token()},
      {.on_error = [&](const std::string& file, const absl::Status& error, const ItemContext&) {
        reports[file] = std::string(error.message());
        return absl::OkStatus();
      }});

  EXPECT_THAT(uploaded.results, ElementsAre(1, 2, std::nullopt));
  EXPECT_THAT(reports, ElementsAre(Pair("missing", "no file missing")));
}

TEST_F(FlowExampleTest, FullLane) {
  ThreadPool pool(1);
  Flow flow({.lanes = {{.name = "thumbnails", .limit = {1, 2}}}}, pool, clock_);
  Lane& thumbnails = flow.lane("thumbnails");
  int made = 0;
  const auto make_thumbnail = [&made] { ++made; };
  const std::stop_token stop;

  // Waits for a place, first come, first served. Returns AbortError() when `stop` is requested.
  EXPECT_THAT(thumbnails.Add(make_thumbnail, stop), IsOk());

  // Does not wait.
  if (const absl::Status full = thumbnails.TryAdd(make_thumbnail); !full.ok()) {
    EXPECT_EQ(base::GetErrorDetails(full).reason, "LANE_FULL");
  }

  // Reserves a place before it builds a large job.
  absl::StatusOr<LaneReservation> place = thumbnails.Reserve(stop);
  ASSERT_THAT(place, IsOk());
  const std::string heavy(1 << 20, 'x');
  std::move(*place).Run([heavy, &made] { made += static_cast<int>(heavy.size() >> 20); });
}

}  // namespace
}  // namespace callboard::flow
