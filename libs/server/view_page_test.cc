#include "libs/server/view_page.h"

#include <gtest/gtest.h>

namespace callboard::server {
namespace {

TEST(ViewPageTest, HoldsKindInterfacesVersionAndTheMembers) {
  EXPECT_EQ(ViewPage({"statusable", "observable"}, {{"jobs", "[]"}, {"more", "{}"}}),
            R"({"type":"view","interfaces":["statusable","observable"],"version":"0.1.0",)"
            R"("jobs":[],"more":{}})");
}

}  // namespace
}  // namespace callboard::server
