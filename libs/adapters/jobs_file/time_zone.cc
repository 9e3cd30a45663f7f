#include "libs/adapters/jobs_file/time_zone.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/text.h"

namespace callboard::adapters {
namespace {

// Abseil also takes paths of files, and names that mean the zone of the machine.
bool IsZoneName(const std::string& name) {
  return name != "localtime" && absl::ascii_isalpha(static_cast<unsigned char>(name.front())) &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || absl::StrContains("/_+-", static_cast<char>(c));
         });
}

}  // namespace

absl::StatusOr<absl::TimeZone> LoadZone(const std::string& name) {
  absl::TimeZone zone = absl::UTCTimeZone();
  if (name.empty() || (IsZoneName(name) && absl::LoadTimeZone(name, &zone))) return zone;
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", base::Echoed(name), "\" is no time zone of the IANA database, as Europe/Berlin is"));
}

}  // namespace callboard::adapters
