#include "libs/base/value_types.h"

#include <gtest/gtest.h>

#include <string>

namespace callboard::base {
namespace {

TEST(CopyOnWriteTest, DefaultHoldsTheDefaultValue) {
  EXPECT_EQ(*CopyOnWrite<std::string>(), "");
  EXPECT_EQ(CopyOnWrite<std::string>(), CopyOnWrite<std::string>(""));
}

TEST(CopyOnWriteTest, CopiesShareUntilOneChanges) {
  CopyOnWrite<std::string> a("one");
  CopyOnWrite<std::string> b = a;
  EXPECT_EQ(&*a, &*b);
  EXPECT_TRUE(a.is_shared());
  b.Mutable() = "two";
  EXPECT_EQ(*a, "one");
  EXPECT_EQ(*b, "two");
  EXPECT_FALSE(a.is_shared());
}

TEST(CopyOnWriteTest, UnsharedValueIsChangedInPlace) {
  CopyOnWrite<std::string> a("one");
  const std::string* before = &*a;
  a.Mutable() = "two";
  EXPECT_EQ(&*a, before);
}

TEST(CopyOnWriteTest, IsComparedByValue) {
  EXPECT_EQ(CopyOnWrite<std::string>("one"), CopyOnWrite<std::string>("one"));
  EXPECT_NE(CopyOnWrite<std::string>("one"), CopyOnWrite<std::string>("two"));
}

}  // namespace
}  // namespace callboard::base
