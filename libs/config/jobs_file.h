// The jobs file of a scheduler: parsed, and read again when it changes.

#ifndef CALLBOARD_LIBS_CONFIG_JOBS_FILE_H_
#define CALLBOARD_LIBS_CONFIG_JOBS_FILE_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/core/job.h"
#include "libs/ports/environment.h"

namespace callboard::config {

// Parses the cron jobs in `text`, whose format docs/JOBS.md describes. Each job is checked, and the
// names are distinct.
//
// Returns INVALID_ARGUMENT for invalid YAML, an unknown key (the error names the most similar one),
// a repeated key, and an invalid value. The error has the form `path:line: job nightly: what is
// wrong`. It contains no value that may be a prompt or a secret.
absl::StatusOr<std::vector<core::Job>> ReadJobs(const std::string& text, const std::string& path);
// Reads the jobs of a file once. The error names the line.
absl::StatusOr<std::vector<core::Job>> ReadJobsFile(const std::string& path);

// Changes when a file is replaced or written. All zero if there is no file.
struct FileStamp {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  absl::Time written = {};
  absl::Time changed = {};

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

// Decides when to read a file that is checked periodically: when two checks, one period apart, find
// the same stamp, and it differs from that of the version that was read last.
class StabilityCheck {
 public:
  // A periodic check, at least one period after the previous one. Returns whether to read the file
  // now.
  bool ShouldRead(const FileStamp& now) {
    const bool is_stable = has_last_ && now == last_;
    has_last_ = true;
    last_ = now;
    if (!is_stable || (has_read_ && now == read_)) return false;
    has_read_ = true;
    read_ = now;
    return true;
  }
  // A check at any time. The file will be read, even if it is unchanged, as soon as the next check
  // finds the same stamp. The previous check does not count, because it may have been just before.
  void Restart(const FileStamp& now) {
    has_last_ = true;
    last_ = now;
    has_read_ = false;
  }

 private:
  bool has_last_ = false;
  FileStamp last_;
  bool has_read_ = false;
  FileStamp read_;
};

// A file of cron jobs, which is read again whenever it changes.
//
// Checks the stamp of the path periodically. Notifications are not enough: editors replace the
// file, Kubernetes switches a symbolic link, and some file systems send no notifications. A file
// that is being written is read only after it has been stable for one period. If the new version is
// invalid or missing, the jobs of the previous version stay in use.
//
// Thread-safe.
class JobsFile {
 public:
  // Receives the jobs of each valid version: the first one before Open() returns, later ones on the
  // thread of the JobsFile.
  using OnJobs = std::function<void(std::vector<core::Job>)>;

  struct State {
    // When the newest version was read, and why it is not in use. `error` is empty if it is in use.
    absl::Time read_at = {};
    std::string error = {};
  };

  // The time between two checks. The file is read when two checks in a row find the same stamp, so
  // not earlier than this time after the last write.
  static constexpr absl::Duration kCheckPeriod = absl::Milliseconds(200);
  // Checks after which Open() gives up waiting for a stable file.
  static constexpr int kFirstChecksMax = 50;
  static constexpr size_t kBytesMax = 64 << 20;

  // Reads the file and starts the thread. Returns an error if the file cannot be read, is invalid,
  // or does not become stable. `clock` outlives the JobsFile.
  static absl::StatusOr<std::unique_ptr<JobsFile>> Open(const std::string& path,
                                                        const ports::Clock& clock, OnJobs on_jobs,
                                                        absl::Duration check_period = kCheckPeriod);
  ~JobsFile();
  JobsFile(const JobsFile&) = delete;
  JobsFile& operator=(const JobsFile&) = delete;

  // Reads the file as soon as it is stable, even if it is unchanged. This takes at least one check
  // period.
  void Reload();

  const std::string& path() const { return path_; }
  State state() const;

 private:
  JobsFile(const std::string& path, const ports::Clock& clock, OnJobs on_jobs,
           absl::Duration check_period);

  void Run();
  // Waits until two checks in a row find the same stamp.
  absl::Status WaitUntilStable();
  // Reads the file and, if it has changed, passes its jobs on.
  absl::Status Read();
  void ReadAndReport();

  const std::string path_;
  const ports::Clock& clock_;
  const OnJobs on_jobs_;
  const absl::Duration check_period_;

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool reload_ ABSL_GUARDED_BY(mutex_) = false;
  State state_ ABSL_GUARDED_BY(mutex_);

  // Used by Open() and then by thread_ only. The text that was read last; absent if the file could
  // not be read.
  std::optional<std::string> text_;
  std::thread thread_;
};

// Loads a time zone of the IANA database; UTC if `name` is empty. Never returns the zone of this
// machine. Returns INVALID_ARGUMENT for any other name.
absl::StatusOr<absl::TimeZone> LoadZone(const std::string& name);

}  // namespace callboard::config

#endif  // CALLBOARD_LIBS_CONFIG_JOBS_FILE_H_
