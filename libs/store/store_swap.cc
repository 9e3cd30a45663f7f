#include "libs/store/store_swap.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "libs/base/error.h"
#include "libs/store/database.h"

namespace callboard::store {
namespace {

constexpr absl::string_view kReadyPrefix = "restored-";
constexpr absl::string_view kAsidePrefix = "damaged-";
constexpr absl::string_view kTimeFormat = "%Y%m%dT%H%M%E6SZ";

// Whether the text has the shape of kTimeFormat.
bool IsTime(absl::string_view text) {
  constexpr absl::string_view kShape = "00000000T000000.000000Z";
  return text.size() == kShape.size() &&
         std::equal(text.begin(), text.end(), kShape.begin(), [](char given, char wanted) {
           return wanted == '0' ? absl::ascii_isdigit(given) : given == wanted;
         });
}

absl::Status RunHook(const StepHook& before_step) {
  return before_step ? before_step() : absl::OkStatus();
}

// Returns the files to which the old store is moved when `ready` replaces it.
StoreFiles AsideFiles(const StoreFiles& files, const std::filesystem::path& ready) {
  const std::string time = ready.filename().string().substr(kReadyPrefix.size());
  return {files.folder / absl::StrCat(kAsidePrefix, time)};
}

absl::Status Move(const std::filesystem::path& from, const std::filesystem::path& to) {
  RETURN_IF_ERROR(Rename(from, to));
  RETURN_IF_ERROR(SyncFolder(to.parent_path()));
  return SyncFolder(from.parent_path());
}

// Moves `place` to `aside`, and `ready` to `place`. Skips the steps that an interrupted call did.
absl::Status Replace(const std::filesystem::path& ready, const std::filesystem::path& place,
                     const std::filesystem::path& aside, const StepHook& before_step) {
  ASSIGN_OR_RETURN(const bool is_ready, Exists(ready));
  if (!is_ready) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool is_taken, Exists(place));
  if (is_taken) {
    RETURN_IF_ERROR(CreateFolders(aside.parent_path()));
    RETURN_IF_ERROR(RunHook(before_step));
    RETURN_IF_ERROR(Move(place, aside));
  }
  RETURN_IF_ERROR(RunHook(before_step));
  return Move(ready, place);
}

}  // namespace

absl::StatusOr<std::optional<std::filesystem::path>> FindInterruptedRestore(
    const StoreFiles& files) {
  ASSIGN_OR_RETURN(const bool exists, Exists(files.folder));
  if (!exists) return std::nullopt;
  std::error_code error;
  for (auto file = std::filesystem::directory_iterator(files.folder, error);
       !error && file != std::filesystem::directory_iterator(); file.increment(error)) {
    const std::string name = file->path().filename().string();
    absl::string_view rest = name;
    if (absl::ConsumePrefix(&rest, kReadyPrefix) && IsTime(rest) && file->is_directory(error)) {
      return file->path();
    }
  }
  if (error) return FileError(error.value(), files.folder.string());
  return std::nullopt;
}

absl::Status FinishSwap(const StoreFiles& files, const StepHook& before_step) {
  ASSIGN_OR_RETURN(const std::optional<std::filesystem::path> found, FindInterruptedRestore(files));
  if (!found.has_value()) return absl::OkStatus();
  const StoreFiles ready = {*found};
  const StoreFiles aside = AsideFiles(files, *found);
  RETURN_IF_ERROR(Replace(ready.events(), files.events(), aside.events(), before_step));
  RETURN_IF_ERROR(Replace(ready.high_water(), files.high_water(), aside.high_water(), before_step));
  RETURN_IF_ERROR(RunHook(before_step));
  std::error_code error;
  std::filesystem::remove(ready.folder, error);
  if (error) return FileError(error.value(), ready.folder.string());
  return SyncFolder(files.folder);
}

absl::StatusOr<std::filesystem::path> SwapStores(const StoreFiles& files, absl::Time now,
                                                 const StepHook& before_step) {
  const std::string time = absl::FormatTime(kTimeFormat, now, absl::UTCTimeZone());
  const std::filesystem::path ready = files.folder / absl::StrCat(kReadyPrefix, time);
  RETURN_IF_ERROR(RunHook(before_step));
  RETURN_IF_ERROR(Move(files.restoring(), ready));
  RETURN_IF_ERROR(FinishSwap(files, before_step));
  const std::filesystem::path aside = AsideFiles(files, ready).folder;
  ASSIGN_OR_RETURN(const bool has_old, Exists(aside));
  return has_old ? aside : std::filesystem::path();
}

}  // namespace callboard::store
