#include "tests/e2e/mortal_scheduler.h"

#include <signal.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/testing/files.h"
#include "libs/testing/running_server.h"
#include "tests/e2e/eventually.h"
#include "tests/integration/scheduler_client.h"

namespace callboard::e2e {
namespace {

constexpr absl::Duration kTimeout = absl::Minutes(1);

struct CatchUp {
  const char* name;
  const char* value;
};
constexpr CatchUp kCatchUps[] = {{"latest", "latest"}, {"none", "none"}, {"all", "{all: 100}"}};

std::vector<std::string> Command(const crash::Disk& disk, const std::string& jobs_file,
                                 const std::string& director_address) {
  std::vector<std::string> command = {"/usr/bin/env"};
  for (const std::string& variable : disk.environment()) command.push_back(variable);
  for (const std::string& word : test::ServerCommand(
           test::kScheduler, {absl::StrCat("--data_dir=", disk.data_dir().string()),
                              absl::StrCat("--jobs_file=", jobs_file),
                              absl::StrCat("--director.address=", director_address)})) {
    command.push_back(word);
  }
  return command;
}

}  // namespace

MortalScheduler::MortalScheduler(const std::string& name, const std::string& director_address)
    : disk_(test::NewFolder()), member_(Command(disk_, jobs_file(), director_address)) {
  for (const CatchUp& catch_up : kCatchUps) {
    records_.push_back({.job = absl::StrCat(name, "-", catch_up.name), .first = {}, .rows = {}});
  }
}

void MortalScheduler::WriteJobs(const std::string& more) const {
  std::ofstream file(jobs_file());
  file << "jobs:\n";
  for (size_t i = 0; i < records_.size(); ++i) {
    file << "- {name: " << records_[i].job
         << ", schedule: '* * * * * *', seconds: true, prompt: echo, overlap: allow, catch_up: "
         << kCatchUps[i].value << more << "}\n";
  }
}

void MortalScheduler::Begin() {
  WriteJobs("");
  const absl::Time before = clock_.WallNow();
  member_.Start();
  test::SchedulerClient client(member_.address());
  for (Record& record : records_) {
    const int64_t next = client.Get(record.job)->next_fires(0).seconds();
    record.first = {before, absl::FromUnixSeconds(next)};
  }
}

uint64_t MortalScheduler::Arm(const KillPoint& point) {
  const uint64_t call = disk_.calls() + point.calls;
  disk_.DieAt(call, point.death);
  return call;
}

void MortalScheduler::Die(const KillPoint& point) {
  uint64_t call = 0;
  if (point.from_its_start) {
    CHECK(!member_.is_alive());
    call = Arm(point);
    member_.TryStart();
  } else {
    if (!member_.is_alive()) Revive();
    call = Arm(point);
  }
  CHECK(WaitUntilTrue(kTimeout, [&] {
    if (!member_.is_alive()) return true;
    // The scheduler has already passed this call.
    if (disk_.calls() >= call) call = Arm(point);
    return false;
  }));
  CHECK_EQ(member_.WaitForEnd(), 128 + SIGKILL);
  ++deaths_[disk_.Log().back().action];
  const absl::Time now = clock_.WallNow();
  const absl::Time next = absl::FromUnixSeconds(absl::ToUnixSeconds(now) + 1);
  if (point.stays_away) LetTimePass(next - now);
}

void MortalScheduler::Revive() {
  disk_.DieAt(0, crash::DeathTime::kBefore);
  member_.Start();
}

void MortalScheduler::End() {
  end_ = absl::FromUnixSeconds(absl::ToUnixSeconds(clock_.WallNow()) + 1);
  WriteJobs(absl::StrCat(", end: '",
                         absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", end_, absl::UTCTimeZone()), "'"));
  Revive();
  test::SchedulerClient client(member_.address());
  CHECK(WaitUntilTrue(kTimeout, [&] {
    const v1::SchedulerStatus status = client.Status();
    return !status.has_next_fire_at() && status.overdue().seconds() == 0 &&
           status.overdue().nanos() == 0;
  })) << member_.process().Output();
  for (Record& record : records_) record.rows = client.Firings(record.job);
  CHECK_EQ(member_.Terminate(), 0);
}

}  // namespace callboard::e2e
