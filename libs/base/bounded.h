// Containers with a fixed capacity. An insertion into a full container fails, and the caller
// handles the failure.
//
// Not thread-safe.
#ifndef CALLBOARD_LIBS_BASE_BOUNDED_H_
#define CALLBOARD_LIBS_BASE_BOUNDED_H_

#include <cstddef>
#include <deque>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "libs/base/check.h"

namespace callboard::base {

// A FIFO queue of at most `capacity` elements.
template <class T>
class BoundedQueue {
 public:
  // REQUIRES: capacity > 0.
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) { CHECK_GT(capacity, 0u); }

  // Appends `element`. Returns false, leaving `element` as it was, when the queue is full.
  [[nodiscard]] bool TryPush(T&& element) {
    if (full()) return false;
    elements_.push_back(std::move(element));
    return true;
  }
  // REQUIRES: !empty().
  T Pop() {
    CHECK(!elements_.empty());
    T element = std::move(elements_.front());
    elements_.pop_front();
    return element;
  }
  // Empties the queue; returns what it held, oldest first.
  std::deque<T> TakeAll() { return std::exchange(elements_, {}); }

  bool empty() const { return elements_.empty(); }
  bool full() const { return elements_.size() >= capacity_; }
  size_t size() const { return elements_.size(); }
  size_t capacity() const { return capacity_; }

 private:
  const size_t capacity_;
  std::deque<T> elements_;
};

// A map of at most `capacity` keys.
template <class Key, class Value>
class BoundedMap {
 public:
  // REQUIRES: capacity > 0.
  explicit BoundedMap(size_t capacity) : capacity_(capacity) { CHECK_GT(capacity, 0u); }

  // Returns the value of `key`, inserting a default value if `key` is absent. Returns null if `key`
  // is absent and the map is full. The pointer is valid until the next change of the map.
  Value* FindOrInsert(const Key& key) {
    auto found = values_.find(key);
    if (found != values_.end()) return &found->second;
    if (values_.size() >= capacity_) return nullptr;
    return &values_[key];
  }
  void Erase(const Key& key) { values_.erase(key); }

  size_t size() const { return values_.size(); }

 private:
  const size_t capacity_;
  absl::flat_hash_map<Key, Value> values_;
};

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_BOUNDED_H_
