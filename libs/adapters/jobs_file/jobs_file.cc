#include "libs/adapters/jobs_file/jobs_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/adapters/jobs_file/job_reader.h"
#include "libs/base/descriptor.h"
#include "libs/base/log.h"
#include "libs/base/status_macros.h"

namespace callboard::adapters {
namespace {

absl::Status Unreadable(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat("jobs_file: ", base::SystemError(absl::StrCat("read ", path)).message()));
}

absl::StatusOr<std::string> TextOf(const std::string& path) {
  const base::Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return Unreadable(path);
  std::string text;
  char buffer[1 << 16];
  ssize_t count = 0;
  while ((count = read(file.get(), buffer, sizeof(buffer))) != 0) {
    if (count < 0) return Unreadable(path);
    text.append(buffer, static_cast<size_t>(count));
    if (text.size() > JobsFile::kBytesMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("jobs_file: ", path, " has more than ", JobsFile::kBytesMax >> 20, " MiB"));
    }
  }
  return text;
}

FileStamp StampOf(const std::string& path) {
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) return {};
  return {found.st_dev, found.st_ino, found.st_size, absl::TimeFromTimespec(found.st_mtim),
          absl::TimeFromTimespec(found.st_ctim)};
}

}  // namespace

JobsFile::JobsFile(const std::string& path, const ports::Clock& clock, OnJobs on_jobs,
                   absl::Duration look_period)
    : path_(path), clock_(clock), on_jobs_(std::move(on_jobs)), look_period_(look_period) {}

absl::StatusOr<std::unique_ptr<JobsFile>> JobsFile::Open(const std::string& path,
                                                         const ports::Clock& clock, OnJobs on_jobs,
                                                         absl::Duration look_period) {
  std::unique_ptr<JobsFile> file(new JobsFile(path, clock, std::move(on_jobs), look_period));
  RETURN_IF_ERROR(file->AwaitStillness());
  RETURN_IF_ERROR(file->Read());
  file->thread_ = std::thread([&file = *file] { file.Run(); });
  return file;
}

JobsFile::~JobsFile() {
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void JobsFile::Reload() {
  base::MutexLock lock(mutex_);
  reload_ = true;
  changed_.NotifyAll();
}

JobsFile::State JobsFile::state() const {
  base::MutexLock lock(mutex_);
  return state_;
}

absl::Status JobsFile::AwaitStillness() {
  FileStamp last = StampOf(path_);
  for (int look = 0; look < kFirstLooksMax; ++look) {
    {
      base::MutexLock lock(mutex_);
      changed_.WaitFor(mutex_, look_period_, [] { return false; });
    }
    const FileStamp now = StampOf(path_);
    if (now == last) return absl::OkStatus();
    last = now;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("jobs_file: ", path_, " is being written all the time; try again"));
}

void JobsFile::Run() {
  // It is read once more soon after the start: it may have been written at the very moment of the
  // first time.
  StillnessCheck check;
  while (true) {
    bool reload = false;
    {
      base::MutexLock lock(mutex_);
      changed_.WaitFor(mutex_, look_period_,
                       [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopping_ || reload_; });
      if (stopping_) return;
      reload = std::exchange(reload_, false);
    }
    const FileStamp now = StampOf(path_);
    if (reload) {
      text_.reset();
      check.Restart(now);
    } else if (check.ShouldRead(now)) {
      ReadAndTell();
    }
  }
}

absl::Status JobsFile::Read() {
  absl::StatusOr<std::string> text = TextOf(path_);
  if (!text.ok()) {
    text_.reset();
    return text.status();
  }
  if (*text == text_) return absl::OkStatus();
  text_ = *std::move(text);
  ASSIGN_OR_RETURN(std::vector<core::Job> jobs, ReadJobs(*text_, path_));
  base::LogInfo("jobs_file", "read", {{"path", path_}, {"jobs", jobs.size()}});
  {
    base::MutexLock lock(mutex_);
    state_ = {.read_at = clock_.WallNow()};
  }
  on_jobs_(std::move(jobs));
  return absl::OkStatus();
}

void JobsFile::ReadAndTell() {
  const absl::Status status = Read();
  if (status.ok()) return;
  base::LogWarning("jobs_file", "refused",
                   {{"error", status.message()}, {"next", "the jobs read before stay in use"}});
  base::MutexLock lock(mutex_);
  state_ = {.read_at = clock_.WallNow(), .error = std::string(status.message())};
}

absl::StatusOr<std::vector<core::Job>> ReadJobsFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, TextOf(path));
  return ReadJobs(text, path);
}

}  // namespace callboard::adapters
