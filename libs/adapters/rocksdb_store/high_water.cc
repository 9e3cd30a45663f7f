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

using Slot = HighWater::Slot;

size_t OtherIndex(const Slot& slot) { return 1 - slot.index; }

std::string Crc32c(absl::string_view bytes) {
  rocksdb::FileChecksumGenContext unnamed;
  const std::unique_ptr<rocksdb::FileChecksumGenerator> generator =
      rocksdb::GetFileChecksumGenCrc32cFactory()->CreateFileChecksumGenerator(unnamed);
  generator->Update(bytes.data(), bytes.size());
  generator->Finalize();
  return generator->GetChecksum();
}

void SetSlotText(const Slot& slot, std::string& text) {
  text.assign(kMagic.data(), kMagic.size());
  AppendBigEndian(slot.counter, text);
  AppendBigEndian(slot.sequence, text);
  text += Crc32c(text);
}

std::optional<Slot> ParseSlot(size_t index, absl::string_view text) {
  if (text.size() != kSlotBytes || !absl::StartsWith(text, kMagic)) return std::nullopt;
  if (text.substr(kCheckedBytes) != Crc32c(text.substr(0, kCheckedBytes))) return std::nullopt;
  return Slot{index, ReadBigEndian(text.substr(kNumberBytes)),
              ReadBigEndian(text.substr(2 * kNumberBytes))};
}

absl::Status WriteSlot(const File& file, absl::string_view path, const Slot& slot,
                       std::string& text) {
  SetSlotText(slot, text);
  const ssize_t written =
      pwrite(file.descriptor(), text.data(), text.size(), kSlotOffsets[slot.index]);
  if (written < 0) return FileError(errno, path);
  // A disk with room for half of 28 bytes is full.
  return written == kSlotBytes ? absl::OkStatus() : FileError(ENOSPC, path);
}

// The slot written last.
absl::StatusOr<Slot> ReadNewest(const File& file, absl::string_view path) {
  std::optional<Slot> newest;
  for (size_t index = 0; index < kSlotOffsets.size(); ++index) {
    std::string text(kSlotBytes, '\0');
    const ssize_t size = pread(file.descriptor(), text.data(), text.size(), kSlotOffsets[index]);
    if (size < 0) return FileError(errno, path);
    const std::optional<Slot> slot =
        ParseSlot(index, absl::string_view(text).substr(0, static_cast<size_t>(size)));
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
  for (size_t index = 0; index < kSlotOffsets.size(); ++index) {
    RETURN_IF_ERROR(WriteSlot(file, building.string(), {index, index, sequence}, text));
  }
  if (fsync(file.descriptor()) != 0) return FileError(errno, building.string());
  RETURN_IF_ERROR(Rename(building, path));
  return SyncFolder(path.parent_path());
}

absl::StatusOr<std::unique_ptr<HighWater>> HighWater::Open(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(File file, File::Open(path, O_RDWR));
  ASSIGN_OR_RETURN(const Slot newest, ReadNewest(file, path.string()));
  // A process that was killed may have left it unsynced.
  if (fdatasync(file.descriptor()) != 0) return FileError(errno, path.string());
  return std::unique_ptr<HighWater>(new HighWater(path.string(), std::move(file), newest));
}

HighWater::HighWater(std::string path, File file, const Slot& newest)
    : path_(std::move(path)),
      file_(std::move(file)),
      slot_({OtherIndex(newest), newest.counter, newest.sequence}),
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
  base::MutexLock lock(mutex_);
  RETURN_IF_ERROR(status_);
  slot_.sequence = sequence;
  // Writes to a removed file succeed and are lost with the process.
  status_ = file_.CheckInPlace(path_);
  if (status_.ok() && !syncing_) status_ = Write();
  if (!std::exchange(unsynced_, true)) changed_.NotifyAll();
  return status_;
}

absl::Status HighWater::Write() {
  ++slot_.counter;
  return WriteSlot(file_, path_, slot_, slot_text_);
}

void HighWater::SyncUntilClosed() {
  while (AwaitSync()) {
    EndSync(fdatasync(file_.descriptor()) == 0 ? absl::OkStatus() : FileError(errno, path_));
  }
}

bool HighWater::AwaitSync() {
  base::MutexLock lock(mutex_);
  while (!unsynced_ && !closing_) changed_.Wait(mutex_);
  changed_.WaitFor(mutex_, kSyncInterval,
                   [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closing_; });
  syncing_ = std::exchange(unsynced_, false);
  return syncing_;
}

void HighWater::EndSync(const absl::Status& status) {
  base::MutexLock lock(mutex_);
  syncing_ = false;
  status_.Update(status);
  if (!status_.ok()) return;
  slot_.index = OtherIndex(slot_);
  // What came while it was not to be touched.
  if (unsynced_) status_ = Write();
}

}  // namespace callboard::adapters
