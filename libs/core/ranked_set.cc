#include "libs/core/ranked_set.h"

#include <bit>
#include <numeric>
#include <utility>

#include "libs/base/check.h"

namespace callboard::core {
namespace {

constexpr int kBits = 6;
constexpr uint64_t kFan = uint64_t{1} << kBits;

// Returns the index of the child that contains `number` in a node at `height`. Leaves have height
// 0.
uint64_t ChildIndex(uint64_t number, int height) { return number >> (kBits * height) & (kFan - 1); }

}  // namespace

struct RankedSet::Node {
  std::array<uint64_t, kFan> counts = {};
  // The leaves, if this node has height 1.
  std::array<uint64_t, kFan> words = {};
  // The children, if this node is higher; null for children without elements.
  std::array<std::unique_ptr<Node>, kFan> children = {};
};

RankedSet::RankedSet() : root_(std::make_unique<Node>()) {}

RankedSet::~RankedSet() = default;

bool RankedSet::Fits(uint64_t number) const {
  const int bits = kBits * (height_ + 1);
  return bits >= 64 || number >> bits == 0;
}

void RankedSet::Insert(uint64_t number) {
  CHECK(!Contains(number)) << number;
  while (!Fits(number)) {
    auto root = std::make_unique<Node>();
    root->counts[0] = size_;
    root->children[0] = std::move(root_);
    root_ = std::move(root);
    ++height_;
  }
  Node* node = root_.get();
  for (int height = height_; height > 1; --height) {
    const uint64_t child = ChildIndex(number, height);
    ++node->counts[child];
    if (node->children[child] == nullptr) node->children[child] = std::make_unique<Node>();
    node = node->children[child].get();
  }
  const uint64_t child = ChildIndex(number, 1);
  const uint64_t bit = uint64_t{1} << ChildIndex(number, 0);
  node->words[child] |= bit;
  ++node->counts[child];
  ++size_;
}

bool RankedSet::Contains(uint64_t number) const {
  if (!Fits(number)) return false;
  const Node* node = root_.get();
  for (int height = height_; height > 1 && node != nullptr; --height) {
    node = node->children[ChildIndex(number, height)].get();
  }
  return node != nullptr &&
         (node->words[ChildIndex(number, 1)] >> ChildIndex(number, 0) & uint64_t{1}) != 0;
}

void RankedSet::Erase(uint64_t number) {
  CHECK(Contains(number)) << number;
  --size_;
  Node* node = root_.get();
  for (int height = height_; height > 1; --height) {
    const uint64_t child = ChildIndex(number, height);
    if (--node->counts[child] == 0) {
      node->children[child].reset();
      return;
    }
    node = node->children[child].get();
  }
  const uint64_t child = ChildIndex(number, 1);
  node->words[child] &= ~(uint64_t{1} << ChildIndex(number, 0));
  --node->counts[child];
}

uint64_t RankedSet::CountBelow(uint64_t number) const {
  if (!Fits(number)) return size_;
  uint64_t below = 0;
  const Node* node = root_.get();
  for (int height = height_; height > 1; --height) {
    const uint64_t child = ChildIndex(number, height);
    below = std::accumulate(node->counts.begin(), node->counts.begin() + child, below);
    node = node->children[child].get();
    if (node == nullptr) return below;
  }
  const uint64_t child = ChildIndex(number, 1);
  below = std::accumulate(node->counts.begin(), node->counts.begin() + child, below);
  const uint64_t bit = uint64_t{1} << ChildIndex(number, 0);
  return below + std::popcount(node->words[child] & (bit - 1));
}

}  // namespace callboard::core
