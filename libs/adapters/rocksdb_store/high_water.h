#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_HIGH_WATER_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_HIGH_WATER_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/adapters/rocksdb_store/store_files.h"
#include "libs/base/mutex.h"

namespace callboard::adapters {

// How far a store has come, in a file of its own: RocksDB takes the loss of its newest log for an
// ordinary end, and this tells it apart.
//
// The file has two slots. One is written until it is synced, a second later at the latest, and then
// the other: what is cut short leaves one whole. After a crash the file may say less than was
// committed, never more.
//
// Advance() has one caller at a time.
class HighWater {
 public:
  struct Slot {
    // Which of the two.
    size_t index = 0;
    // The slot with the higher one counts.
    uint64_t counter = 0;
    uint64_t sequence = 0;
  };

  // The highest sequence that was written; null when there is no file. DATA_LOSS when neither slot
  // is whole.
  static absl::StatusOr<std::optional<uint64_t>> Read(const std::filesystem::path& path);
  // Puts a file in place, whole or not at all; it survives a crash of the machine.
  static absl::Status Create(const std::filesystem::path& path, uint64_t sequence);
  // REQUIRES: Read() finds a sequence.
  static absl::StatusOr<std::unique_ptr<HighWater>> Open(const std::filesystem::path& path);

  // Puts what was written on the disk.
  ~HighWater();

  // UNAVAILABLE when the file was removed or replaced: then the store's other files are gone too.
  // REQUIRES: `sequence` is on the disk, and not below the last one.
  absl::Status Advance(uint64_t sequence);

 private:
  HighWater(std::string path, File file, const Slot& newest);

  // Writes where nothing is lost if it is cut short. REQUIRES: no sync is under way.
  absl::Status Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SyncUntilClosed();
  // Waits until there is something to sync, and then until it is time; returns false at the end.
  bool AwaitSync();
  void EndSync(const absl::Status& status);

  // Constant after construction.
  const std::string path_;
  const File file_;

  base::Mutex mutex_;
  base::CondVar changed_;
  // What the slot that is not synced says, or will say when the sync under way has ended.
  Slot slot_ ABSL_GUARDED_BY(mutex_);
  std::string slot_text_ ABSL_GUARDED_BY(mutex_);
  bool unsynced_ ABSL_GUARDED_BY(mutex_) = false;
  bool syncing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // The first failure: what is on the disk is unknown from then on.
  absl::Status status_ ABSL_GUARDED_BY(mutex_);

  std::thread syncer_;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_HIGH_WATER_H_
