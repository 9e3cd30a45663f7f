#ifndef CALLBOARD_LIBS_ADAPTERS_JOBS_FILE_JOBS_FILE_H_
#define CALLBOARD_LIBS_ADAPTERS_JOBS_FILE_JOBS_FILE_H_

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
#include "libs/ports/clock.h"

namespace callboard::adapters {

// Differs when a file is another one, or was written; all zero when there is none.
struct FileStamp {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  absl::Time written = {};
  absl::Time changed = {};

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

// Decides when a file that is looked at again and again is read: when two looks, a look period
// apart, find the same, and not what was read before.
class StillnessCheck {
 public:
  // A look a whole period after the last one: whether to read the file now.
  bool ShouldRead(const FileStamp& now) {
    const bool is_still = has_looked_ && now == last_;
    has_looked_ = true;
    last_ = now;
    if (!is_still || (has_read_ && now == read_)) return false;
    has_read_ = true;
    read_ = now;
    return true;
  }
  // A look at any time, from which on the file is to be read also unchanged: as soon as the next
  // look finds the same. The look before may have been a moment ago and says nothing.
  void Restart(const FileStamp& now) {
    has_looked_ = true;
    last_ = now;
    has_read_ = false;
  }

 private:
  bool has_looked_ = false;
  FileStamp last_;
  bool has_read_ = false;
  FileStamp read_;
};

// A file of cron jobs, which is read again whenever it changes.
//
// Looks at the file itself, by its path, again and again: editors put a new one in its place,
// Kubernetes turns a link around, and some file systems tell nobody. What is just being written is
// left alone until it has been still for a moment. A version that is wrong, or gone, is refused,
// and the one before stays.
//
// Thread-safe.
class JobsFile {
 public:
  // Gets the jobs of each version that is taken; the first before Open() returns, the others on a
  // thread of the file's.
  using OnJobs = std::function<void(std::vector<core::Job>)>;

  struct State {
    // When the newest version was read, and why it is not in use; empty when it is.
    absl::Time read_at = {};
    std::string error = {};
  };

  // How often it is looked at. It is read when two looks in a row find it unchanged, and so at the
  // earliest this long after it was written.
  static constexpr absl::Duration kLookPeriod = absl::Milliseconds(200);
  // How many looks Open() waits for that.
  static constexpr int kFirstLooksMax = 50;
  static constexpr size_t kBytesMax = 64 << 20;

  // `clock` outlives it. The error of the file when it cannot be read, is wrong, or is being
  // written all the time.
  static absl::StatusOr<std::unique_ptr<JobsFile>> Open(const std::string& path,
                                                        const ports::Clock& clock, OnJobs on_jobs,
                                                        absl::Duration look_period = kLookPeriod);
  ~JobsFile();
  JobsFile(const JobsFile&) = delete;
  JobsFile& operator=(const JobsFile&) = delete;

  // Reads it as soon as it is still, whether or not it looks changed: a look period from now at the
  // earliest.
  void Reload();

  const std::string& path() const { return path_; }
  State state() const;

 private:
  JobsFile(const std::string& path, const ports::Clock& clock, OnJobs on_jobs,
           absl::Duration look_period);

  void Run();
  // Waits until two looks in a row find the same.
  absl::Status AwaitStillness();
  // Takes what is there now.
  absl::Status Read();
  void ReadAndTell();

  const std::string path_;
  const ports::Clock& clock_;
  const OnJobs on_jobs_;
  const absl::Duration look_period_;

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool reload_ ABSL_GUARDED_BY(mutex_) = false;
  State state_ ABSL_GUARDED_BY(mutex_);

  // Of whoever reads: Open(), and then the thread. What was read last; nothing of a file that could
  // not be.
  std::optional<std::string> text_;
  std::thread thread_;
};

// The jobs of a file, as a scheduler would read them. The error names the line.
absl::StatusOr<std::vector<core::Job>> ReadJobsFile(const std::string& path);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_JOBS_FILE_JOBS_FILE_H_
