#include "libs/adapters/rocksdb_store/high_water.h"

#include <fcntl.h>
#include <rocksdb/file_checksum.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/adapters/rocksdb_store/big_endian.h"
#include "libs/adapters/rocksdb_store/store_error.h"
#include "libs/base/status_macros.h"

namespace callboard::adapters {
namespace {

// A slot: magic, counter, sequence, and the CRC32C of the three.
constexpr absl::string_view kMagic = "CBHIGHW1";
constexpr size_t kCheckedBytes = 3 * kNumberBytes;
constexpr size_t kCrcBytes = 4;
constexpr size_t kSlotBytes = kCheckedBytes + kCrcBytes;
// Each in a page of its own.
constexpr std::array<off_t, 2> kSlotOffsets = {0, 4096};

constexpr absl::Duration kSyncInterval = absl::Seconds(1);

struct Slot {
  uint64_t counter = 0;
  uint64_t sequence = 0;
};

std::string Crc32c(absl::string_view bytes) {
  rocksdb::FileChecksumGenContext unnamed;
  const std::unique_ptr<rocksdb::FileChecksumGenerator> generator =
      rocksdb::GetFileChecksumGenCrc32cFactory()->CreateFileChecksumGenerator(unnamed);
  generator->Update(bytes.data(), bytes.size());
  generator->Finalize();
  return generator->GetChecksum();
}

void SetSlotText(Slot slot, std::string& text) {
  text.assign(kMagic.data(), kMagic.size());
  AppendBigEndian(slot.counter, text);
  AppendBigEndian(slot.sequence, text);
  text += Crc32c(text);
}

std::optional<Slot> ParseSlot(absl::string_view text) {
  if (text.size() != kSlotBytes || !absl::StartsWith(text, kMagic)) return std::nullopt;
  if (text.substr(kCheckedBytes) != Crc32c(text.substr(0, kCheckedBytes))) return std::nullopt;
  return Slot{ReadBigEndian(text.substr(kNumberBytes)),
              ReadBigEndian(text.substr(2 * kNumberBytes))};
}

absl::Status WriteSlot(const File& file, absl::string_view path, Slot slot, std::string& text) {
  SetSlotText(slot, text);
  const ssize_t written = pwrite(file.descriptor(), text.data(), text.size(),
                                 kSlotOffsets[slot.counter % kSlotOffsets.size()]);
  if (written < 0) return FileError(errno, path);
  // A disk with room for half of 28 bytes is full.
  return written == kSlotBytes ? absl::OkStatus() : FileError(ENOSPC, path);
}

// The slot written last.
absl::StatusOr<Slot> ReadNewest(const File& file, absl::string_view path) {
  std::optional<Slot> newest;
  for (const off_t offset : kSlotOffsets) {
    std::string text(kSlotBytes, '\0');
    const ssize_t size = pread(file.descriptor(), text.data(), text.size(), offset);
    if (size < 0) return FileError(errno, path);
    const std::optional<Slot> slot =
        ParseSlot(absl::string_view(text).substr(0, static_cast<size_t>(size)));
    if (slot.has_value() && (!newest.has_value() || slot->counter > newest->counter)) newest = slot;
  }
  if (!newest.has_value()) {
    return StoreRefused(absl::StrCat(path, " is damaged: neither of its two slots is whole"));
  }
  return *newest;
}

}  // namespace

absl::StatusOr<std::optional<uint64_t>> HighWater::Read(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const bool exists, Exists(path));
  if (!exists) return std::nullopt;
  ASSIGN_OR_RETURN(const File file, File::Open(path, O_RDONLY));
  ASSIGN_OR_RETURN(const Slot newest, ReadNewest(file, path.string()));
  return newest.sequence;
}

absl::Status HighWater::Create(const std::filesystem::path& path, uint64_t sequence) {
  const std::filesystem::path building = path.string() + ".new";
  ASSIGN_OR_RETURN(const File file, File::Open(building, O_RDWR | O_CREAT | O_TRUNC));
  std::string text;
  for (uint64_t counter = 0; counter < kSlotOffsets.size(); ++counter) {
    RETURN_IF_ERROR(WriteSlot(file, building.string(), {counter, sequence}, text));
  }
  if (fsync(file.descriptor()) != 0) return FileError(errno, building.string());
  RETURN_IF_ERROR(Rename(building, path));
  return SyncFolder(path.parent_path());
}

absl::StatusOr<std::unique_ptr<HighWater>> HighWater::Open(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(File file, File::Open(path, O_RDWR));
  ASSIGN_OR_RETURN(const Slot newest, ReadNewest(file, path.string()));
  return std::unique_ptr<HighWater>(new HighWater(path.string(), std::move(file), newest.counter));
}

HighWater::HighWater(std::string path, File file, uint64_t counter)
    : path_(std::move(path)),
      file_(std::move(file)),
      counter_(counter),
      syncer_(&HighWater::SyncUntilClosed, this) {}

HighWater::~HighWater() {
  {
    base::MutexLock lock(mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  syncer_.join();
}

absl::Status HighWater::Advance(uint64_t sequence) {
  RETURN_IF_ERROR(WriteSlot(file_, path_, {++counter_, sequence}, slot_));
  base::MutexLock lock(mutex_);
  if (!std::exchange(unsynced_, true)) changed_.NotifyAll();
  return sync_status_;
}

void HighWater::SyncUntilClosed() {
  while (AwaitSync()) {
    if (fdatasync(file_.descriptor()) == 0) continue;
    const absl::Status status = FileError(errno, path_);
    base::MutexLock lock(mutex_);
    sync_status_.Update(status);
  }
}

bool HighWater::AwaitSync() {
  base::MutexLock lock(mutex_);
  while (!unsynced_ && !closing_) changed_.Wait(mutex_);
  changed_.WaitFor(mutex_, kSyncInterval,
                   [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closing_; });
  return std::exchange(unsynced_, false);
}

}  // namespace callboard::adapters
