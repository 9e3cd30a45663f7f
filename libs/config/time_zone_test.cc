#include "libs/config/jobs_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/status_matchers.h"

namespace callboard::config {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::HasSubstr;

TEST(TimeZoneTest, IanaNamesAreAccepted) {
  const absl::StatusOr<absl::TimeZone> zone = LoadZone("Europe/Berlin");
  ASSERT_THAT(zone, IsOk());
  EXPECT_EQ(zone->At(absl::UnixEpoch()).offset, 3600);
}

TEST(TimeZoneTest, EmptyNameIsUtc) { EXPECT_EQ(*LoadZone(""), absl::UTCTimeZone()); }

TEST(TimeZoneTest, LocalZoneAndFilePathsAreRejected) {
  for (const char* name :
       {"localtime", "/etc/localtime", "file:/etc/localtime", "libc:localtime", "../localtime",
        "Europe/Berlin ", "Mars/Olympus", "europe berlin", "\xff"}) {
    EXPECT_THAT(LoadZone(name), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("is not a time zone of the IANA database")))
        << name;
  }
}

}  // namespace
}  // namespace callboard::config
