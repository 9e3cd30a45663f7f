// RocksDB as this store uses it: opening, errors and encodings.

#ifndef CALLBOARD_LIBS_STORE_DATABASE_H_
#define CALLBOARD_LIBS_STORE_DATABASE_H_

#include <rocksdb/db.h>
#include <rocksdb/slice.h>
#include <rocksdb/status.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace callboard::store {

// ---- Encodings and slices ----

// Numbers are encoded as 8 bytes whose order is that of the numbers.
inline constexpr size_t kNumberBytes = 8;

inline void AppendBigEndian(uint64_t number, std::string& bytes) {
  char digits[kNumberBytes];
  for (size_t i = 0; i < kNumberBytes; ++i) {
    digits[i] = static_cast<char>(number >> 8 * (kNumberBytes - 1 - i));
  }
  bytes.append(digits, kNumberBytes);
}

// Decodes the first 8 bytes. REQUIRES: bytes.size() >= kNumberBytes.
inline uint64_t ReadBigEndian(absl::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < kNumberBytes; ++i) number = number << 8 | static_cast<uint8_t>(bytes[i]);
  return number;
}

inline absl::string_view ToView(const rocksdb::Slice& slice) {
  return {slice.data(), slice.size()};
}
inline rocksdb::Slice ToSlice(absl::string_view text) { return {text.data(), text.size()}; }

// ---- Errors, with the codes that tell callers what to do ----

// Returns a DATA_LOSS error with the reason ports::kStoreRefused.
absl::Status StoreRefusedError(absl::string_view message);

// Converts the errno of a failed system call: RESOURCE_EXHAUSTED when the disk is full, else
// UNAVAILABLE.
absl::Status FileError(int error_number, absl::string_view path);

// Converts an error of RocksDB: StoreRefusedError() when a file is damaged or missing, because a
// retry cannot succeed; else the same codes as FileError(). REQUIRES: !status.ok().
absl::Status FromRocksDb(const rocksdb::Status& status);

// ---- Opening ----

struct ReadOnlyDatabase {
  std::unique_ptr<rocksdb::DB> db;
  // Warnings that RocksDB logged while it opened the files; for example, that it dropped bytes from
  // the end of a log.
  std::vector<std::string> warnings;
};

// Opens the database for reading. Changes nothing on disk.
absl::StatusOr<ReadOnlyDatabase> OpenReadOnly(const std::filesystem::path& folder);

// Opens the database for reading and writing. Drops the warnings of the opening, because
// OpenReadOnly() of the same folder returns them; later warnings go to the log.
absl::StatusOr<std::unique_ptr<rocksdb::DB>> OpenReadWrite(const std::filesystem::path& folder);

// Creates an empty database in a folder that does not exist yet.
absl::StatusOr<std::unique_ptr<rocksdb::DB>> CreateDatabase(const std::filesystem::path& folder);

}  // namespace callboard::store

#endif  // CALLBOARD_LIBS_STORE_DATABASE_H_
