#include "libs/server/server.h"

#include <gtest/gtest.h>

namespace callboard::server {
namespace {

TEST(StatusPageTest, PageHasTypeInterfacesVersionAndMembers) {
  EXPECT_EQ(RenderStatusPage({"statusable", "observable"}, {{"jobs", "[]"}, {"more", "{}"}}),
            R"({"type":"view","interfaces":["statusable","observable"],"version":"0.1.0",)"
            R"("jobs":[],"more":{}})");
}

}  // namespace
}  // namespace callboard::server
