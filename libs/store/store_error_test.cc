#include "libs/store/database.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "libs/ports/event_store.h"
#include "libs/testing/status_matchers.h"

namespace callboard::store {
namespace {

using test::HasReason;
using test::StatusIs;
using testing::HasSubstr;

TEST(StoreErrorTest, FullDiskIsResourceExhausted) {
  EXPECT_THAT(FileError(ENOSPC, "file"), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(FileError(EDQUOT, "file"), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(FileError(EIO, "file"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("file")));
  EXPECT_THAT(FromRocksDb(rocksdb::Status::NoSpace()),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(FromRocksDb(rocksdb::Status::IOError("file")),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("file")));
}

TEST(StoreErrorTest, PermanentErrorsAreDataLoss) {
  for (const rocksdb::Status& status :
       {rocksdb::Status::Corruption("000012.sst"), rocksdb::Status::PathNotFound("000012.sst"),
        rocksdb::Status::InvalidArgument("000012.sst")}) {
    EXPECT_THAT(FromRocksDb(status),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("000012.sst")));
    EXPECT_THAT(FromRocksDb(status), HasReason(std::string(ports::kStoreRefused)));
  }
}

}  // namespace
}  // namespace callboard::store
