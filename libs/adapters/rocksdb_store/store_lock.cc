#include "libs/adapters/rocksdb_store/store_lock.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/adapters/rocksdb_store/store_error.h"
#include "libs/base/error.h"
#include "libs/base/status_macros.h"
#include "libs/ports/event_store.h"

namespace callboard::adapters {
namespace {

absl::Status TakeLock(const File& file, int kind, const StoreFiles& files) {
  if (flock(file.descriptor(), kind | LOCK_NB) == 0) return absl::OkStatus();
  if (errno != EWOULDBLOCK) return FileError(errno, files.lock().string());
  // The command looks at directors' folders only.
  const bool has_command = files.owner == StoreFiles::kDirector;
  return base::WithReason(absl::FailedPreconditionError(
                              absl::StrCat("another ", files.owner, " uses ", files.folder.string(),
                                           has_command ? ", or `callboard db` does" : "")),
                          ports::kStoreLocked);
}

bool ForbidsWriting(int error_number) {
  return error_number == EROFS || error_number == EACCES || error_number == EPERM;
}

// `what` reads on from the folder's name: "cannot be read by".
absl::Status NotAllowed(const StoreFiles& files, absl::string_view what, const absl::Status& error,
                        absl::string_view next_step) {
  const uid_t user = geteuid();
  const passwd* entry = getpwuid(user);
  return absl::UnavailableError(absl::StrCat("data_dir '", files.folder.string(), "' ", what,
                                             " user ", entry == nullptr ? "" : entry->pw_name,
                                             " (uid ", user, "): ", error.message(), "; ",
                                             next_step));
}

absl::Status NotWritable(const StoreFiles& files, const absl::Status& error) {
  return NotAllowed(files, "cannot be written to by", error,
                    absl::StrCat("give the folder to that user, start the ", files.owner,
                                 " as the folder's owner, or name another data_dir"));
}

absl::Status NotReadable(const StoreFiles& files, const absl::Status& error) {
  return NotAllowed(files, "cannot be read by", error,
                    "run the command as the folder's owner, or name another data_dir");
}

}  // namespace

absl::StatusOr<File> LockToWrite(const StoreFiles& files) {
  int error_number = 0;
  absl::StatusOr<File> file = File::Open(files.lock(), O_RDWR | O_CREAT, &error_number);
  if (ForbidsWriting(error_number)) return NotWritable(files, file.status());
  if (!file.ok()) return file.status();
  RETURN_IF_ERROR(TakeLock(*file, LOCK_EX, files));
  return *std::move(file);
}

absl::Status CheckReadable(const StoreFiles& files) {
  int error_number = 0;
  // With "." the folder has to be searchable too.
  const auto opened = File::Open(files.folder / ".", O_RDONLY | O_DIRECTORY, &error_number);
  if (opened.ok() || error_number != EACCES) return absl::OkStatus();
  return NotReadable(files, FileError(error_number, files.folder.string()));
}

absl::StatusOr<std::optional<File>> LockToRead(const StoreFiles& files) {
  ASSIGN_OR_RETURN(const bool exists, Exists(files.lock()));
  int error_number = 0;
  absl::StatusOr<File> file =
      File::Open(files.lock(), exists ? O_RDONLY : O_RDONLY | O_CREAT, &error_number);
  if (!exists && ForbidsWriting(error_number)) return std::nullopt;
  if (error_number == EACCES) return NotReadable(files, file.status());
  if (!file.ok()) return file.status();
  RETURN_IF_ERROR(TakeLock(*file, LOCK_SH, files));
  return *std::move(file);
}

}  // namespace callboard::adapters
