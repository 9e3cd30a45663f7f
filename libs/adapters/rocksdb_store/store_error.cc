#include "libs/adapters/rocksdb_store/store_error.h"

#include <cerrno>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/ports/event_store.h"

namespace callboard::adapters {

absl::Status StoreRefused(absl::string_view message) {
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
  return will_not_pass ? StoreRefused(message) : absl::UnavailableError(message);
}

}  // namespace callboard::adapters
