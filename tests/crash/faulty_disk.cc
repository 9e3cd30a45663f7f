// A preloaded library (LD_PRELOAD) between a process and one folder of its disk. It counts and logs
// every call that changes a file or makes changes durable, kills the process at one of them, and
// makes syncs slow or fail. Messages to peers count as calls too. The library also shifts the
// process's wall clock.
//
// It covers the calls that the director makes, directly and through its libraries; the test
// LoggedCallsAreAllChangesOfTheFolder fails if one is missing.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <string>
#include <string_view>

#include "libs/base/mutex.h"
#include "tests/crash/disk_control.h"

namespace callboard::crash {
namespace {

// Returns the function of this name that the library replaces.
template <class Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

[[noreturn]] void Die() {
  kill(getpid(), SIGKILL);
  while (true) pause();
}

void Delay(uint32_t milliseconds) {
  timespec left = {.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1'000'000};
  while (nanosleep(&left, &left) != 0) {
  }
}

struct LogEntry {
  DiskAction action = DiskAction::kSend;
  std::string_view path = {};
  std::string_view other = {};
  std::string_view data = {};
  uint64_t offset = 0;
  uint64_t begun = 0;
};

class Disk {
 public:
  // Null in a process without a faulty disk.
  static Disk* Get() {
    static Disk* const disk = Open();
    return disk;
  }

  // Makes a call that changes something, and logs it. Calls of all threads are serialized.
  template <class Call>
  auto LogCall(const LogEntry& logged, Call call) {
    base::MutexLock lock(mutex_);
    const bool dies = Count();
    if (dies && control_.death != DeathTime::kAfter) Die();
    const auto result = call();
    if (result >= 0) Log(logged);
    if (dies) Die();
    return result;
  }

  ssize_t Write(const std::string& path, std::string_view data, uint64_t offset,
                ssize_t (*write)(int, std::string_view, uint64_t), int descriptor) {
    base::MutexLock lock(mutex_);
    const bool dies = Count();
    if (dies && control_.death == DeathTime::kBefore) Die();
    if (dies && control_.death == DeathTime::kHalfway) data = data.substr(0, data.size() / 2);
    const ssize_t written = write(descriptor, data, offset);
    if (written > 0) {
      data = data.substr(0, static_cast<size_t>(written));
      Log({.action = DiskAction::kWrite, .path = path, .data = data, .offset = offset});
    }
    if (dies) Die();
    return written;
  }

  int Sync(const std::string& path, int descriptor, int (*sync)(int)) {
    const SyncStart beginning = BeginSync();
    if (IsStoreLog(path) && TakeFailure()) {
      errno = EIO;
      return -1;
    }
    const int result = sync(descriptor);
    base::MutexLock lock(mutex_);
    if (result == 0) Log({.action = DiskAction::kSync, .path = path, .begun = beginning.tick});
    if (beginning.dies) Die();
    return result;
  }

  int64_t wall_offset_s() const { return control_.wall_offset_s; }

  // Returns the path of an open file below the folder; empty for other files.
  std::string PathOf(int descriptor) const {
    const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
    std::array<char, 4096> path;
    const ssize_t size = readlink(link.c_str(), path.data(), path.size());
    return size < 0 ? "" : OwnPath(std::string(path.data(), static_cast<size_t>(size)));
  }

  // Returns the relative path of a path in the folder; empty for other paths.
  std::string OwnPath(std::string path) const {
    return path == folder_ || path.starts_with(folder_ + "/") ? std::move(path) : std::string();
  }

 private:
  Disk(DiskControl& control, int log)
      : control_(control), folder_(control.folder), log_descriptor_(log) {}

  static Disk* Open() {
    const char* const name = getenv(kDiskVariable);
    if (name == nullptr) return nullptr;
    const std::string folder = name;
    const auto real_open = Real<int(const char*, int, ...)>("open");
    const int file = real_open((folder + "/" + kControlFile).c_str(), O_RDWR | O_CLOEXEC);
    const int log = real_open((folder + "/" + kLogFile).c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    void* const memory =
        mmap(nullptr, sizeof(DiskControl), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || log < 0 || memory == MAP_FAILED) std::abort();
    return new Disk(*static_cast<DiskControl*>(memory), log);
  }

  // Counts a call. Returns whether the process dies at it.
  bool Count() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ++control_.calls == control_.die_at; }

