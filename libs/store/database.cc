#include "libs/store/database.h"

#include <fcntl.h>
#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/base/files.h"
#include "libs/base/log.h"
#include "libs/base/mutex.h"
#include "libs/ports/event_store.h"
#include "libs/store/record_codec.h"

namespace callboard::store {

// ---- Errors -------------------------------------------------------------------------------------

absl::Status StoreRefusedError(absl::string_view message) {
  return base::WithReason(absl::DataLossError(message), ports::kStoreRefused);
}

absl::Status FileError(int error_number, absl::string_view path) {
  const std::string message =
      absl::StrCat(path, ": ", std::generic_category().message(error_number));
  return error_number == ENOSPC || error_number == EDQUOT ? absl::ResourceExhaustedError(message)
                                                          : absl::UnavailableError(message);
}

absl::Status FromRocksDb(const rocksdb::Status& status) {
  const std::string message = status.ToString();
  if (status.IsNoSpace()) return absl::ResourceExhaustedError(message);
  const bool will_not_pass = status.IsCorruption() || status.IsNotFound() ||
                             status.IsPathNotFound() || status.IsInvalidArgument() ||
                             status.IsNotSupported();
  return will_not_pass ? StoreRefusedError(message) : absl::UnavailableError(message);
}

// ---- Write-ahead logs filled with zeros ---------------------------------------------------------

namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

// Zeros that are written at a time: enough that it happens rarely, but few enough not to delay a
// commit much.
constexpr size_t kFilledBytes = 1 << 20;

// A write-ahead log with zeros after its last record. Not thread-safe, like RocksDB's files.
class FilledLog final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FilledLog(std::unique_ptr<rocksdb::FSWritableFile> log, base::Descriptor file)
      : FSWritableFileOwnerWrapper(std::move(log)), file_(std::move(file)) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* context) override {
    FillAhead(data.size());
    return target()->Append(data, options, context);
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& verification,
                  IODebugContext* context) override {
    FillAhead(data.size());
    return target()->Append(data, options, verification, context);
  }
  IOStatus Close(const IOOptions& options, IODebugContext* context) override {
    const auto size = static_cast<off_t>(target()->GetFileSize(options, context));
    const IOStatus closed = target()->Close(options, context);
    // If this fails, the log ends with zeros, as it would after a crash.
    if (filled_ > size && ftruncate(file_.get(), size) == 0) filled_ = size;
    return closed;
  }

 private:
  // Writes zeros after the next `bytes` bytes unless there are enough already.
  void FillAhead(size_t bytes) {
    appended_ += static_cast<off_t>(bytes);
    if (has_no_room_ || appended_ <= filled_) return;
    static const std::string zeros(kFilledBytes, '\0');
    const ssize_t written = pwrite(file_.get(), zeros.data(), zeros.size(), appended_);
    has_no_room_ = written != static_cast<ssize_t>(zeros.size());
    filled_ = appended_ + std::max<ssize_t>(written, 0);
  }

  // A second descriptor of the log, to write zeros after the data of RocksDB.
  const base::Descriptor file_;
  // Number of bytes that RocksDB has appended.
  off_t appended_ = 0;
  // Size of the file, with the zeros.
  off_t filled_ = 0;
  // The disk had no room for zeros. They are not written any more.
  bool has_no_room_ = false;
};

class FilledLogFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  FilledLogFileSystem() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}

  const char* Name() const override { return "FilledLogFileSystem"; }

  IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                           IODebugContext* context) override {
    IOStatus opened = target()->NewWritableFile(path, options, result, context);
    if (!opened.ok() || !absl::EndsWith(path, ".log")) return opened;
    base::Descriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (file.is_open()) {
      *result = std::make_unique<FilledLog>(std::move(*result), std::move(file));
    }
    return opened;
  }
};

// Returns RocksDB's default environment, except that write-ahead logs are filled with zeros ahead
// of the last record. Syncing bytes that overwrite others takes one write; when the file grows, the
// file system has to commit its own journal as well.
//
// A log that was closed ends with its last record. A log that a crash left behind ends with zeros,
// which RocksDB does not read as a record. When the disk has no room for zeros, logs are written
// without them.
//
// The environment lives as long as the process.
rocksdb::Env& FilledLogEnv() {
  static rocksdb::Env& env =
      *rocksdb::NewCompositeEnv(std::make_shared<FilledLogFileSystem>()).release();
  return env;
}

// ---- Opening ------------------------------------------------------------------------------------

