// Identities that the compiler keeps apart.
//
//   using AgentName = base::StrongId<struct AgentNameTag, std::string>;
#ifndef CALLBOARD_LIBS_BASE_STRONG_ID_H_
#define CALLBOARD_LIBS_BASE_STRONG_ID_H_

#include <compare>
#include <ostream>
#include <utility>

namespace callboard::base {

// A `Rep` that only compares with, hashes as and is passed where its own kind is wanted.
template <class Tag, class Rep>
class StrongId {
 public:
  StrongId() = default;
  explicit constexpr StrongId(Rep value) : value_(std::move(value)) {}

  constexpr const Rep& value() const { return value_; }

  friend auto operator<=>(const StrongId&, const StrongId&) = default;
  template <class H>
  friend H AbslHashValue(H state, const StrongId& id) {
    return H::combine(std::move(state), id.value_);
  }
  friend std::ostream& operator<<(std::ostream& out, const StrongId& id) {
    return out << id.value_;
  }

 private:
  Rep value_{};
};

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_STRONG_ID_H_