  struct SyncStart {
    uint64_t tick = 0;
    bool dies = false;
  };
  SyncStart BeginSync() {
    uint32_t delay = control_.sync_delay_ms;
    SyncStart beginning;
    {
      base::MutexLock lock(mutex_);
      beginning.dies = Count();
      if (beginning.dies && control_.death != DeathTime::kAfter) Die();
      beginning.tick = ++control_.tick;
      const uint32_t every = control_.spike_every;
      if (every != 0 && ++control_.syncs % every == 0) delay = control_.spike_delay_ms;
    }
    if (delay != 0) Delay(delay);
    return beginning;
  }

  // Excludes the log of a checkpoint.
  bool IsStoreLog(const std::string& path) const {
    return path.starts_with(folder_ + "/" + kDataFolder + "/events/") && path.ends_with(".log");
  }

  bool TakeFailure() {
    uint32_t left = control_.log_syncs_to_fail;
    while (left != 0 && !control_.log_syncs_to_fail.compare_exchange_weak(left, left - 1)) {
    }
    return left != 0;
  }

  void Log(const LogEntry& logged) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    DiskCallHeader header = {.tick = ++control_.tick,
                             .begun = logged.begun,
                             .action = logged.action,
                             .path_bytes = static_cast<uint32_t>(logged.path.size()),
                             .other_bytes = static_cast<uint32_t>(logged.other.size()),
                             .data_bytes = static_cast<uint32_t>(logged.data.size()),
                             .offset = logged.offset};
    const auto part = [](std::string_view text) {
      return iovec{const_cast<char*>(text.data()), text.size()};
    };
    const std::array<iovec, 4> parts = {iovec{&header, sizeof(header)}, part(logged.path),
                                        part(logged.other), part(logged.data)};
    if (writev(log_descriptor_, parts.data(), parts.size()) < 0) std::abort();
  }

  DiskControl& control_;
  const std::string folder_;
  const int log_descriptor_;

  base::Mutex mutex_;
};

bool Exists(const char* path) {
  struct stat unused;
  return stat(path, &unused) == 0;
}

// Makes a call that changes the folder if the path is in it.
template <class Call>
int Change(DiskAction action, const std::string& path, Call call) {
  Disk* const disk = Disk::Get();
  if (disk == nullptr || disk->OwnPath(path).empty() || !Exists(path.c_str())) return call();
  return disk->LogCall({.action = action, .path = path}, call);
}

template <class Call>
int ChangeTo(DiskAction action, const char* from, const char* to, Call call) {
  Disk* const disk = Disk::Get();
  if (disk == nullptr || disk->OwnPath(from).empty()) return call();
  return disk->LogCall({.action = action, .path = from, .other = to}, call);
}

int Synced(int descriptor, int (*sync)(int)) {
  Disk* const disk = Disk::Get();
  const std::string path = disk == nullptr ? "" : disk->PathOf(descriptor);
  return path.empty() ? sync(descriptor) : disk->Sync(path, descriptor, sync);
}

}  // namespace
}  // namespace callboard::crash

// ---- The calls ----------------------------------------------------------------------------------

using callboard::crash::Change;
using callboard::crash::ChangeTo;
using callboard::crash::Disk;
using callboard::crash::DiskAction;
using callboard::crash::Exists;
using callboard::crash::Real;
using callboard::crash::Synced;

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

int open(const char* path, int flags, ...) {
  static auto* const real = Real<int(const char*, int, ...)>("open");
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  const auto call = [&] { return real(path, flags, mode); };
  Disk* const disk = Disk::Get();
  if (disk == nullptr || disk->OwnPath(path).empty()) return call();
  const bool exists = Exists(path);
  if (!exists && (flags & O_CREAT) != 0) {
    return disk->LogCall({.action = DiskAction::kCreate, .path = path}, call);
  }
  if (exists && (flags & O_TRUNC) != 0) {
    return disk->LogCall({.action = DiskAction::kTruncate, .path = path}, call);
  }
  return call();
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const real = Real<int(const char*, mode_t)>("mkdir");
  Disk* const disk = Disk::Get();
  if (disk == nullptr || disk->OwnPath(path).empty() || Exists(path)) return real(path, mode);
  return disk->LogCall({.action = DiskAction::kMakeFolder, .path = path},
                       [&] { return real(path, mode); });
}

