// Libraries that //bazel/system declares and no other test covers: installed, found, linked.
#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <memory>
#include <string>

namespace callboard {
namespace {

TEST(SystemLibrariesTest, RocksDbKeepsSyncedWrites) {
  const std::string folder = testing::TempDir() + "/store";
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, folder, &opened).ok());
  std::unique_ptr<rocksdb::DB> store(opened);
  rocksdb::WriteOptions synced;
  synced.sync = true;
  ASSERT_TRUE(store->Put(synced, "key", "value").ok());
  std::string value;
  EXPECT_TRUE(store->Get({}, "key", &value).ok());
  EXPECT_EQ(value, "value");
}

}  // namespace
}  // namespace callboard
