#include "libs/server/view_page.h"

#include <gtest/gtest.h>

namespace callboard::server {
namespace {

TEST(ViewPageTest, HoldsKindInterfacesVersionAndTheMember) {
  EXPECT_EQ(ViewPage({"statusable", "observable"}, "jobs", "[]"),
            R"({"type":"view","interfaces":["statusable","observable"],"version":"0.1.0",)"
            R"("jobs":[]})");
}

}  // namespace
}  // namespace callboard::server
