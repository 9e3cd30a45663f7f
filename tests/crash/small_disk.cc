#include "tests/crash/small_disk.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"

namespace callboard::crash {
namespace {

// Where mounts are this process's own. Who is not root becomes root of a namespace.
void LeaveMounts() {
  const uid_t user = getuid();
  const gid_t group = getgid();
  if (unshare(CLONE_NEWNS) != 0) {
    CHECK_EQ(unshare(CLONE_NEWUSER | CLONE_NEWNS), 0) << "be root, or allow user namespaces";
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << absl::StrCat("0 ", user, " 1");
    std::ofstream("/proc/self/gid_map") << absl::StrCat("0 ", group, " 1");
  }
  CHECK_EQ(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
}

}  // namespace

SmallDisk::SmallDisk(std::filesystem::path folder, uint64_t bytes, uint64_t files)
    : folder_(std::move(folder)) {
  LeaveMounts();
  // The kernel takes 0 for no limit, too.
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
