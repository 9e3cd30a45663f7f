// Identifiers with types of their own, and values that copies share until they change.

#ifndef CALLBOARD_LIBS_BASE_VALUE_TYPES_H_
#define CALLBOARD_LIBS_BASE_VALUE_TYPES_H_

#include <compare>
#include <memory>
#include <ostream>
#include <utility>

namespace callboard::base {

// Wraps a `Rep` in a distinct type. A StrongId converts only explicitly, and compares only with ids
// of the same `Tag`.
//
//   using AgentName = base::StrongId<struct AgentNameTag, std::string>;
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

// A value that copies share until one of them changes it. A default value uses no memory beyond the
// pointer. Comparison is by value. Not thread-safe: all copies of a value belong to one thread.
template <class T>
class CopyOnWrite {
 public:
  CopyOnWrite() = default;
  explicit CopyOnWrite(T value) : value_(std::make_shared<T>(std::move(value))) {}

  const T& operator*() const { return value_ == nullptr ? Default() : *value_; }
  const T* operator->() const { return &**this; }
  T& Mutable() {
    if (value_ == nullptr || value_.use_count() > 1) value_ = std::make_shared<T>(**this);
    return *value_;
  }
  bool is_shared() const { return value_.use_count() > 1; }

  friend bool operator==(const CopyOnWrite& a, const CopyOnWrite& b) {
    return a.value_ == b.value_ || *a == *b;
  }

 private:
  static const T& Default() {
    static const T* const value = new T();
    return *value;
  }

  std::shared_ptr<T> value_;
};

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_VALUE_TYPES_H_
