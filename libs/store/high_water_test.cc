#include "libs/store/store_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "libs/ports/event_store.h"
#include "libs/store/database.h"
#include "libs/testing/files.h"
#include "libs/testing/status_matchers.h"

namespace callboard::store {
namespace {

using test::HasReason;
using test::IsOk;
using test::StatusIs;

constexpr size_t kSlots[] = {0, 4096};

class HighWaterTest : public testing::Test {
 protected:
  void Create(uint64_t sequence) { ASSERT_THAT(HighWater::Create(path_, sequence), IsOk()); }
  std::unique_ptr<HighWater> Open() {
    auto high_water = HighWater::Open(path_);
    EXPECT_THAT(high_water, IsOk());
    return *std::move(high_water);
  }
  void Advance(uint64_t sequence) { ASSERT_THAT(Open()->Advance(sequence), IsOk()); }
  uint64_t Read() const {
    const auto sequence = HighWater::Read(path_);
    EXPECT_THAT(sequence, IsOk());
    return sequence->value();
  }
  void TearSlot(size_t offset) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset + 20));
    file.write("torn", 4);
  }

  const std::filesystem::path path_ = test::NewFolder() / "HIGHWATER";
};

TEST_F(HighWaterTest, SequenceIsReadBack) {
  Create(7);
  EXPECT_EQ(Read(), 7u);
  for (const uint64_t sequence : {8ull, 9ull, 9ull, 1ull << 55}) {
    Advance(sequence);
    EXPECT_EQ(Read(), sequence);
  }
}

TEST_F(HighWaterTest, LastSequenceIsReadBackAfterClosing) {
  Create(1);
  {
    const std::unique_ptr<HighWater> high_water = Open();
    for (uint64_t sequence = 2; sequence <= 100; ++sequence) {
      ASSERT_THAT(high_water->Advance(sequence), IsOk());
    }
  }
  EXPECT_EQ(Read(), 100u);
}

TEST_F(HighWaterTest, MissingFileHasNoSequence) {
  EXPECT_EQ(*HighWater::Read(path_), std::nullopt);
}

// //tests/crash:power_cut_test covers crashes between two syncs.
TEST_F(HighWaterTest, SyncedSlotIsNotOverwritten) {
  Create(1);
  for (const uint64_t sequence : {2, 3, 4}) {
    const std::string before = test::FileText(path_);
    // Advance() closes the file, which syncs it.
    Advance(sequence);
    const std::string after = test::FileText(path_);
    const size_t same = kSlots[(sequence + 1) % 2];
    EXPECT_EQ(after.substr(same, 28), before.substr(same, 28)) << sequence;
    EXPECT_NE(after, before);
  }
}

TEST_F(HighWaterTest, TornSlotFallsBackToTheOtherSlot) {
  Create(1);
  Advance(2);
  TearSlot(kSlots[0]);
  EXPECT_EQ(Read(), 1u);
  // The torn slot is the next one that is written.
  Advance(3);
  EXPECT_EQ(Read(), 3u);
  TearSlot(kSlots[1]);
  EXPECT_EQ(Read(), 3u);
}

TEST_F(HighWaterTest, TwoTornSlotsAreAnError) {
  Create(1);
  for (const size_t slot : kSlots) TearSlot(slot);
  EXPECT_THAT(HighWater::Read(path_),
              StatusIs(absl::StatusCode::kDataLoss, testing::HasSubstr(path_.string())));
  EXPECT_THAT(HighWater::Read(path_), HasReason(std::string(ports::kStoreRefused)));
}

TEST_F(HighWaterTest, TruncatedFileIsAnError) {
  for (const size_t size : {0, 10, 27}) {
    Create(1);
    std::filesystem::resize_file(path_, size);
    EXPECT_THAT(HighWater::Read(path_), StatusIs(absl::StatusCode::kDataLoss));
  }
}

}  // namespace
}  // namespace callboard::store
