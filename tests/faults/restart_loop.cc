#include "tests/faults/restart_loop.h"

#include <signal.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/process.h"
#include "libs/testing/running_server.h"
#include "tests/crash/director_process.h"
#include "tests/crash/load.h"
#include "tests/crash/queue_client.h"
#include "tests/faults/steady_load.h"

namespace callboard::faults {
namespace {

using crash::Call;
using crash::DirectorProcess;

class RestartLoop {
 public:
  RestartLoop(std::filesystem::path folder, absl::Duration life_max)
      : folder_(std::move(folder)), life_max_(life_max) {}

  RestartReport Run(uint64_t kills) {
    std::optional<DirectorProcess> director(std::in_place, folder_, flags_);
    if (!IsUp(*director)) return std::move(report_);
    // The next directors listen at the address of the first one.
    flags_.push_back("--grpc.listen=" + director->address());
    SteadyLoad load({}, director->address());
    load.AwaitAcknowledged(1);
    while (report_.kills < kills && report_.failure.empty()) {
      // One in three is killed before it listens.
      const bool is_ready = report_.kills % 3 != 2;
      if (is_ready) KillLater(director->process());
      director.reset();
      if (!is_ready) KillAtStart();
      director.emplace(folder_, flags_);
      if (!IsUp(*director)) return std::move(report_);
    }
    load.AwaitAcknowledged(1);
    Check(*director, load);
    return std::move(report_);
  }

 private:
  bool IsUp(DirectorProcess& director) {
    if (director.is_listening()) return true;
    report_.failure = absl::StrCat("did not start after ", report_.kills,
                                   " kills: ", director.process().Output());
    return false;
  }

  void KillLater(test::Process& process) {
    const auto life = static_cast<int64_t>(
        random_.Below(static_cast<uint64_t>(absl::ToInt64Milliseconds(life_max_))));
    if (process.WaitForExit(absl::Milliseconds(life)).has_value()) {
      report_.failure = absl::StrCat("ended by itself: ", process.Output());
      return;
    }
    process.Signal(SIGKILL);
    process.WaitForExit(absl::Minutes(1));
    ++report_.kills;
  }

  void KillAtStart() {
    std::vector<std::string> flags = flags_;
    flags.push_back("--data_dir=" + folder_.string());
    test::Process process(test::ServerCommand("services/director/callboard-director", flags));
    KillLater(process);
  }

  void Check(DirectorProcess& director, SteadyLoad& load) {
    crash::History history = load.Stop();
    crash::QueueClient client(director.address());
    report_.found = crash::CheckHistory(history, *client.FindAll());
    std::map<std::string, Call> submits;
    for (const Call& call : history) {
      if (call.kind == Call::Kind::kSubmit) submits.emplace(call.request_id, call);
    }
    for (const auto& [id, call] : submits) {
      history.push_back(crash::Resubmit(call, client, [&load] { return load.Tick(); }));
    }
    report_.resubmitted = crash::CheckHistory(history, *client.FindAll());
    if (director.Stop() != 0) report_.failure = director.process().Output();
  }

  const std::filesystem::path folder_;
  const absl::Duration life_max_;
  std::vector<std::string> flags_ = {"--queue.max_size=0"};
  test::FakeRandom random_{1};
  RestartReport report_;
};

}  // namespace

std::string RestartReport::ToString() const {
  return absl::StrCat(kills, " kills; found: ", found.ToString(),
                      "; resubmitted: ", resubmitted.ToString(), failure.empty() ? "" : "\n",
                      failure);
}

RestartReport KillRepeatedly(const std::filesystem::path& folder, uint64_t kills,
                             absl::Duration life_max) {
  return RestartLoop(folder, life_max).Run(kills);
}

}  // namespace callboard::faults
