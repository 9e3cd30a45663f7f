#include "libs/agent/kept_output.h"

#include <algorithm>
#include <utility>

namespace callboard::agent {
namespace {

using core::OutputChunk;

size_t BytesOf(const OutputChunk& chunk) { return sizeof(chunk) + chunk.data.size(); }

// The first of `chunks` after that number.
template <class Chunks>
auto FirstAfter(const Chunks& chunks, uint64_t number) {
  return std::partition_point(chunks.begin(), chunks.end(), [number](const OutputChunk& chunk) {
    return chunk.number <= number;
  });
}

}  // namespace

void KeptOutput::Append(OutputChunk chunk) {
  const size_t bytes = BytesOf(chunk);
  if (tail_.empty() && gap_number_ == 0 && head_bytes_ + bytes <= kHeadBytesMax) {
    head_bytes_ += bytes;
    head_.push_back(std::move(chunk));
    return;
  }
  tail_bytes_ += bytes;
  tail_.push_back(std::move(chunk));
  while (tail_bytes_ > kBytesMax - kHeadBytesMax) {
    const OutputChunk& dropped = tail_.front();
    gap_number_ = dropped.number;
    gap_bytes_ += dropped.data.size() + dropped.dropped_bytes;
    tail_bytes_ -= BytesOf(dropped);
    tail_.pop_front();
  }
}

std::vector<OutputChunk> KeptOutput::After(uint64_t number, size_t bytes_max) const {
  // Who has seen a part of what was dropped is told of all of it.
  const OutputChunk* behind_gap = number < gap_number_ && !tail_.empty() ? &tail_.front() : nullptr;
  std::vector<OutputChunk> chunks;
  size_t bytes = 0;
  const auto take = [&](const auto& kept) {
    for (auto chunk = FirstAfter(kept, number); chunk != kept.end(); ++chunk) {
      bytes += BytesOf(*chunk);
      if (!chunks.empty() && bytes > bytes_max) return;
      chunks.push_back(*chunk);
      if (&*chunk == behind_gap) chunks.back().dropped_bytes += gap_bytes_;
    }
  };
  take(head_);
  if (bytes <= bytes_max) take(tail_);
  return chunks;
}

}  // namespace callboard::agent
