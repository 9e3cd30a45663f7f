#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_OPENED_DATABASE_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_OPENED_DATABASE_H_

#include <rocksdb/db.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "libs/adapters/rocksdb_store/high_water.h"
#include "libs/adapters/rocksdb_store/store_files.h"
#include "libs/ports/event_store.h"

namespace callboard::adapters {

struct OpenedDatabase {
  std::unique_ptr<rocksdb::DB> db;
  // Null when it is open for reading only. To be advanced after each write.
  std::unique_ptr<HighWater> high_water;
};

// Opens the database in the folder once it is known that nothing committed is missing from it, and
// that `format` is the newest version of what is in it; opened for writing, an older one is marked
// with it. Creates it if there is none; for reading, that is NOT_FOUND. Refusing changes nothing on
// disk. REQUIRES: the folder is locked.
absl::StatusOr<OpenedDatabase> OpenDatabase(const StoreFiles& files, ports::StoreAccess access,
                                            uint32_t format);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_OPENED_DATABASE_H_
