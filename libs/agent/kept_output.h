#ifndef CALLBOARD_LIBS_AGENT_KEPT_OUTPUT_H_
#define CALLBOARD_LIBS_AGENT_KEPT_OUTPUT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "libs/core/session.h"

namespace callboard::agent {

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

  // What comes after the chunk of that number: whole chunks until they take `bytes_max`, and at
  // least one if there is one. The first after the gap tells how much was dropped before it.
  std::vector<core::OutputChunk> After(uint64_t number, size_t bytes_max) const;

  size_t bytes() const { return head_bytes_ + tail_bytes_; }

 private:
  std::vector<core::OutputChunk> head_;
  size_t head_bytes_ = 0;
  // Between head and tail: the last that was dropped, and how many bytes were.
  uint64_t gap_number_ = 0;
  uint64_t gap_bytes_ = 0;
  std::deque<core::OutputChunk> tail_;
  size_t tail_bytes_ = 0;
};

}  // namespace callboard::agent

#endif  // CALLBOARD_LIBS_AGENT_KEPT_OUTPUT_H_
