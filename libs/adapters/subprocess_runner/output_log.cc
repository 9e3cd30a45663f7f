#include "libs/adapters/subprocess_runner/output_log.h"

#include <algorithm>
#include <utility>

#include "libs/base/text.h"
#include "libs/core/limits.h"

namespace callboard::adapters {
namespace {

// One byte more than is shown tells whether the cut is inside a character.
constexpr size_t kTailBytesMax = core::kResultBytesMax + 1;

}  // namespace

void OutputLog::Append(ports::OutputStream stream, absl::string_view text, absl::Time at,
                       absl::Duration now) {
  if (stream == ports::OutputStream::kStdout) KeepTail(text);
  Open& open = open_[static_cast<size_t>(stream)];
  while (!text.empty()) {
    if (open.text.empty()) {
      open.at = at;
      open.due_at = now + kJoinFor;
    }
    const size_t taken = std::min(text.size(), kChunkBytesMax - open.text.size());
    open.text.append(text.data(), taken);
    text.remove_prefix(taken);
    if (open.text.size() == kChunkBytesMax) Cut(stream);
  }
}

absl::Duration OutputLog::due_at() const { return std::min(open_[0].due_at, open_[1].due_at); }

void OutputLog::Cut(absl::Duration now) {
  // The older one first.
  for (int i = 0; i < 2 && due_at() <= now; ++i) {
    Cut(open_[0].due_at <= open_[1].due_at ? ports::OutputStream::kStdout
                                           : ports::OutputStream::kStderr);
  }
}

void OutputLog::Finish() {
  for (int i = 0; i < 2 && due_at() != absl::InfiniteDuration(); ++i) Cut(due_at());
  finished_ = true;
}

std::optional<ports::OutputChunk> OutputLog::Take() {
  if (waiting_.empty()) return std::nullopt;
  const size_t size = waiting_.front().data.size();
  if (!finished_ && handed_out_bytes_ + size > kHandedOutBytesMax) return std::nullopt;
  ports::OutputChunk chunk = std::move(waiting_.front());
  waiting_.pop_front();
  waiting_bytes_ -= size;
  handed_out_bytes_ += size;
  return chunk;
}

void OutputLog::Delivered(uint64_t bytes) {
  handed_out_bytes_ -= std::min(bytes, handed_out_bytes_);
}

absl::string_view OutputLog::stdout_tail() const {
  return base::Utf8Tail(stdout_tail_, core::kResultBytesMax);
}

void OutputLog::Cut(ports::OutputStream stream) {
  Open open = std::exchange(open_[static_cast<size_t>(stream)], Open());
  waiting_bytes_ += open.text.size();
  waiting_.push_back({.number = ++last_number_,
                      .stream = stream,
                      .data = std::move(open.text),
                      .at = open.at,
                      .dropped_bytes = std::exchange(dropped_bytes_, 0)});
  while (waiting_bytes_ > kWaitingBytesMax) {
    const ports::OutputChunk& oldest = waiting_.front();
    const uint64_t dropped = oldest.dropped_bytes + oldest.data.size();
    waiting_bytes_ -= oldest.data.size();
    waiting_.pop_front();
    (waiting_.empty() ? dropped_bytes_ : waiting_.front().dropped_bytes) += dropped;
  }
}

void OutputLog::KeepTail(absl::string_view text) {
  stdout_bytes_ += text.size();
  if (text.size() >= kTailBytesMax) {
    text.remove_prefix(text.size() - kTailBytesMax);
    stdout_tail_.clear();
  }
  stdout_tail_.append(text.data(), text.size());
  // Seldom, so that it costs little for each byte.
  if (stdout_tail_.size() > 2 * kTailBytesMax) {
    stdout_tail_.erase(0, stdout_tail_.size() - kTailBytesMax);
  }
}

}  // namespace callboard::adapters
