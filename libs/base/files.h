// File descriptors, private folders, and errors of system calls.

#ifndef CALLBOARD_LIBS_BASE_FILES_H_
#define CALLBOARD_LIBS_BASE_FILES_H_

#include <filesystem>
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
  // Returns the descriptor without closing it. The caller becomes the owner.
  int Release() { return std::exchange(descriptor_, -1); }

  bool is_open() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// Returns UNAVAILABLE with the message "cannot `action`: " and the text of errno.
absl::Status SystemError(absl::string_view action);

// Writes all of `text`. Returns false and sets errno on failure.
bool WriteAll(const Descriptor& file, absl::string_view text);

// Returns a null-terminated array of pointers, as execve and posix_spawn expect it. The pointers
// are valid as long as `texts`.
std::vector<char*> NullTerminatedPointers(const std::vector<std::string>& texts);

// Creates a folder and its missing parents, accessible by their owner only. The new folders survive
// a crash of the machine. If the folder exists and is world-readable, removes the permissions of
// others and logs a warning. Returns FAILED_PRECONDITION if that fails or if the folder is
// world-writable. Existing parents keep their modes.
absl::Status MakePrivateFolder(const std::filesystem::path& path);

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_FILES_H_
