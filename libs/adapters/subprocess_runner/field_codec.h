// Values as bytes, for messages between processes of one and the same binary: both sides know the
// order of the fields, and nothing is kept.
#ifndef CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_FIELD_CODEC_H_
#define CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_FIELD_CODEC_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace callboard::adapters {

class FieldWriter {
 public:
  void Number(int64_t number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  void Text(absl::string_view text) {
    Number(static_cast<int64_t>(text.size()));
    bytes_.append(text.data(), text.size());
  }
  void Texts(const std::vector<std::string>& texts) {
    Number(static_cast<int64_t>(texts.size()));
    for (const std::string& text : texts) Text(text);
  }
  // Infinity, and what is beyond 292 years, as the largest number there is.
  void Duration(absl::Duration duration) { Number(absl::ToInt64Nanoseconds(duration)); }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads what a FieldWriter wrote. Zero and empty values once something is missing; see whole().
class FieldReader {
 public:
  explicit FieldReader(absl::string_view bytes) : rest_(bytes) {}

  int64_t Number() {
    int64_t number = 0;
    if (const absl::string_view bytes = Take(sizeof(number)); !bytes.empty()) {
      std::memcpy(&number, bytes.data(), sizeof(number));
    }
    return number;
  }
  std::string Text() { return std::string(Take(static_cast<uint64_t>(Number()))); }
  std::vector<std::string> Texts() {
    std::vector<std::string> texts;
    for (int64_t left = Number(); left > 0 && !cut_; --left) texts.push_back(Text());
    return texts;
  }
  absl::Duration Duration() {
    const int64_t nanoseconds = Number();
    return nanoseconds == INT64_MAX ? absl::InfiniteDuration() : absl::Nanoseconds(nanoseconds);
  }

  // Whether there was as much as was read, and no more.
  bool whole() const { return !cut_ && rest_.empty(); }

 private:
  absl::string_view Take(uint64_t size) {
    if (size > rest_.size()) {
      cut_ = true;
      rest_ = {};
    }
    const absl::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  absl::string_view rest_;
  bool cut_ = false;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_FIELD_CODEC_H_
