#include "libs/adapters/rocksdb_store/filled_log.h"

#include <fcntl.h>
#include <rocksdb/file_system.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "libs/adapters/rocksdb_store/store_files.h"

namespace callboard::adapters {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

// Of zeros at once: seldom enough to cost nothing, and few enough to hold up one commit only a
// little.
constexpr size_t kFilledBytes = 1 << 20;

// Not thread-safe, as RocksDB's own.
class FilledLog final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FilledLog(std::unique_ptr<rocksdb::FSWritableFile> log, File file)
      : FSWritableFileOwnerWrapper(std::move(log)), file_(std::move(file)) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* context) override {
    FillFor(data.size());
    return target()->Append(data, options, context);
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& verification,
                  IODebugContext* context) override {
    FillFor(data.size());
    return target()->Append(data, options, verification, context);
  }
  IOStatus Close(const IOOptions& options, IODebugContext* context) override {
    const auto size = static_cast<off_t>(target()->GetFileSize(options, context));
    const IOStatus closed = target()->Close(options, context);
    // What is left over if this fails is no worse than what a crash leaves.
    if (filled_ > size && ftruncate(file_.descriptor(), size) == 0) filled_ = size;
    return closed;
  }

 private:
  // Before so many bytes are appended.
  void FillFor(size_t bytes) {
    appended_ += static_cast<off_t>(bytes);
    if (has_no_room_ || appended_ <= filled_) return;
    static const std::string zeros(kFilledBytes, '\0');
    const ssize_t written = pwrite(file_.descriptor(), zeros.data(), zeros.size(), appended_);
    has_no_room_ = written != static_cast<ssize_t>(zeros.size());
    filled_ = appended_ + std::max<ssize_t>(written, 0);
  }

  // The same file, to write where RocksDB does not.
  const File file_;
  off_t appended_ = 0;
  // Up to where there are zeros, or were.
  off_t filled_ = 0;
  // Once the disk did not take them.
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
    absl::StatusOr<File> file = File::Open(path, O_WRONLY);
    if (file.ok()) *result = std::make_unique<FilledLog>(std::move(*result), *std::move(file));
    return opened;
  }
};

}  // namespace

rocksdb::Env& FilledLogEnv() {
  static rocksdb::Env& env =
      *rocksdb::NewCompositeEnv(std::make_shared<FilledLogFileSystem>()).release();
  return env;
}

}  // namespace callboard::adapters
