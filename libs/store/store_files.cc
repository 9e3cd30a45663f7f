#include "libs/store/store_files.h"

#include <fcntl.h>
#include <pwd.h>
#include <rocksdb/file_checksum.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/error.h"
#include "libs/ports/event_store.h"
#include "libs/store/database.h"

namespace callboard::store {

// ---- Files and folders --------------------------------------------------------------------------

namespace {

absl::Status ToStatus(const std::error_code& error, const std::filesystem::path& path) {
  return error ? FileError(error.value(), path.string()) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> Exists(const std::filesystem::path& path) {
  std::error_code error;
  const bool exists = std::filesystem::exists(path, error);
  RETURN_IF_ERROR(ToStatus(error, path));
  return exists;
}

absl::Status Rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::rename(from, to, error);
  return ToStatus(error, from);
}

absl::Status Remove(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return ToStatus(error, path);
}

absl::Status CreateFolders(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  return ToStatus(error, path);
}

absl::Status SyncFolder(const std::filesystem::path& folder) {
  ASSIGN_OR_RETURN(const base::Descriptor file, OpenFile(folder, O_RDONLY | O_DIRECTORY));
  return fsync(file.get()) == 0 ? absl::OkStatus() : FileError(errno, folder.string());
}

absl::Status CopyAll(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  if (std::filesystem::is_directory(from, error)) {
    RETURN_IF_ERROR(CreateFolders(to));
    for (auto file = std::filesystem::directory_iterator(from, error);
         !error && file != std::filesystem::directory_iterator(); file.increment(error)) {
      RETURN_IF_ERROR(CopyAll(file->path(), to / file->path().filename()));
    }
    RETURN_IF_ERROR(ToStatus(error, from));
    return SyncFolder(to);
  }
  std::filesystem::copy_file(from, to, error);
  RETURN_IF_ERROR(ToStatus(error, to));
  // copy_file() copies the mode too, with which others could read the file, or the owner not write.
  std::filesystem::permissions(
      to, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write, error);
  RETURN_IF_ERROR(ToStatus(error, to));
  ASSIGN_OR_RETURN(const base::Descriptor file, OpenFile(to, O_RDONLY));
  return fsync(file.get()) == 0 ? absl::OkStatus() : FileError(errno, to.string());
}

absl::StatusOr<base::Descriptor> OpenFile(const std::filesystem::path& path, int flags,
                                          int* error_number) {
  base::Descriptor file(open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (file.is_open()) return file;
  const int failure = errno;
  if (error_number != nullptr) *error_number = failure;
  return FileError(failure, path.string());
}

absl::Status CheckInPlace(const base::Descriptor& file, const std::filesystem::path& path) {
  struct stat open_file;
  struct stat named_file;
  if (fstat(file.get(), &open_file) != 0) return FileError(errno, path.string());
  if (open_file.st_nlink > 0 && stat(path.c_str(), &named_file) == 0 &&
      named_file.st_dev == open_file.st_dev && named_file.st_ino == open_file.st_ino) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat(
      path.string(), " was removed or replaced while it was in use; put the data folder back"));
}

// ---- Locks --------------------------------------------------------------------------------------

namespace {

absl::Status TakeLock(const base::Descriptor& file, int kind, const StoreFiles& files) {
  if (flock(file.get(), kind | LOCK_NB) == 0) return absl::OkStatus();
  if (errno != EWOULDBLOCK) return FileError(errno, files.lock().string());
  // `callboard db` opens the folders of directors only.
  const bool has_command = files.owner == StoreFiles::kDirector;
  return base::WithReason(absl::FailedPreconditionError(
                              absl::StrCat("another ", files.owner, " uses ", files.folder.string(),
                                           has_command ? ", or `callboard db` does" : "")),
                          ports::kStoreLocked);
}

bool ForbidsWriting(int error_number) {
  return error_number == EROFS || error_number == EACCES || error_number == EPERM;
}

// `problem` continues the sentence after the folder's name: "cannot be read by".
absl::Status AccessError(const StoreFiles& files, absl::string_view problem,
                         const absl::Status& error, absl::string_view next_step) {
  const uid_t user = geteuid();
  const passwd* entry = getpwuid(user);
  return absl::UnavailableError(absl::StrCat("data_dir '", files.folder.string(), "' ", problem,
                                             " user ", entry == nullptr ? "" : entry->pw_name,
                                             " (uid ", user, "): ", error.message(), "; ",
                                             next_step));
}

absl::Status NotWritableError(const StoreFiles& files, const absl::Status& error) {
  return AccessError(files, "cannot be written to by", error,
                     absl::StrCat("give the folder to that user, start the ", files.owner,
                                  " as the folder's owner, or name another data_dir"));
}

absl::Status NotReadableError(const StoreFiles& files, const absl::Status& error) {
  return AccessError(files, "cannot be read by", error,
                     "run the command as the folder's owner, or name another data_dir");
}

}  // namespace

absl::StatusOr<base::Descriptor> LockToWrite(const StoreFiles& files) {
  int error_number = 0;
  absl::StatusOr<base::Descriptor> file = OpenFile(files.lock(), O_RDWR | O_CREAT, &error_number);
  if (ForbidsWriting(error_number)) return NotWritableError(files, file.status());
  if (!file.ok()) return file.status();
  RETURN_IF_ERROR(TakeLock(*file, LOCK_EX, files));
  return *std::move(file);
}

absl::Status CheckReadable(const StoreFiles& files) {
  int error_number = 0;
  // Opening "." also checks that the folder can be searched.
  const auto opened = OpenFile(files.folder / ".", O_RDONLY | O_DIRECTORY, &error_number);
  if (opened.ok() || error_number != EACCES) return absl::OkStatus();
  return NotReadableError(files, FileError(error_number, files.folder.string()));
}

absl::StatusOr<base::Descriptor> LockToRead(const StoreFiles& files) {
  ASSIGN_OR_RETURN(const bool exists, Exists(files.lock()));
  int error_number = 0;
  absl::StatusOr<base::Descriptor> file =
      OpenFile(files.lock(), exists ? O_RDONLY : O_RDONLY | O_CREAT, &error_number);
  if (!exists && ForbidsWriting(error_number)) return base::Descriptor();
  if (error_number == EACCES) return NotReadableError(files, file.status());
  if (!file.ok()) return file.status();
  RETURN_IF_ERROR(TakeLock(*file, LOCK_SH, files));
  return *std::move(file);
}

// ---- HighWater ----------------------------------------------------------------------------------

namespace {

// A slot: magic, counter, sequence, and the CRC32C of the three.
constexpr absl::string_view kMagic = "CBHIGHW1";
constexpr size_t kCheckedBytes = 3 * kNumberBytes;
constexpr size_t kCrcBytes = 4;
constexpr size_t kSlotBytes = kCheckedBytes + kCrcBytes;
// Each slot is in a separate page.
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

absl::Status WriteSlot(const base::Descriptor& file, absl::string_view path, const Slot& slot,
                       std::string& text) {
  SetSlotText(slot, text);
  const ssize_t written = pwrite(file.get(), text.data(), text.size(), kSlotOffsets[slot.index]);
  if (written < 0) return FileError(errno, path);
  // An incomplete write of 28 bytes means that the disk is full.
  return written == kSlotBytes ? absl::OkStatus() : FileError(ENOSPC, path);
}

// Returns the slot that was written last.
absl::StatusOr<Slot> ReadNewest(const base::Descriptor& file, absl::string_view path) {
  std::optional<Slot> newest;
  for (size_t index = 0; index < kSlotOffsets.size(); ++index) {
    std::string text(kSlotBytes, '\0');
    const ssize_t size = pread(file.get(), text.data(), text.size(), kSlotOffsets[index]);
    if (size < 0) return FileError(errno, path);
    const std::optional<Slot> slot =
        ParseSlot(index, absl::string_view(text).substr(0, static_cast<size_t>(size)));
    if (slot.has_value() && (!newest.has_value() || slot->counter > newest->counter)) newest = slot;
  }
  if (!newest.has_value()) {
    return StoreRefusedError(absl::StrCat(path, " is damaged: neither of its two slots is valid"));
  }
  return *newest;
}

}  // namespace

absl::StatusOr<std::optional<uint64_t>> HighWater::Read(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const bool exists, Exists(path));
  if (!exists) return std::nullopt;
  ASSIGN_OR_RETURN(const base::Descriptor file, OpenFile(path, O_RDONLY));
  ASSIGN_OR_RETURN(const Slot newest, ReadNewest(file, path.string()));
  return newest.sequence;
}

absl::Status HighWater::Create(const std::filesystem::path& path, uint64_t sequence) {
  const std::filesystem::path building = path.string() + ".new";
  ASSIGN_OR_RETURN(const base::Descriptor file, OpenFile(building, O_RDWR | O_CREAT | O_TRUNC));
  std::string text;
  for (size_t index = 0; index < kSlotOffsets.size(); ++index) {
    RETURN_IF_ERROR(WriteSlot(file, building.string(), {index, index, sequence}, text));
  }
  if (fsync(file.get()) != 0) return FileError(errno, building.string());
  RETURN_IF_ERROR(Rename(building, path));
  return SyncFolder(path.parent_path());
}

absl::StatusOr<std::unique_ptr<HighWater>> HighWater::Open(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(base::Descriptor file, OpenFile(path, O_RDWR));
  ASSIGN_OR_RETURN(const Slot newest, ReadNewest(file, path.string()));
  // A process that was killed may have left the slot unsynced.
  if (fdatasync(file.get()) != 0) return FileError(errno, path.string());
  return std::unique_ptr<HighWater>(new HighWater(path.string(), std::move(file), newest));
}

HighWater::HighWater(std::string path, base::Descriptor file, const Slot& newest)
    : path_(std::move(path)),
      file_(std::move(file)),
      slot_({OtherIndex(newest), newest.counter, newest.sequence}),
      syncer_(&HighWater::RunSyncLoop, this) {}

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
  // Writes to a removed file succeed, but are lost when the process ends.
  status_ = CheckInPlace(file_, path_);
  if (status_.ok() && !syncing_) status_ = Write();
  if (!std::exchange(unsynced_, true)) changed_.NotifyAll();
  return status_;
}

absl::Status HighWater::Write() {
  ++slot_.counter;
  return WriteSlot(file_, path_, slot_, slot_text_);
}

void HighWater::RunSyncLoop() {
  while (WaitForSync()) {
    FinishSync(fdatasync(file_.get()) == 0 ? absl::OkStatus() : FileError(errno, path_));
  }
}

bool HighWater::WaitForSync() {
  base::MutexLock lock(mutex_);
  while (!unsynced_ && !closing_) changed_.Wait(mutex_);
  changed_.WaitFor(mutex_, kSyncInterval,
                   [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closing_; });
  syncing_ = std::exchange(unsynced_, false);
  return syncing_;
}

void HighWater::FinishSync(const absl::Status& status) {
  base::MutexLock lock(mutex_);
  syncing_ = false;
  status_.Update(status);
  if (!status_.ok()) return;
  slot_.index = OtherIndex(slot_);
  // Write what arrived during the sync.
  if (unsynced_) status_ = Write();
}

}  // namespace callboard::store
