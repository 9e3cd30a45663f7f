// What goes wrong with a store, as errors that say what to do.
#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORE_ERROR_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORE_ERROR_H_

#include <rocksdb/status.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace callboard::adapters {

// DATA_LOSS, with the reason ports::kStoreRefused.
absl::Status StoreRefused(absl::string_view message);

// Of a system call. RESOURCE_EXHAUSTED when the disk is full, else UNAVAILABLE.
absl::Status FileError(int error_number, absl::string_view path);

// As FileError(), and StoreRefused() when a file is damaged or missing: that will not pass.
// REQUIRES: !status.ok().
absl::Status FromRocksDb(const rocksdb::Status& status);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORE_ERROR_H_
