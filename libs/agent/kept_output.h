#ifndef CALLBOARD_LIBS_AGENT_KEPT_OUTPUT_H_
#define CALLBOARD_LIBS_AGENT_KEPT_OUTPUT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "libs/core/session.h"

namespace callboard::agent {

// How far somebody has read.
struct OutputPlace {
  uint64_t number = 0;
  // All of the run's up to there, seen or told as dropped.
  uint64_t bytes = 0;
};

// What is kept of a run's output: its beginning and its end, of which what lies between is dropped
// as more comes.
//
// Invariants:
//   (1) What is kept takes at most kBytesMax of memory; a chunk takes its bytes and itself.
//   (2) Chunks are kept in the order of their numbers.
//
// Not thread-safe.
class KeptOutput {
 public:
  static constexpr size_t kBytesMax = 1024 * 1024;
  static constexpr size_t kHeadBytesMax = 256 * 1024;

  // REQUIRES: its number is larger than that of any before.
  void Append(core::OutputChunk chunk);

  // Where somebody stands who has the chunk of that number. If it is dropped, the bytes are those
  // up to the last one before it that is kept: he is told of more than he missed, never of less.
  OutputPlace PlaceOf(uint64_t number) const;

  // What comes after `place`, which moves on: whole chunks until they take `bytes_max`, and at
  // least one if there is one. Each tells how much was dropped between it and the one before.
  std::vector<core::OutputChunk> After(OutputPlace& place, size_t bytes_max) const;

  size_t bytes() const { return head_bytes_ + tail_bytes_; }

 private:
  struct Kept {
    core::OutputChunk chunk;
    // All of the run's before it, kept or dropped.
    uint64_t bytes_before;
  };

  static size_t BytesOf(const Kept& kept) { return sizeof(kept) + kept.chunk.data.size(); }
  static OutputPlace EndOf(const Kept& kept);
  // The first after that number.
  template <class Chunks>
  static auto FirstAfter(const Chunks& chunks, uint64_t number);

  std::vector<Kept> head_;
  size_t head_bytes_ = 0;
  std::deque<Kept> tail_;
  size_t tail_bytes_ = 0;
  // All of the run's so far.
  uint64_t run_bytes_ = 0;
};

}  // namespace callboard::agent

#endif  // CALLBOARD_LIBS_AGENT_KEPT_OUTPUT_H_
