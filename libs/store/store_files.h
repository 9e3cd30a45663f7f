// The data folder of a store: its files, its locks and the high water.

#ifndef CALLBOARD_LIBS_STORE_STORE_FILES_H_
#define CALLBOARD_LIBS_STORE_STORE_FILES_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/base/files.h"
#include "libs/base/mutex.h"

namespace callboard::store {

// The paths in a data folder.
struct StoreFiles {
  std::filesystem::path folder;
  // Name of the database's folder.
  std::string database = "events";
  // The kind of process that uses the data folder, for error messages.
  std::string owner = std::string(kDirector);

  static constexpr absl::string_view kDirector = "director";

  std::filesystem::path lock() const { return folder / "LOCK"; }
  std::filesystem::path events() const { return folder / database; }
  std::filesystem::path high_water() const { return folder / "HIGHWATER"; }
  std::filesystem::path checkpoints() const { return folder / "checkpoints"; }
  // Folder in which a restore builds the new store.
  std::filesystem::path restoring() const { return folder / "restoring"; }
};

absl::StatusOr<bool> Exists(const std::filesystem::path& path);
absl::Status Rename(const std::filesystem::path& from, const std::filesystem::path& to);
// Removes a file, or a folder with its content. Returns OK when there is none.
absl::Status Remove(const std::filesystem::path& path);
absl::Status CreateFolders(const std::filesystem::path& path);
// Copies a file, or a folder with its content. The copy shares no data with the original. It
// survives a crash of the machine once the folder that holds it is synced.
// REQUIRES: `to` does not exist.
absl::Status CopyAll(const std::filesystem::path& from, const std::filesystem::path& to);
// Syncs the entries of the folder: files created, renamed or removed in it stay so after a crash of
// the machine.
absl::Status SyncFolder(const std::filesystem::path& folder);

// Opens a file with open(2), with O_CLOEXEC added to `flags`. On failure, stores errno in
// `error_number` unless that is null.
absl::StatusOr<base::Descriptor> OpenFile(const std::filesystem::path& path, int flags,
                                          int* error_number = nullptr);

// Returns UNAVAILABLE when `path` no longer names the open file: it was removed or replaced.
absl::Status CheckInPlace(const base::Descriptor& file, const std::filesystem::path& path);

// ---- Locks ----

// Returns UNAVAILABLE, with the folder and the user of this process, when the user has no
// permission to read the folder. Returns OK when the folder does not exist.
absl::Status CheckReadable(const StoreFiles& files);

// Both functions below return FAILED_PRECONDITION, reason ports::kStoreLocked, when another process
// holds a conflicting lock. A lock is held as long as the returned file is open.

// Takes an exclusive lock. Creates no file other than the lock.
absl::StatusOr<base::Descriptor> LockToWrite(const StoreFiles& files);

// Takes a shared lock, which excludes LockToWrite(). Returns no file, and takes no lock, when the
// lock file does not exist and cannot be created because this process cannot write to the folder;
// for example, to an archived checkpoint. A lock file that exists but cannot be opened is an error.
// When permission is missing, the error is that of CheckReadable().
absl::StatusOr<base::Descriptor> LockToRead(const StoreFiles& files);

// The sequence number of the last committed write, in a separate file. RocksDB treats a lost newest
// log as an ordinary end of the data; comparing its last sequence with this file detects the loss.
//
// The file has two slots. Advance() overwrites one slot until a background thread has synced it, at
// most about a second later; then the other slot is used. An interrupted write therefore leaves one
// slot intact. After a crash the recorded sequence may be lower than the last committed one, never
// higher.
//
// One thread at a time may call Advance().
class HighWater {
 public:
  struct Slot {
    // Position in the file: 0 or 1.
    size_t index = 0;
    // The slot with the higher counter is the valid one.
    uint64_t counter = 0;
    uint64_t sequence = 0;
  };

  // Returns the highest sequence that was written, or null when there is no file. Returns DATA_LOSS
  // when both slots are damaged.
  static absl::StatusOr<std::optional<uint64_t>> Read(const std::filesystem::path& path);
  // Creates or replaces the file atomically; the new file survives a crash of the machine.
  static absl::Status Create(const std::filesystem::path& path, uint64_t sequence);
  // REQUIRES: Read() finds a sequence.
  static absl::StatusOr<std::unique_ptr<HighWater>> Open(const std::filesystem::path& path);

  // Syncs the last write.
  ~HighWater();

  // Records `sequence`. Returns UNAVAILABLE when the file was removed or replaced: then the store's
  // other files are gone too. REQUIRES: the write with this sequence is synced, and `sequence` is
  // not below the one of the last call.
  absl::Status Advance(uint64_t sequence);

 private:
  HighWater(std::string path, base::Descriptor file, const Slot& newest);

  // Writes `slot_` to the file. The other slot stays intact if the write is interrupted.
  // REQUIRES: no sync is running.
  absl::Status Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunSyncLoop();
  // Waits until there is a write to sync and the sync interval has passed. Returns false when the
  // object is being destroyed and nothing is left to sync.
  bool WaitForSync();
  void FinishSync(const absl::Status& status);

  // Constant after construction.
  const std::string path_;
  const base::Descriptor file_;

  base::Mutex mutex_;
  base::CondVar changed_;
  // The content of the slot that is not synced yet. While a sync is running it is only held here,
  // and written when the sync has finished.
  Slot slot_ ABSL_GUARDED_BY(mutex_);
  std::string slot_text_ ABSL_GUARDED_BY(mutex_);
  bool unsynced_ ABSL_GUARDED_BY(mutex_) = false;
  bool syncing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // The first failure. The content of the disk is unknown from then on, so every later call fails.
  absl::Status status_ ABSL_GUARDED_BY(mutex_);

  std::thread syncer_;
};

}  // namespace callboard::store

#endif  // CALLBOARD_LIBS_STORE_STORE_FILES_H_
