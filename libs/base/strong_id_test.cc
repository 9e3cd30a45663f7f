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

}  // namespace
}  // namespace callboard::base
