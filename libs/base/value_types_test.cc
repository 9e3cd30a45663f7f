#include "libs/base/value_types.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <type_traits>

#include "absl/container/flat_hash_set.h"

namespace callboard::base {
namespace {

using Sequence = StrongId<struct SequenceTag, uint64_t>;
using Epoch = StrongId<struct EpochTag, uint64_t>;
using Name = StrongId<struct NameTag, std::string>;

static_assert(!std::is_convertible_v<Sequence, Epoch>);
static_assert(!std::is_convertible_v<uint64_t, Sequence>);
static_assert(!std::is_convertible_v<Sequence, uint64_t>);

TEST(StrongIdTest, OrdersHashesAndPrintsAsItsValue) {
  EXPECT_LT(Sequence(1), Sequence(2));
  EXPECT_EQ(Name("agent-1"), Name("agent-1"));
  const absl::flat_hash_set<Name> names = {Name("a"), Name("b"), Name("a")};
  EXPECT_EQ(names.size(), 2u);
  std::ostringstream out;
  out << Name("agent-1") << " " << Sequence(7);
  EXPECT_EQ(out.str(), "agent-1 7");
}

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
