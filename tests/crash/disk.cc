#include "tests/crash/disk.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/check.h"
#include "libs/testing/files.h"
#include "libs/testing/process.h"

namespace callboard::crash {
namespace {

constexpr char kLibrary[] = "tests/crash/libfaulty_disk.so";

DiskControl* MapControl(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  CHECK_GE(file, 0) << path;
  CHECK_EQ(ftruncate(file, sizeof(DiskControl)), 0);
  void* const memory =
      mmap(nullptr, sizeof(DiskControl), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CHECK(memory != MAP_FAILED);
  close(file);
  return static_cast<DiskControl*>(memory);
}

}  // namespace

Disk::Disk(std::filesystem::path folder)
    : folder_(std::move(folder)), records_(folder_.string() + ".disk") {
  CHECK(folder_.is_absolute()) << folder_;
  std::filesystem::create_directories(folder_);
  std::filesystem::create_directories(records_);
  std::ofstream(records_ / kLogFile, std::ios::trunc).flush();
  control_ = MapControl(records_ / kControlFile);
  const std::string name = folder_.string();
  CHECK_LT(name.size(), sizeof(control_->folder));
  std::memcpy(control_->folder, name.c_str(), name.size() + 1);
}

Disk::~Disk() { CHECK_EQ(munmap(control_, sizeof(DiskControl)), 0); }

std::vector<std::string> Disk::environment() const {
  return {absl::StrCat("LD_PRELOAD=", test::BuiltBinary(kLibrary)),
          absl::StrCat(kDiskVariable, "=", records_.string())};
}

void Disk::DieAt(uint64_t call, DeathTime death) {
  control_->death = death;
  control_->die_at = call;
}

void Disk::SetWallClock(absl::Duration offset) {
  control_->wall_offset_s = absl::ToInt64Seconds(offset);
}

std::vector<DiskCall> Disk::Log() const {
  const std::string text = test::FileText(records_ / kLogFile);
  absl::string_view rest = text;
  const auto take = [&rest](size_t size) {
    CHECK_LE(size, rest.size());
    const absl::string_view taken = rest.substr(0, size);
    rest.remove_prefix(size);
    return std::string(taken);
  };
  const auto below = [this](const std::string& path) {
    if (path.empty()) return path;
    const std::string relative = std::filesystem::path(path).lexically_relative(folder_);
    return relative == "." ? "" : relative;
  };
  std::vector<DiskCall> calls;
  while (!rest.empty()) {
    DiskCallHeader header;
    std::memcpy(&header, take(sizeof(header)).data(), sizeof(header));
    DiskCall call = {.tick = header.tick, .begun = header.begun, .action = header.action};
    call.path = below(take(header.path_bytes));
    call.other = below(take(header.other_bytes));
    call.data = take(header.data_bytes);
    call.offset = header.offset;
    calls.push_back(std::move(call));
  }
  return calls;
}

}  // namespace callboard::crash
