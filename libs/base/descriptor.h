#ifndef CALLBOARD_LIBS_BASE_DESCRIPTOR_H_
#define CALLBOARD_LIBS_BASE_DESCRIPTOR_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace callboard::base {

// Owns a file descriptor, or none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    other.Close();
    return *this;
  }
  ~Descriptor() { Close(); }

  void Close();
  // Gives it up to another owner.
  int Release() { return std::exchange(descriptor_, -1); }

  bool is_open() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// UNAVAILABLE with what failed and what errno says of it.
absl::Status SystemError(absl::string_view what);

// Writes all of `text`; false, with errno, when that fails.
bool WriteAll(const Descriptor& file, absl::string_view text);

// As execve and posix_spawn want it, for as long as `texts` lives.
std::vector<char*> Pointers(const std::vector<std::string>& texts);

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_DESCRIPTOR_H_
