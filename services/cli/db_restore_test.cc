#include "services/cli/db_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/cli/answer_text.h"

namespace callboard::cli {
namespace {

using ::testing::HasSubstr;

TEST(DbRestoreTest, LossIsReportedAsARangeOfSequences) {
  EXPECT_EQ(
      LossText("data",
               {.findings = {"torn"}, .sequence = 150, .high_water = 200, .tasks = 7, .aside = {}}),
      "damaged: torn\n"
      "lost       sequences 151 to 200: 50 committed writes\n"
      "kept       7 tasks in data\n");
  EXPECT_EQ(LossJson("data", {.findings = {"torn", "worn"},
                              .sequence = 150,
                              .high_water = 200,
                              .tasks = 7,
                              .aside = "data/damaged-1"}),
            R"({"data_dir":"data","findings":["torn","worn"],"sequence":150,"high_water":200,)"
            R"("tasks":7,"aside":"data/damaged-1"})"
            "\n");
}

TEST(DbRestoreTest, UnknownLossIsReportedAsUnknown) {
  const store::AcceptLossResult unknown = {
      .findings = {"gone"}, .sequence = 5, .high_water = {}, .tasks = 1, .aside = {}};
  EXPECT_THAT(LossText("data", unknown),
              HasSubstr("lost       all writes committed after sequence 5, if any;"));
  EXPECT_THAT(LossJson("data", unknown), HasSubstr("\"high_water\":null"));
  EXPECT_THAT(LossText("data", {.findings = {"block"},
                                .sequence = 5,
                                .high_water = 5,
                                .tasks = 1,
                                .aside = "data/damaged-1"}),
              HasSubstr("lost       the damaged records listed above\n"
                        "kept       1 tasks in data\n"
                        "aside      data/damaged-1\n"));
}

TEST(DbRestoreTest, WholeStoreLosesNothing) {
  EXPECT_EQ(LossText("data", {}), "data is whole: nothing is lost\n");
}

TEST(DbRestoreTest, RestoreReportsTheFolderOfTheOldStore) {
  const store::RestoreResult restored = {.tasks = 3, .sequence = 9, .aside = "data/damaged-1"};
  EXPECT_EQ(RestoredText("data", restored),
            "restored   data\n"
            "tasks      3\n"
            "sequence   9\n"
            "aside      data/damaged-1\n");
  EXPECT_EQ(RestoredJson("data", {.tasks = 3, .sequence = 9, .aside = {}}),
            "{\"data_dir\":\"data\",\"tasks\":3,\"sequence\":9,\"aside\":null}\n");
}

TEST(DbRestoreTest, RestoreNeedsExactlyOneMode) {
  EXPECT_EQ(ExitCodeOf(RestoreStore({}, {}, stdout)), ExitCode::kUsage);
  DbArguments both;
  both.from = "checkpoint";
  both.accept_loss = true;
  EXPECT_EQ(ExitCodeOf(RestoreStore({}, both, stdout)), ExitCode::kUsage);
}

}  // namespace
}  // namespace callboard::cli
