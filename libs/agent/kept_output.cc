#include "libs/agent/kept_output.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace callboard::agent {

using core::OutputChunk;

OutputPlace KeptOutput::EndOf(const Kept& kept) {
  const OutputChunk& chunk = kept.chunk;
  return {chunk.number, kept.bytes_before + chunk.dropped_bytes + chunk.data.size()};
}

template <class Chunks>
auto KeptOutput::FirstAfter(const Chunks& chunks, uint64_t number) {
  return std::partition_point(chunks.begin(), chunks.end(),
                              [number](const Kept& kept) { return kept.chunk.number <= number; });
}

void KeptOutput::Append(OutputChunk chunk) {
  Kept kept = {std::move(chunk), run_bytes_};
  run_bytes_ = EndOf(kept).bytes;
  const size_t bytes = BytesOf(kept);
  if (tail_.empty() && head_bytes_ + bytes <= kHeadBytesMax) {
    head_bytes_ += bytes;
    head_.push_back(std::move(kept));
    return;
  }
  tail_bytes_ += bytes;
  tail_.push_back(std::move(kept));
  while (tail_bytes_ > kBytesMax - kHeadBytesMax) {
    tail_bytes_ -= BytesOf(tail_.front());
    tail_.pop_front();
  }
}

OutputPlace KeptOutput::PlaceOf(uint64_t number) const {
  OutputPlace place = {.number = number};
  if (const auto next = FirstAfter(tail_, number); next != tail_.begin()) {
    place.bytes = EndOf(*std::prev(next)).bytes;
  } else if (const auto first = FirstAfter(head_, number); first != head_.begin()) {
    place.bytes = EndOf(*std::prev(first)).bytes;
  }
  return place;
}

std::vector<OutputChunk> KeptOutput::After(OutputPlace& place, size_t bytes_max) const {
  std::vector<OutputChunk> chunks;
  size_t bytes = 0;
  const auto take = [&](const auto& all) {
    for (auto kept = FirstAfter(all, place.number); kept != all.end(); ++kept) {
      bytes += BytesOf(*kept);
      if (!chunks.empty() && bytes > bytes_max) return;
      chunks.push_back(kept->chunk);
      // A place may be that of an earlier run of the same name.
      chunks.back().dropped_bytes += std::max(kept->bytes_before, place.bytes) - place.bytes;
      place = EndOf(*kept);
    }
  };
  take(head_);
  if (bytes <= bytes_max) take(tail_);
  return chunks;
}

}  // namespace callboard::agent
