#ifndef CALLBOARD_LIBS_STORE_ROCKSDB_STORE_H_
#define CALLBOARD_LIBS_STORE_ROCKSDB_STORE_H_

#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "libs/base/files.h"
#include "libs/ports/event_store.h"
#include "libs/store/store_files.h"

namespace callboard::store {

struct RocksDbOptions {
  // The data folder, which must exist. docs/FORMAT.md describes its files.
  std::filesystem::path data_dir;
};

// Opens the event store in RocksDB. Holds the lock of the data folder: while the object lives, no
// other process can open the store for writing.
class RocksDbStoreOpener final : public ports::EventStoreOpener {
 public:
  // Locks the data folder. Returns FAILED_PRECONDITION, reason ports::kStoreLocked, when another
  // process holds the lock. Creates no file other than the lock.
  static absl::StatusOr<std::unique_ptr<RocksDbStoreOpener>> Lock(const RocksDbOptions& options);

  // Finishes an interrupted restore (store_swap.h), then opens the store. When there is no store,
  // creates one; but returns NOT_FOUND when `access` is read-only, or when this object has opened
  // the store before. Returns UNAVAILABLE when the lock file was removed.
  //
  // These errors have the reason ports::kStoreRefused and leave the disk unchanged: DATA_LOSS when
  // committed data is missing or damaged (Load() checks the parts that Open() does not read);
  // FAILED_PRECONDITION when a newer version wrote the store.
  absl::StatusOr<std::unique_ptr<ports::EventStore>> Open(ports::StoreAccess access) override;

 private:
  RocksDbStoreOpener(StoreFiles files, base::Descriptor lock);

  const StoreFiles files_;
  const base::Descriptor lock_;
  bool has_opened_ = false;
};

}  // namespace callboard::store

#endif  // CALLBOARD_LIBS_STORE_ROCKSDB_STORE_H_
