#include "libs/adapters/subprocess_runner/remove_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/base/descriptor.h"
#include "libs/base/status_macros.h"

namespace callboard::adapters {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
using OpenFolder = std::unique_ptr<DIR, CloseFolder>;

absl::Status IsMounted(absl::string_view name) {
  return absl::FailedPreconditionError(absl::StrCat("something is mounted on ", name));
}

// Finds a folder in `above` without crossing a mount: EXDEV where one would have to.
base::Descriptor Find(int above, const char* name) {
  open_how how = {};
  how.flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  how.resolve = RESOLVE_NO_XDEV;
  base::Descriptor found(static_cast<int>(syscall(SYS_openat2, above, name, &how, sizeof(how))));
  if (found.is_open() || (errno != ENOSYS && errno != EPERM)) return found;
  // Where the kernel or a filter does not know that call, other file systems are still told apart.
  found = base::Descriptor(openat(above, name, static_cast<int>(how.flags)));
  struct stat outer = {};
  struct stat inner = {};
  if (!found.is_open() || fstat(above, &outer) != 0 || fstat(found.get(), &inner) != 0 ||
      outer.st_dev == inner.st_dev) {
    return found;
  }
  errno = EXDEV;
  return base::Descriptor();
}

// Opens a folder, and to its owner what it was closed to.
absl::StatusOr<OpenFolder> Open(int above, const char* name) {
  const base::Descriptor found = Find(above, name);
  if (!found.is_open() && errno == EXDEV) return IsMounted(name);
  if (!found.is_open()) return base::SystemError(absl::StrCat("open ", name));
  // The name may be something else by now; the descriptor is not.
  chmod(absl::StrCat("/proc/self/fd/", found.get()).c_str(), S_IRWXU);
  base::Descriptor readable(openat(found.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!readable.is_open()) return base::SystemError(absl::StrCat("read ", name));
  OpenFolder folder(fdopendir(readable.get()));
  if (folder == nullptr) return base::SystemError(absl::StrCat("read ", name));
  readable.Release();
  return folder;
}

// Opens a folder by its path. Only its own name may not be a mount: what is above it is not ours.
absl::StatusOr<OpenFolder> OpenAtPath(const std::filesystem::path& path) {
  const std::filesystem::path above = path.has_parent_path() ? path.parent_path() : ".";
  const base::Descriptor parent(open(above.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!parent.is_open()) return base::SystemError(absl::StrCat("open ", above.string()));
  return Open(parent.get(), path.filename().c_str());
}

const dirent* NextEntry(DIR& folder) {
  while (const dirent* entry = readdir(&folder)) {
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") return entry;
  }
  return nullptr;
}

// Levels that are open at once. Moving a folder takes milliseconds on some file systems, so only
// what is deeper than people nest is moved.
constexpr int kOpenLevelsMax = 64;

// Empties a folder. What is too deep is moved up to it, to be met again.
class TreeRemoval {
 public:
  TreeRemoval(OpenFolder root, uint64_t entries_max)
      : root_(std::move(root)), entries_left_(entries_max) {}

  absl::Status Run() {
    // Reading a folder that changes may miss something, so again until there is nothing.
    do {
      found_ = false;
      rewinddir(root_.get());
      RETURN_IF_ERROR(Empty(*root_, 1));
    } while (found_ && mounted_.ok());
    return mounted_;
  }

 private:
  absl::Status Empty(DIR& folder, int level) {
    while (const dirent* entry = NextEntry(folder)) {
      found_ = true;
      if (entries_left_ == 0) {
        return absl::ResourceExhaustedError("there are too many files to remove");
      }
      --entries_left_;
      if (unlinkat(dirfd(&folder), entry->d_name, 0) == 0 || errno == ENOENT) continue;
      // A file on which another one is mounted.
      if (errno == EBUSY) {
        mounted_ = IsMounted(entry->d_name);
        continue;
      }
      if (errno != EISDIR) return base::SystemError(absl::StrCat("remove ", entry->d_name));
      const absl::Status removed = RemoveFolder(dirfd(&folder), entry->d_name, level);
      if (!absl::IsFailedPrecondition(removed)) {
        RETURN_IF_ERROR(removed);
      } else {
        mounted_ = removed;
      }
    }
    return absl::OkStatus();
  }

  absl::Status RemoveFolder(int above, const char* name, int level) {
    // A folder that is closed to its owner cannot be moved either.
    ASSIGN_OR_RETURN(const OpenFolder folder, Open(above, name));
    if (level == kOpenLevelsMax) return MoveUp(above, name);
    RETURN_IF_ERROR(Empty(*folder, level + 1));
    if (unlinkat(above, name, AT_REMOVEDIR) == 0 || errno == ENOTEMPTY) return absl::OkStatus();
    return base::SystemError(absl::StrCat("remove ", name));
  }

  absl::Status MoveUp(int above, const char* name) {
    while (true) {
      const std::string moved = absl::StrCat("removed-", ++moved_);
      if (renameat2(above, name, dirfd(root_.get()), moved.c_str(), RENAME_NOREPLACE) == 0) {
        return absl::OkStatus();
      }
      if (errno != EEXIST) return base::SystemError(absl::StrCat("move ", name));
    }
  }

  const OpenFolder root_;
  uint64_t entries_left_;
  uint64_t moved_ = 0;
  // Whether there was anything.
  bool found_ = false;
  // What was left alone.
  absl::Status mounted_;
};

absl::Status KeepFilesIn(DIR& folder, int level) {
  if (level > kKeptLevelsMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are more than ", kKeptLevelsMax, " levels of folders"));
  }
  while (const dirent* entry = NextEntry(folder)) {
    struct stat found = {};
    if (fstatat(dirfd(&folder), entry->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0) {
      return base::SystemError(absl::StrCat("find ", entry->d_name));
    }
    if (S_ISREG(found.st_mode)) continue;
    if (S_ISDIR(found.st_mode)) {
      ASSIGN_OR_RETURN(const OpenFolder inner, Open(dirfd(&folder), entry->d_name));
      RETURN_IF_ERROR(KeepFilesIn(*inner, level + 1));
    } else if (unlinkat(dirfd(&folder), entry->d_name, 0) != 0) {
      return base::SystemError(absl::StrCat("remove ", entry->d_name));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RemoveTree(const std::string& folder, uint64_t entries_max) {
  struct stat found = {};
  if (lstat(folder.c_str(), &found) != 0) {
    return errno == ENOENT ? absl::OkStatus() : base::SystemError(absl::StrCat("find ", folder));
  }
  if (S_ISDIR(found.st_mode)) {
    ASSIGN_OR_RETURN(OpenFolder root, OpenAtPath(folder));
    RETURN_IF_ERROR(TreeRemoval(std::move(root), entries_max).Run());
  }
  const int flags = S_ISDIR(found.st_mode) ? AT_REMOVEDIR : 0;
  return unlinkat(AT_FDCWD, folder.c_str(), flags) == 0
             ? absl::OkStatus()
             : base::SystemError(absl::StrCat("remove ", folder));
}

absl::Status KeepFilesOnly(const std::string& folder) {
  ASSIGN_OR_RETURN(const OpenFolder root, OpenAtPath(folder));
  return KeepFilesIn(*root, 1);
}

}  // namespace callboard::adapters
