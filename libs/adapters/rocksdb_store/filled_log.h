#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_FILLED_LOG_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_FILLED_LOG_H_

#include <rocksdb/env.h>

namespace callboard::adapters {

// RocksDB's usual world, but for its write-ahead logs: these are filled with zeros a good way ahead
// of what is written. A sync of bytes that take the place of others is one write; where the file
// grows by them, the file system has to commit its own journal as well.
//
// A log that is closed ends with its last record. One that a crash leaves behind ends in zeros,
// which RocksDB reads as no record. A disk without room for zeros does without.
//
// Lives as long as the process.
rocksdb::Env& FilledLogEnv();

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_FILLED_LOG_H_
