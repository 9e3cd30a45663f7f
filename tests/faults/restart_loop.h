#ifndef CALLBOARD_TESTS_FAULTS_RESTART_LOOP_H_
#define CALLBOARD_TESTS_FAULTS_RESTART_LOOP_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/time/time.h"
#include "tests/crash/history_checker.h"

namespace callboard::faults {

struct RestartReport {
  uint64_t kills = 0;
  // What the last director shows, and after every submit was made once more.
  crash::Verdict found = {};
  crash::Verdict asked_again = {};
  // What went wrong beside that; empty when nothing did.
  std::string failure = {};

  bool ok() const { return failure.empty() && found.ok() && asked_again.ok(); }
  std::string ToString() const;
};

// Kills a director on `folder` so often, each within `life_max` of its start or of the moment that
// it listens, with clients that submit and cancel all the time. The one that comes last stays.
RestartReport RestartAgainAndAgain(const std::filesystem::path& folder, uint64_t kills,
                                   absl::Duration life_max);

}  // namespace callboard::faults

#endif  // CALLBOARD_TESTS_FAULTS_RESTART_LOOP_H_
