#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_ROCKSDB_STORE_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_ROCKSDB_STORE_H_

#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "libs/adapters/rocksdb_store/store_error.h"
#include "libs/adapters/rocksdb_store/store_files.h"
#include "libs/ports/event_store.h"

namespace callboard::adapters {

struct RocksDbOptions {
  // Exists. docs/FORMAT.md says what is in it.
  std::filesystem::path data_dir;
};

// The events in RocksDB. While the object lives no other process opens the store.
class RocksDbStores final : public ports::EventStoreOpener {
 public:
  // FAILED_PRECONDITION, reason ports::kStoreLocked, when another one has the folder. Creates
  // nothing but the lock.
  static absl::StatusOr<std::unique_ptr<RocksDbStores>> Lock(const RocksDbOptions& options);

  // Finishes a restore that was interrupted (store_swap.h). Creates the store if there is none; for
  // reading, or after an earlier opening, that is NOT_FOUND. UNAVAILABLE when the lock was removed.
  // With the reason ports::kStoreRefused, and nothing changed on disk: DATA_LOSS when something
  // committed is missing or damaged (where opening does not look, Load() does);
  // FAILED_PRECONDITION when a newer version wrote it.
  absl::StatusOr<std::unique_ptr<ports::EventStore>> Open(ports::StoreAccess access) override;

 private:
  RocksDbStores(StoreFiles files, File lock);

  const StoreFiles files_;
  const File lock_;
  bool has_opened_ = false;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_ROCKSDB_STORE_H_