int rmdir(const char* path) noexcept {
  static auto* const real = Real<int(const char*)>("rmdir");
  return Change(DiskAction::kRemove, path, [&] { return real(path); });
}

int unlink(const char* path) noexcept {
  static auto* const real = Real<int(const char*)>("unlink");
  return Change(DiskAction::kRemove, path, [&] { return real(path); });
}

int remove(const char* path) noexcept {
  static auto* const real = Real<int(const char*)>("remove");
  return Change(DiskAction::kRemove, path, [&] { return real(path); });
}

int unlinkat(int folder, const char* name, int flags) noexcept {
  static auto* const real = Real<int(int, const char*, int)>("unlinkat");
  Disk* const disk = Disk::Get();
  const std::string above = disk == nullptr || *name == '/' ? "" : disk->PathOf(folder);
  const std::string path = above.empty() ? name : above + "/" + name;
  return Change(DiskAction::kRemove, path, [&] { return real(folder, name, flags); });
}

int rename(const char* from, const char* to) noexcept {
  static auto* const real = Real<int(const char*, const char*)>("rename");
  return ChangeTo(DiskAction::kRename, from, to, [&] { return real(from, to); });
}

int link(const char* from, const char* to) noexcept {
  static auto* const real = Real<int(const char*, const char*)>("link");
  return ChangeTo(DiskAction::kLink, from, to, [&] { return real(from, to); });
}

int ftruncate(int descriptor, off_t size) noexcept {
  static auto* const real = Real<int(int, off_t)>("ftruncate");
  Disk* const disk = Disk::Get();
  const std::string path = disk == nullptr ? "" : disk->PathOf(descriptor);
  if (path.empty()) return real(descriptor, size);
  return disk->LogCall(
      {.action = DiskAction::kTruncate, .path = path, .offset = static_cast<uint64_t>(size)},
      [&] { return real(descriptor, size); });
}

ssize_t write(int descriptor, const void* data, size_t size) {
  static auto* const real = Real<ssize_t(int, const void*, size_t)>("write");
  Disk* const disk = Disk::Get();
  const std::string path = disk == nullptr ? "" : disk->PathOf(descriptor);
  if (path.empty()) return real(descriptor, data, size);
  const bool appends = (fcntl(descriptor, F_GETFL) & O_APPEND) != 0;
  const off_t offset = lseek(descriptor, 0, appends ? SEEK_END : SEEK_CUR);
  return disk->Write(
      path, {static_cast<const char*>(data), size}, static_cast<uint64_t>(offset),
      [](int to, std::string_view bytes, uint64_t) { return real(to, bytes.data(), bytes.size()); },
      descriptor);
}

ssize_t pwrite(int descriptor, const void* data, size_t size, off_t offset) {
  static auto* const real = Real<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  Disk* const disk = Disk::Get();
  const std::string path = disk == nullptr ? "" : disk->PathOf(descriptor);
  if (path.empty()) return real(descriptor, data, size, offset);
  return disk->Write(
      path, {static_cast<const char*>(data), size}, static_cast<uint64_t>(offset),
      [](int to, std::string_view bytes, uint64_t at) {
        return real(to, bytes.data(), bytes.size(), static_cast<off_t>(at));
      },
      descriptor);
}

int fsync(int descriptor) {
  static auto* const real = Real<int(int)>("fsync");
  return Synced(descriptor, real);
}

int fdatasync(int descriptor) {
  static auto* const real = Real<int(int)>("fdatasync");
  return Synced(descriptor, real);
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static auto* const real = Real<int(clockid_t, timespec*)>("clock_gettime");
  const int result = real(clock, time);
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return result;
  const Disk* const disk = Disk::Get();
  if (disk != nullptr && result == 0) time->tv_sec += disk->wall_offset_s();
  return result;
}

ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  static auto* const real = Real<ssize_t(int, const msghdr*, int)>("sendmsg");
  Disk* const disk = Disk::Get();
  const auto call = [&] { return real(descriptor, message, flags); };
  return disk == nullptr ? call() : disk->LogCall({.action = DiskAction::kSend}, call);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
