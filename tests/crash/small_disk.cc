#include "tests/crash/small_disk.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"

namespace callboard::crash {
namespace {

// Moves the process to a private mount namespace. A user other than root becomes root of a new user
// namespace. Returns false if that is not allowed.
bool EnterPrivateMounts() {
  const uid_t user = getuid();
  const gid_t group = getgid();
  if (unshare(CLONE_NEWNS) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << absl::StrCat("0 ", user, " 1");
    std::ofstream("/proc/self/gid_map") << absl::StrCat("0 ", group, " 1");
  }
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

}  // namespace

bool SmallDisk::IsAllowed() {
  // Tried in a child process, which the change does not hurt.
  const pid_t child = fork();
  CHECK_GE(child, 0);
  if (child == 0) {
    _exit(EnterPrivateMounts() && mount("tmpfs", "/tmp", "tmpfs", 0, "size=4096") == 0 ? 0 : 1);
  }
  int status = 0;
  CHECK_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

SmallDisk::SmallDisk(std::filesystem::path folder, uint64_t bytes, uint64_t files)
    : folder_(std::move(folder)) {
  CHECK(EnterPrivateMounts()) << "be root, or allow user namespaces";
  // For the kernel, too, 0 means no limit.
  const std::string size = absl::StrCat("size=", bytes, ",nr_inodes=", files);
  CHECK_EQ(mount("tmpfs", folder_.c_str(), "tmpfs", 0, size.c_str()), 0) << folder_;
}

SmallDisk::~SmallDisk() { umount2(folder_.c_str(), MNT_DETACH); }

void SmallDisk::Fill() {
  const int file =
      open((folder_ / "ballast").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  CHECK_GE(file, 0);
  const std::string page(4096, 'b');
  while (write(file, page.data(), page.size()) > 0) {
  }
  close(file);
}

void SmallDisk::FillWithFiles() {
  std::filesystem::create_directories(folder_ / "files");
  while (true) {
    const std::filesystem::path path = folder_ / "files" / absl::StrCat(++files_);
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file < 0) return;
    close(file);
  }
}

void SmallDisk::FreeFiles() { CHECK_GT(std::filesystem::remove_all(folder_ / "files"), 1u); }

void SmallDisk::Free() { CHECK(std::filesystem::remove(folder_ / "ballast")); }

}  // namespace callboard::crash
