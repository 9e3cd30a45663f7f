#include "libs/runner/run_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/base/files.h"
#include "libs/base/text.h"
#include "libs/core/limits.h"

namespace callboard::runner {

// ---- Removing folders ---------------------------------------------------------------------------

namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
using OpenFolder = std::unique_ptr<DIR, CloseFolder>;

absl::Status MountedError(absl::string_view name) {
  return absl::FailedPreconditionError(absl::StrCat("something is mounted on ", name));
}

// Opens a folder in `parent` with O_PATH. Fails with EXDEV when a file system is mounted on it.
base::Descriptor FindFolder(int parent, const char* name) {
  open_how how = {};
  how.flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  how.resolve = RESOLVE_NO_XDEV;
  base::Descriptor found(static_cast<int>(syscall(SYS_openat2, parent, name, &how, sizeof(how))));
  if (found.is_open() || (errno != ENOSYS && errno != EPERM)) return found;
  // The kernel or a seccomp filter does not allow openat2(). Compare the devices instead.
  found = base::Descriptor(openat(parent, name, static_cast<int>(how.flags)));
  struct stat outer = {};
  struct stat inner = {};
  if (!found.is_open() || fstat(parent, &outer) != 0 || fstat(found.get(), &inner) != 0 ||
      outer.st_dev == inner.st_dev) {
    return found;
  }
  errno = EXDEV;
  return base::Descriptor();
}

// Opens a folder in `parent`. Gives its owner all permissions if they are missing.
absl::StatusOr<OpenFolder> OpenChild(int parent, const char* name) {
  const base::Descriptor found = FindFolder(parent, name);
  if (!found.is_open() && errno == EXDEV) return MountedError(name);
  if (!found.is_open()) return base::SystemError(absl::StrCat("open ", name));
  // Use the descriptor, because the name may refer to something else by now.
  chmod(absl::StrCat("/proc/self/fd/", found.get()).c_str(), S_IRWXU);
  base::Descriptor readable(openat(found.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!readable.is_open()) return base::SystemError(absl::StrCat("read ", name));
  OpenFolder folder(fdopendir(readable.get()));
  if (folder == nullptr) return base::SystemError(absl::StrCat("read ", name));
  readable.Release();
  return folder;
}

// Opens a folder by its path. Fails when something is mounted on it; its parents may be mounts.
absl::StatusOr<OpenFolder> OpenAtPath(const std::filesystem::path& path) {
  const std::filesystem::path parent_path = path.has_parent_path() ? path.parent_path() : ".";
  const base::Descriptor parent(open(parent_path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!parent.is_open()) return base::SystemError(absl::StrCat("open ", parent_path.string()));
  return OpenChild(parent.get(), path.filename().c_str());
}

const dirent* NextEntry(DIR& folder) {
  while (const dirent* entry = readdir(&folder)) {
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") return entry;
  }
  return nullptr;
}

// Number of levels that are open at the same time. Moving a folder takes milliseconds on some file
// systems, so the limit is deeper than ordinary trees.
constexpr int kOpenLevelsMax = 64;

// Removes the content of a folder. Moves folders that are too deep up to this folder, so that the
// number of open descriptors is limited.
class TreeRemover {
 public:
  TreeRemover(OpenFolder root, uint64_t entries_max)
      : root_(std::move(root)), entries_left_(entries_max) {}

  absl::Status Run() {
    // Reading a folder while it changes may miss entries, so repeat until it is empty.
    do {
      found_ = false;
      rewinddir(root_.get());
      RETURN_IF_ERROR(Empty(*root_, 1));
    } while (found_ && mount_status_.ok());
    return mount_status_;
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
      // EBUSY: something is mounted on the file.
      if (errno == EBUSY) {
        mount_status_ = MountedError(entry->d_name);
        continue;
      }
      if (errno != EISDIR) return base::SystemError(absl::StrCat("remove ", entry->d_name));
      const absl::Status removed = RemoveFolder(dirfd(&folder), entry->d_name, level);
      if (!absl::IsFailedPrecondition(removed)) {
        RETURN_IF_ERROR(removed);
      } else {
        mount_status_ = removed;
      }
    }
    return absl::OkStatus();
  }

  absl::Status RemoveFolder(int parent, const char* name, int level) {
    // Open it before moving it up: a folder without permissions cannot be moved.
    ASSIGN_OR_RETURN(const OpenFolder folder, OpenChild(parent, name));
    if (level == kOpenLevelsMax) return MoveUp(parent, name);
    RETURN_IF_ERROR(Empty(*folder, level + 1));
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOTEMPTY) return absl::OkStatus();
    return base::SystemError(absl::StrCat("remove ", name));
  }

  absl::Status MoveUp(int parent, const char* name) {
    while (true) {
      const std::string moved = absl::StrCat("removed-", ++moved_);
      if (renameat2(parent, name, dirfd(root_.get()), moved.c_str(), RENAME_NOREPLACE) == 0) {
        return absl::OkStatus();
      }
      if (errno != EEXIST) return base::SystemError(absl::StrCat("move ", name));
    }
  }

  const OpenFolder root_;
  uint64_t entries_left_;
  uint64_t moved_ = 0;
  // Whether the last pass found any entry.
  bool found_ = false;
  // FAILED_PRECONDITION when a mount was left alone.
  absl::Status mount_status_;
};

absl::Status RemoveSpecialFilesIn(DIR& folder, int level) {
  if (level > kFolderLevelsMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are more than ", kFolderLevelsMax, " levels of folders"));
  }
  while (const dirent* entry = NextEntry(folder)) {
    struct stat found = {};
    if (fstatat(dirfd(&folder), entry->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0) {
      return base::SystemError(absl::StrCat("find ", entry->d_name));
    }
    if (S_ISREG(found.st_mode)) continue;
    if (S_ISDIR(found.st_mode)) {
      ASSIGN_OR_RETURN(const OpenFolder inner, OpenChild(dirfd(&folder), entry->d_name));
      RETURN_IF_ERROR(RemoveSpecialFilesIn(*inner, level + 1));
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
    RETURN_IF_ERROR(TreeRemover(std::move(root), entries_max).Run());
  }
  const int flags = S_ISDIR(found.st_mode) ? AT_REMOVEDIR : 0;
  return unlinkat(AT_FDCWD, folder.c_str(), flags) == 0
             ? absl::OkStatus()
             : base::SystemError(absl::StrCat("remove ", folder));
}

absl::Status RemoveSpecialFiles(const std::string& folder) {
  ASSIGN_OR_RETURN(const OpenFolder root, OpenAtPath(folder));
  return RemoveSpecialFilesIn(*root, 1);
}

// ---- OutputLog ----------------------------------------------------------------------------------

namespace {

// One more byte than is returned shows whether the cut is inside a character.
constexpr size_t kTailBytesMax = core::kResultBytesMax + 1;

}  // namespace

void OutputLog::Append(ports::OutputStream stream, absl::string_view text, absl::Time at,
                       absl::Duration now) {
  if (stream == ports::OutputStream::kStdout) AppendToTail(text);
  PartialChunk& partial = partial_[static_cast<size_t>(stream)];
  while (!text.empty()) {
    if (partial.text.empty()) {
      partial.at = at;
      partial.due_at = now + kJoinFor;
    }
    const size_t taken = std::min(text.size(), kChunkBytesMax - partial.text.size());
    partial.text.append(text.data(), taken);
    text.remove_prefix(taken);
    if (partial.text.size() == kChunkBytesMax) CutChunk(stream);
  }
}

absl::Duration OutputLog::due_at() const {
  return std::min(partial_[0].due_at, partial_[1].due_at);
}

void OutputLog::CutChunks(absl::Duration now) {
  // Cut the older chunk first.
  for (int i = 0; i < 2 && due_at() <= now; ++i) {
    CutChunk(partial_[0].due_at <= partial_[1].due_at ? ports::OutputStream::kStdout
                                                      : ports::OutputStream::kStderr);
  }
}

void OutputLog::Finish() {
  for (int i = 0; i < 2 && due_at() != absl::InfiniteDuration(); ++i) CutChunks(due_at());
  finished_ = true;
}

std::optional<ports::OutputChunk> OutputLog::TakeChunk() {
  if (waiting_.empty()) return std::nullopt;
  const size_t size = waiting_.front().data.size();
  if (!finished_ && handed_out_bytes_ + size > kHandedOutBytesMax) return std::nullopt;
  ports::OutputChunk chunk = std::move(waiting_.front());
  waiting_.pop_front();
  waiting_bytes_ -= size;
  handed_out_bytes_ += size;
  return chunk;
}

void OutputLog::Acknowledge(uint64_t bytes) {
  handed_out_bytes_ -= std::min(bytes, handed_out_bytes_);
}

absl::string_view OutputLog::stdout_tail() const {
  return base::Utf8Suffix(stdout_tail_, core::kResultBytesMax);
}

void OutputLog::CutChunk(ports::OutputStream stream) {
  PartialChunk partial = std::exchange(partial_[static_cast<size_t>(stream)], PartialChunk());
  waiting_bytes_ += partial.text.size();
  waiting_.push_back({.number = ++last_number_,
                      .stream = stream,
                      .data = std::move(partial.text),
                      .at = partial.at,
                      .dropped_bytes = std::exchange(dropped_bytes_, 0)});
  while (waiting_bytes_ > kWaitingBytesMax) {
    const ports::OutputChunk& oldest = waiting_.front();
    const uint64_t dropped = oldest.dropped_bytes + oldest.data.size();
    waiting_bytes_ -= oldest.data.size();
    waiting_.pop_front();
    (waiting_.empty() ? dropped_bytes_ : waiting_.front().dropped_bytes) += dropped;
  }
}

void OutputLog::AppendToTail(absl::string_view text) {
  stdout_bytes_ += text.size();
  if (text.size() >= kTailBytesMax) {
    text.remove_prefix(text.size() - kTailBytesMax);
    stdout_tail_.clear();
  }
  stdout_tail_.append(text.data(), text.size());
  // Erase rarely, so that the cost per byte is small.
  if (stdout_tail_.size() > 2 * kTailBytesMax) {
    stdout_tail_.erase(0, stdout_tail_.size() - kTailBytesMax);
  }
}

// ---- The files of a run -------------------------------------------------------------------------

namespace {

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (mkdir(parent.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return base::SystemError(absl::StrCat("make ", parent.string()));
  }
  if (mkdir(path.c_str(), S_IRWXU) == 0) return absl::OkStatus();
  struct stat found = {};
  if (errno == EEXIST && lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode)) {
    return absl::OkStatus();
  }
  return base::SystemError(absl::StrCat("make ", path));
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  const base::Descriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.is_open() || !base::WriteAll(file, text))
    return base::SystemError(absl::StrCat("write ", path));
  return absl::OkStatus();
}

// Whether `path` can be the working directory of a task. A folder that this user cannot enter does
// not count as an error of the agent, because the task has chosen it.
bool IsUsableFolder(const std::string& path) {
  std::error_code error;
  return !path.empty() && std::filesystem::is_directory(path, error) &&
         faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0;
}

}  // namespace

absl::StatusOr<std::string> PrepareFiles(const RunPlan& plan) {
  const RunFolders& folders = plan.folders;
  RETURN_IF_ERROR(RemoveTree(folders.run));
  RETURN_IF_ERROR(MakeFolder(folders.run));
  RETURN_IF_ERROR(MakeFolder(folders.new_artifacts()));
  RETURN_IF_ERROR(WriteFile(folders.prompt_file(), plan.prompt));
  if (!plan.payload.empty()) RETURN_IF_ERROR(WriteFile(folders.payload_file(), plan.payload));
  if (IsUsableFolder(folders.project)) return folders.project;
  if (!folders.keeps_work) RETURN_IF_ERROR(RemoveTree(folders.work));
  RETURN_IF_ERROR(MakeFolder(folders.work));
  return folders.work;
}

std::optional<ResultFile> ReadResultFile(const RunFolders& folders) {
  // O_NONBLOCK: opening a pipe of that name must not block.
  const base::Descriptor file(open(folders.result_file().c_str(),
                                   O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat found = {};
  if (!file.is_open() || fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode)) {
    return std::nullopt;
  }
  const auto size = static_cast<size_t>(found.st_size);
  // One more byte than is kept shows whether the cut is inside a character.
  ResultFile result = {.text = std::string(std::min(size, core::kResultBytesMax + 1), '\0'),
                       .truncated = size > core::kResultBytesMax};
  const ssize_t count = pread(file.get(), result.text.data(), result.text.size(),
                              static_cast<off_t>(size - result.text.size()));
  if (count < 0) return std::nullopt;
  result.text.resize(static_cast<size_t>(count));
  result.text = std::string(base::Utf8Suffix(result.text, core::kResultBytesMax));
  return result;
}

absl::Status KeepArtifacts(const RunFolders& folders) {
  const std::string made = folders.new_artifacts();
  struct stat found = {};
  if (lstat(made.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) {
    return absl::FailedPreconditionError("the folder named by CALLBOARD_ARTIFACTS is gone");
  }
  if (const absl::Status kept = RemoveSpecialFiles(made); !kept.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the artifacts cannot be kept: ", kept.message()));
  }
  // rmdir() succeeds only when there are no artifacts.
  if (rmdir(made.c_str()) == 0) return absl::OkStatus();
  RETURN_IF_ERROR(RemoveTree(folders.artifacts));
  const std::filesystem::path parent = std::filesystem::path(folders.artifacts).parent_path();
  if (mkdir(parent.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return base::SystemError(absl::StrCat("make ", parent.string()));
  }
  if (rename(made.c_str(), folders.artifacts.c_str()) != 0) {
    return base::SystemError(absl::StrCat("keep the artifacts as ", folders.artifacts));
  }
  return absl::OkStatus();
}

absl::Status RemoveFiles(const RunFolders& folders) {
  const absl::Status work = folders.keeps_work ? absl::OkStatus() : RemoveTree(folders.work);
  RETURN_IF_ERROR(RemoveTree(folders.run));
  return work;
}

}  // namespace callboard::runner
