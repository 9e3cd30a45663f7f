#ifndef CALLBOARD_LIBS_CORE_RANKED_SET_H_
#define CALLBOARD_LIBS_CORE_RANKED_SET_H_

#include <array>
#include <cstdint>
#include <memory>

namespace callboard::core {

// A set of numbers that knows how many of them are below a given one, in time that depends on the
// size of the numbers and not on how many there are. Made for sequence numbers: few bits, close
// together.
//
// A tree with 64 children per node, each with the number of elements under it; a leaf is a word of
// 64 bits. It grows at the root when a number does not fit, so small numbers make a flat tree.
class RankedSet {
 public:
  RankedSet();
  ~RankedSet();
  RankedSet(const RankedSet&) = delete;
  RankedSet& operator=(const RankedSet&) = delete;

  uint64_t size() const { return size_; }
  bool Contains(uint64_t number) const;

  // REQUIRES: not in the set.
  void Insert(uint64_t number);
  // REQUIRES: in the set.
  void Erase(uint64_t number);

  // How many elements are smaller than `number`.
  uint64_t CountBelow(uint64_t number) const;

 private:
  struct Node;

  // Whether the tree has a place for `number`.
  bool Reaches(uint64_t number) const;

  // The number of levels of nodes above the leaves; the root is one.
  int height_ = 1;
  uint64_t size_ = 0;
  std::unique_ptr<Node> root_;
};

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_RANKED_SET_H_
