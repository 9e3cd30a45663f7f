#include "libs/adapters/rocksdb_store/store_checks.h"

#include <rocksdb/options.h>

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/adapters/rocksdb_store/high_water.h"
#include "libs/adapters/rocksdb_store/record_codec.h"
#include "libs/adapters/rocksdb_store/slice.h"
#include "libs/adapters/rocksdb_store/store_error.h"
#include "libs/adapters/rocksdb_store/store_swap.h"
#include "libs/base/error.h"
#include "libs/base/status_macros.h"
#include "libs/ports/event_store.h"

namespace callboard::adapters {

absl::Status NoStoreIn(const StoreFiles& files) {
  return absl::NotFoundError(absl::StrCat("there is no store in ", files.folder.string()));
}

absl::Status CheckIsStore(const StoreFiles& files) {
  for (const std::filesystem::path& path : {files.events(), files.high_water()}) {
    ASSIGN_OR_RETURN(const bool exists, Exists(path));
    if (exists) return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::optional<std::filesystem::path> ready, FindReadyStore(files));
  return ready.has_value() ? absl::OkStatus() : NoStoreIn(files);
}

absl::StatusOr<std::optional<uint64_t>> FindHighWater(const StoreFiles& files) {
  ASSIGN_OR_RETURN(const std::optional<uint64_t> high_water, HighWater::Read(files.high_water()));
  ASSIGN_OR_RETURN(const bool has_events, Exists(files.events()));
  if (has_events && high_water.has_value()) return high_water;
  if (has_events) return StoreRefused(absl::StrCat(files.high_water().string(), " is missing"));
  if (high_water.value_or(kBeingCreated) != kBeingCreated) {
    return StoreRefused(absl::StrCat(files.events().string(), " is missing"));
  }
  return std::nullopt;
}

absl::Status CheckComplete(const ReadOnlyDatabase& database, const StoreFiles& files,
                           uint64_t high_water) {
  const uint64_t sequence = database.db->GetLatestSequenceNumber();
  if (sequence >= high_water) return absl::OkStatus();
  std::string what = absl::StrCat(files.events().string(), " ends at sequence ", sequence, ", but ",
                                  files.high_water().string(), " knows of ", high_water, ": ",
                                  high_water - sequence, " committed writes are missing");
  if (!database.complaints.empty()) {
    absl::StrAppend(&what, " (", absl::StrJoin(database.complaints, "; "), ")");
  }
  return StoreRefused(what);
}

absl::StatusOr<uint32_t> ReadFormat(rocksdb::DB& db, const StoreFiles& files, uint32_t newest) {
  std::string text;
  const rocksdb::Status status = db.Get(rocksdb::ReadOptions(), ToSlice(kFormatKey), &text);
  if (!status.ok() && !status.IsNotFound()) return FromRocksDb(status);
  uint32_t format = 0;
  if (!absl::SimpleAtoi(text, &format) || format == 0) {
    return StoreRefused(absl::StrCat(files.events().string(), " does not say its format"));
  }
  if (format > newest) {
    return base::WithReason(absl::FailedPreconditionError(absl::StrCat(
                                files.events().string(), " was written by a newer version (format ",
                                format, "; this version reads up to ", newest, ")")),
                            ports::kStoreRefused);
  }
  return format;
}

absl::Status WithAdvice(const StoreFiles& files, const absl::Status& status) {
  if (status.code() != absl::StatusCode::kDataLoss) return status;
  return StoreRefused(absl::StrCat(status.message(),
                                   "; see `callboard db verify --data_dir=", files.folder.string(),
                                   "`; `callboard db restore` puts a checkpoint in its place"));
}

}  // namespace callboard::adapters
