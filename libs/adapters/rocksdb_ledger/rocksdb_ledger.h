#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_LEDGER_ROCKSDB_LEDGER_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_LEDGER_ROCKSDB_LEDGER_H_

#include <cstdint>
#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "libs/adapters/rocksdb_store/store_files.h"
#include "libs/scheduler/ledger.h"

namespace callboard::adapters {

// The version of keys and values that is written. All up to it are read.
inline constexpr uint32_t kLedgerFormat = 2;

// The ledger in RocksDB. While the object lives no other process opens it.
class RocksDbLedgers final : public scheduler::LedgerOpener {
 public:
  // `data_dir` exists; docs/FORMAT.md says what is in it. FAILED_PRECONDITION, reason
  // ports::kStoreLocked, when another one has it. Creates nothing but the lock.
  static absl::StatusOr<std::unique_ptr<RocksDbLedgers>> Lock(
      const std::filesystem::path& data_dir);

  // Creates the ledger if there is none; after an earlier opening that is NOT_FOUND. UNAVAILABLE
  // when the lock was removed. With the reason ports::kStoreRefused, and nothing changed
  // on disk: DATA_LOSS when something committed is missing or damaged, FAILED_PRECONDITION when a
  // newer version wrote it.
  absl::StatusOr<std::unique_ptr<scheduler::Ledger>> Open() override;

 private:
  RocksDbLedgers(StoreFiles files, File lock);

  const StoreFiles files_;
  const File lock_;
  bool has_opened_ = false;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_LEDGER_ROCKSDB_LEDGER_H_
