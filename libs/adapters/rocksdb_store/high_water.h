#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_HIGH_WATER_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_HIGH_WATER_H_

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
// The file has two slots, written in turn, so that a write cut short leaves the other one whole. A
// write reaches the disk a second later at the latest: after a crash the file may say less than was
// committed, never more.
//
// Advance() has one caller at a time.
class HighWater {
 public:
  // The highest sequence that was written; null when there is no file. DATA_LOSS when neither slot
  // is whole.
  static absl::StatusOr<std::optional<uint64_t>> Read(const std::filesystem::path& path);
  // Puts a file in place, whole or not at all; it survives a crash of the machine.
  static absl::Status Create(const std::filesystem::path& path, uint64_t sequence);
  // REQUIRES: Read() finds a sequence.
  static absl::StatusOr<std::unique_ptr<HighWater>> Open(const std::filesystem::path& path);

  // Puts what was written on the disk.
  ~HighWater();

  // REQUIRES: `sequence` is on the disk, and not below the last one.
  absl::Status Advance(uint64_t sequence);

 private:
  HighWater(std::string path, File file, uint64_t counter);

  void SyncUntilClosed();
  // Waits until there is something to sync, and then until it is time; returns false at the end.
  bool AwaitSync();

  // Constant after construction.
  const std::string path_;
  const File file_;

  // Of the slot written last. Touched by Advance() only.
  uint64_t counter_;
  std::string slot_;

  base::Mutex mutex_;
  base::CondVar changed_;
  bool unsynced_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // The first failure of a sync: what is on the disk is unknown from then on.
  absl::Status sync_status_ ABSL_GUARDED_BY(mutex_);

  std::thread syncer_;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_HIGH_WATER_H_
