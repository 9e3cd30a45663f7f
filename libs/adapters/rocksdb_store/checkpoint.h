#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_CHECKPOINT_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_CHECKPOINT_H_

#include <rocksdb/db.h>

#include <string>

#include "absl/status/statusor.h"
#include "libs/adapters/rocksdb_store/store_files.h"
#include "libs/ports/event_store.h"

namespace callboard::adapters {

// Copies the database into a data folder of its own, under `files.checkpoints()`: the whole of it
// or nothing. What an interrupted call left is removed.
//
// ALREADY_EXISTS; INVALID_ARGUMENT for what is no name of a file, begins with a dot, or is longer
// than 128 bytes. REQUIRES: no other call for the same files is under way.
absl::StatusOr<ports::Checkpoint> CreateCheckpoint(rocksdb::DB& db, const StoreFiles& files,
                                                   const std::string& name);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_CHECKPOINT_H_
