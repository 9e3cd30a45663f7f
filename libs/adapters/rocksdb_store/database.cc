#include "libs/adapters/rocksdb_store/database.h"

#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <utility>

#include "absl/strings/match.h"
#include "libs/adapters/rocksdb_store/filled_log.h"
#include "libs/adapters/rocksdb_store/record_codec.h"
#include "libs/adapters/rocksdb_store/store_error.h"
#include "libs/base/log.h"
#include "libs/base/mutex.h"

namespace callboard::adapters {
namespace {

// Takes RocksDB's own log, which would end the process when the disk is full, and keeps what
// matters of it: warnings while a database is being opened, and later sends them to our log.
class RocksDbLog final : public rocksdb::Logger {
 public:
  RocksDbLog() : Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}

  using Logger::Logv;
  // Headers, which have no level.
  void Logv(const char*, va_list) override {}
  void Logv(const rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    if (level < rocksdb::InfoLogLevel::WARN_LEVEL || level == rocksdb::InfoLogLevel::HEADER_LEVEL) {
      return;
    }
    // Of every checkpoint, which disables what it has disabled already.
    if (absl::StrContains(format, "File Deletions")) return;
    // Of every look at all checksums, which goes past the list of tables that knows the ids.
    if (absl::StrContains(format, "without unique ID")) return;
    char text[1024];
    std::vsnprintf(text, sizeof(text), format, arguments);
    base::MutexLock lock(mutex_);
    if (opened_) {
      base::LogWarning("store", "rocksdb_message", {{"text", text}});
    } else {
      complaints_.emplace_back(text);
    }
  }

  // Returns what was kept until now.
  std::vector<std::string> SetOpened() {
    base::MutexLock lock(mutex_);
    opened_ = true;
    return std::exchange(complaints_, {});
  }

 private:
  base::Mutex mutex_;
  bool opened_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::string> complaints_ ABSL_GUARDED_BY(mutex_);
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

// Everything is in memory besides, in the engine: RocksDB gets as little as the writes need.
rocksdb::Options DatabaseOptions(std::shared_ptr<RocksDbLog> log) {
  rocksdb::Options options;
  options.info_log = std::move(log);
  // What is torn off the end of the log was never acknowledged; HighWater tells if more is missing.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  options.paranoid_checks = true;
  // A store that failed is opened anew, and does not heal behind our back.
  options.max_bgerror_resume_count = 0;
  // Tables would name the machine.
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
  // Of the records of tasks, which have the same first bytes, most come in close to the last one.
  options.memtable_insert_with_hint_prefix_extractor.reset(
      rocksdb::NewFixedPrefixTransform(kTaskPrefix.size()));
  // One thread commits.
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
  log->SetOpened();
  return std::unique_ptr<rocksdb::DB>(db);
}

}  // namespace

absl::StatusOr<ReadOnlyDatabase> OpenToRead(const std::filesystem::path& folder) {
  const auto log = std::make_shared<RocksDbLog>();
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status =
      rocksdb::DB::OpenForReadOnly(DatabaseOptions(log), folder.string(), &db);
  if (!status.ok()) return FromRocksDb(status);
  return ReadOnlyDatabase{std::unique_ptr<rocksdb::DB>(db), log->SetOpened()};
}

absl::StatusOr<std::unique_ptr<rocksdb::DB>> OpenToWrite(const std::filesystem::path& folder) {
  return OpenWritable(folder, false);
}

absl::StatusOr<std::unique_ptr<rocksdb::DB>> CreateDatabase(const std::filesystem::path& folder) {
  return OpenWritable(folder, true);
}

}  // namespace callboard::adapters
