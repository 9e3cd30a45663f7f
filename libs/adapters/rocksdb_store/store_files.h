// The files of a data folder, and what the standard library lacks for them.
#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORE_FILES_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORE_FILES_H_

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace callboard::adapters {

struct StoreFiles {
  std::filesystem::path folder;
  // The database's folder in it, and who keeps it.
  std::string database = "events";
  std::string owner = std::string(kDirector);

  static constexpr absl::string_view kDirector = "director";

  std::filesystem::path lock() const { return folder / "LOCK"; }
  std::filesystem::path events() const { return folder / database; }
  std::filesystem::path high_water() const { return folder / "HIGHWATER"; }
  std::filesystem::path checkpoints() const { return folder / "checkpoints"; }
  // A store that is being copied here, to take the place of the one that is.
  std::filesystem::path restoring() const { return folder / "restoring"; }
};

absl::StatusOr<bool> Exists(const std::filesystem::path& path);
absl::Status Rename(const std::filesystem::path& from, const std::filesystem::path& to);
// With all that is in it, if it is there.
absl::Status Remove(const std::filesystem::path& path);
absl::Status CreateFolders(const std::filesystem::path& path);
// A file, or a folder with all that is in it, to where nothing is yet. The copy shares nothing with
// the original, and survives a crash of the machine once the folder that holds it is synced.
absl::Status CopyAll(const std::filesystem::path& from, const std::filesystem::path& to);
// Makes what was created, renamed or removed in the folder survive a crash of the machine.
absl::Status SyncFolder(const std::filesystem::path& folder);

// An open file, closed with the object.
class File {
 public:
  // As open(2) does, close-on-exec. Sets `error_number`, if asked to, when it fails.
  static absl::StatusOr<File> Open(const std::filesystem::path& path, int flags,
                                   int* error_number = nullptr);

  File(File&& other) noexcept;
  ~File();

  int descriptor() const { return descriptor_; }
  // UNAVAILABLE when `path` no longer names this file: it was removed, or another one is there.
  absl::Status CheckInPlace(const std::filesystem::path& path) const;

 private:
  explicit File(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORE_FILES_H_