// Replaces RocksDB's default info log, which ends the process when the disk is full. Collects the
// warnings of the opening of a database, and writes later warnings to our log. Thread-safe.
class RocksDbLog final : public rocksdb::Logger {
 public:
  RocksDbLog() : Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}

  using Logger::Logv;
  // Drops headers, which have no level.
  void Logv(const char*, va_list) override {}
  void Logv(const rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    if (level < rocksdb::InfoLogLevel::WARN_LEVEL || level == rocksdb::InfoLogLevel::HEADER_LEVEL) {
      return;
    }
    // Every checkpoint logs this harmless warning: it disables file deletions a second time.
    if (absl::StrContains(format, "File Deletions")) return;
    // VerifyChecksum() logs this harmless warning: it does not read the list of tables, which has
    // the ids.
    if (absl::StrContains(format, "without unique ID")) return;
    char text[1024];
    std::vsnprintf(text, sizeof(text), format, arguments);
    base::MutexLock lock(mutex_);
    if (opened_) {
      base::LogWarning("store", "rocksdb_message", {{"text", text}});
    } else {
      warnings_.emplace_back(text);
    }
  }

  // Ends the opening, and returns its warnings.
  std::vector<std::string> FinishOpening() {
    base::MutexLock lock(mutex_);
    opened_ = true;
    return std::exchange(warnings_, {});
  }

 private:
  base::Mutex mutex_;
  bool opened_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::string> warnings_ ABSL_GUARDED_BY(mutex_);
};

bool HasLz4() {
  const std::vector<rocksdb::CompressionType> types = rocksdb::GetSupportedCompressions();
  return std::find(types.begin(), types.end(), rocksdb::kLZ4Compression) != types.end();
}

rocksdb::BlockBasedTableOptions TableOptions() {
  rocksdb::BlockBasedTableOptions options;
  options.block_cache = rocksdb::NewLRUCache(8 << 20);
  options.cache_index_and_filter_blocks = true;
  options.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  return options;
}

// The engine has all data in memory as well, so RocksDB gets no more memory than writing needs.
rocksdb::Options DatabaseOptions(std::shared_ptr<RocksDbLog> log) {
  rocksdb::Options options;
  options.info_log = std::move(log);
  // An incomplete write at the end of the log was never acknowledged. HighWater detects whether
  // more is missing.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  options.paranoid_checks = true;
  // A store that failed is opened again by us; RocksDB must not resume in the background.
  options.max_bgerror_resume_count = 0;
  // Keeps the name of the machine out of the tables.
  options.db_host_id = "";

  options.write_buffer_size = 16 << 20;
  options.max_write_buffer_number = 2;
  options.max_background_jobs = 2;
  options.max_open_files = 128;
  options.max_file_opening_threads = 1;
  options.max_manifest_file_size = 4 << 20;
  options.skip_stats_update_on_db_open = true;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  // Most task records, which share this prefix, are inserted close to the previous one.
  options.memtable_insert_with_hint_prefix_extractor.reset(
      rocksdb::NewFixedPrefixTransform(kTaskPrefix.size()));
  // Only one thread commits.
  options.allow_concurrent_memtable_write = false;
  options.enable_write_thread_adaptive_yield = false;

  options.compression = HasLz4() ? rocksdb::kLZ4Compression : rocksdb::kNoCompression;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(TableOptions()));
  return options;
}

absl::StatusOr<std::unique_ptr<rocksdb::DB>> OpenWritable(const std::filesystem::path& folder,
                                                          bool create) {
  const auto log = std::make_shared<RocksDbLog>();
  rocksdb::Options options = DatabaseOptions(log);
  options.env = &FilledLogEnv();
  options.create_if_missing = create;
  options.error_if_exists = create;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options, folder.string(), &db);
  if (!status.ok()) return FromRocksDb(status);
  log->FinishOpening();
  return std::unique_ptr<rocksdb::DB>(db);
}

}  // namespace

absl::StatusOr<ReadOnlyDatabase> OpenReadOnly(const std::filesystem::path& folder) {
  const auto log = std::make_shared<RocksDbLog>();
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status =
      rocksdb::DB::OpenForReadOnly(DatabaseOptions(log), folder.string(), &db);
  if (!status.ok()) return FromRocksDb(status);
  return ReadOnlyDatabase{std::unique_ptr<rocksdb::DB>(db), log->FinishOpening()};
}

absl::StatusOr<std::unique_ptr<rocksdb::DB>> OpenReadWrite(const std::filesystem::path& folder) {
  return OpenWritable(folder, false);
}

absl::StatusOr<std::unique_ptr<rocksdb::DB>> CreateDatabase(const std::filesystem::path& folder) {
  return OpenWritable(folder, true);
}

}  // namespace callboard::store
