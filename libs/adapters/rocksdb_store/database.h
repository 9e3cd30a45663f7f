// RocksDB, opened as this store needs it.
#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_DATABASE_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_DATABASE_H_

#include <rocksdb/db.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace callboard::adapters {

struct ReadOnlyDatabase {
  std::unique_ptr<rocksdb::DB> db;
  // What RocksDB had to say about the files, as what it dropped from the end of a log.
  std::vector<std::string> complaints;
};

// Changes nothing on disk.
absl::StatusOr<ReadOnlyDatabase> OpenToRead(const std::filesystem::path& folder);

// Does not say again what OpenToRead() of the same folder said. Warnings of later go to the log.
absl::StatusOr<std::unique_ptr<rocksdb::DB>> OpenToWrite(const std::filesystem::path& folder);

// An empty one, in a folder that does not exist yet.
absl::StatusOr<std::unique_ptr<rocksdb::DB>> CreateDatabase(const std::filesystem::path& folder);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_DATABASE_H_
