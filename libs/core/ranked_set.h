#ifndef CALLBOARD_LIBS_CORE_RANKED_SET_H_
#define CALLBOARD_LIBS_CORE_RANKED_SET_H_

#include <array>
#include <cstdint>
#include <memory>

namespace callboard::core {

// A set of numbers that counts its elements below a given number. The cost depends on the number of
// bits of the largest element, not on the number of elements. Designed for sequence numbers, which
// have few bits and are close together. Not thread-safe.
//
// The set is a tree in which each node has 64 children and the number of elements below each of
// them. A leaf is a word of 64 bits. The tree grows at the root when a number does not fit, so a
// set of small numbers is a flat tree.
class RankedSet {
 public:
  RankedSet();
  ~RankedSet();
  RankedSet(const RankedSet&) = delete;
  RankedSet& operator=(const RankedSet&) = delete;

  uint64_t size() const { return size_; }
  bool Contains(uint64_t number) const;

  // REQUIRES: !Contains(number).
  void Insert(uint64_t number);
  // REQUIRES: Contains(number).
  void Erase(uint64_t number);

  // Returns the number of elements that are less than `number`.
  uint64_t CountBelow(uint64_t number) const;

 private:
  struct Node;

  // Returns true if the tree is high enough for `number`.
  bool Fits(uint64_t number) const;

  // Number of node levels above the leaves, including the root.
  int height_ = 1;
  uint64_t size_ = 0;
  std::unique_ptr<Node> root_;
};

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_RANKED_SET_H_
