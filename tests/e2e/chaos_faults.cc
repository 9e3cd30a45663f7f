#include "tests/e2e/chaos_faults.h"

#include <algorithm>
#include <future>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/e2e/eventually.h"

namespace callboard::e2e {
namespace {

using test::TcpProxy;
using Direction = TcpProxy::Direction;
using Flow = TcpProxy::Flow;

// The pause between two faults.
constexpr absl::Duration kPauseMin = absl::Milliseconds(300);
constexpr absl::Duration kPauseMax = absl::Milliseconds(1700);
// The longest time that a part is stopped or cut off: often longer than a lease.
constexpr absl::Duration kLongest = absl::Seconds(15);
constexpr absl::Duration kTryAgain = absl::Milliseconds(200);
// The time in which every part must recover.
constexpr absl::Duration kHealWithin = absl::Minutes(1);
// A director that cannot use its disk may exit with this code, and must be started again.
constexpr int kTryLater = 1;

// Returns the exit code and the last output.
std::string HowItEnded(ServerProcess& member) {
  const std::string output = member.process().Output();
  return absl::StrCat("ended with ", member.WaitForEnd(), ":\n",
                      output.substr(output.size() - std::min<size_t>(output.size(), 4000)));
}

}  // namespace

ChaosFaults::ChaosFaults(Cluster& cluster, crash::Disk& disk, crash::SmallDisk* small_disk,
                         uint64_t seed, std::ostream& log)
    : cluster_(cluster), disk_(disk), small_disk_(small_disk), random_(seed), log_(log) {
  parts_.push_back(
      {.name = "the director's disk",
       .start_fault = [this](Part& part, Random random) { return DiskFault(part, random); }});
  const auto add = [this](const std::string& name, ServerProcess& member) {
    parts_.push_back({.name = absl::StrCat(name, "'s network"),
                      .start_fault = [this, &member](Part& part, Random random) {
                        return NetworkFault(part, member.network(), random);
                      }});
    parts_.push_back({.name = name,
                      .member = &member,
                      .start_fault = [this, &member](Part& part, Random random) {
                        return ProcessFault(part, member, random);
                      }});
  };
  add("the director", cluster.director());
  for (size_t i = 1; i <= cluster.agents(); ++i) add(absl::StrCat("agent-", i), cluster.agent(i));
}

void ChaosFaults::Run(absl::Duration time) {
  absl::Duration next = begin_;
  WaitUntilTrue(time, [&] {
    const absl::Duration now = clock_.MonotonicNow();
    HealUntil(now);
    CheckMembers();
    if (now < next) return false;
    next = now + kPauseMin + (kPauseMax - kPauseMin) * (random_.Below(1000) / 1000.0);
    Part& part = parts_[random_.Below(parts_.size())];
    const Random random(random_.Next());
    // The seed determines the next part; a part with an active fault is skipped.
    if (part.heal != nullptr) return false;
    ++faults_;
    Log(absl::StrCat(part.name, " ", part.start_fault(part, random)));
    return false;
  });
}

void ChaosFaults::Heal() {
  const bool all_well = WaitUntilTrue(kHealWithin, [this] {
    HealUntil(absl::InfiniteDuration());
    return std::all_of(parts_.begin(), parts_.end(),
                       [](const Part& part) { return part.heal == nullptr; });
  });
  for (const Part& part : parts_) {
    if (!all_well && part.heal != nullptr) deaths_.push_back(part.name + " cannot be healed");
  }
  Log("all faults have ended");
}

void ChaosFaults::HealUntil(absl::Duration until) {
  for (Part& part : parts_) {
    if (part.heal == nullptr || part.heal_at > until) continue;
    if (part.heal()) {
      part.heal = nullptr;
    } else {
      part.heal_at = clock_.MonotonicNow() + kTryAgain;
    }
  }
}

void ChaosFaults::CheckMembers() {
  for (Part& part : parts_) {
    if (part.member == nullptr || part.heal != nullptr || part.member->is_alive()) continue;
    deaths_.push_back(absl::StrCat(part.name, " ", HowItEnded(*part.member)));
    Log(absl::StrCat(
        part.name, " ended unexpectedly and is restarted",
        StartFault(part, absl::ZeroDuration(), RestartAfterFault(part, *part.member))));
  }
}

std::string ChaosFaults::StartFault(Part& part, absl::Duration time,
                                    std::function<bool()> heal) const {
  part.heal = std::move(heal);
  part.heal_at = clock_.MonotonicNow() + time;
  return absl::StrFormat(" for %.1f s", absl::ToDoubleSeconds(time));
}

// The start may depend on other parts that are still broken.
std::function<bool()> ChaosFaults::RestartAfterFault(const Part& part, ServerProcess& member) {
  auto starting = std::make_shared<std::future<bool>>();
  return [this, name = part.name, &member, starting] {
    if (!starting->valid()) {
      *starting = std::async(std::launch::async, [&member] { return member.TryStart(); });
    }
    if (starting->wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
    if (starting->get()) return true;
    if (member.WaitForEnd() == kTryLater) {
      Log(name + " could not start");
    } else {
      deaths_.push_back(absl::StrCat(name, " ", HowItEnded(member)));
    }
    return false;
  };
}

std::string ChaosFaults::ProcessFault(Part& part, ServerProcess& member, Random random) {
  const uint64_t kind = random.Below(10);
  if (kind < 4) {
    const absl::Duration time = kLongest * (random.Below(1000) / 1000.0);
    member.Freeze();
    return "is stopped" + StartFault(part, time, [&member] {
             member.Thaw();
             return true;
           });
  }
  const absl::Duration time = absl::Seconds(3) * (random.Below(1000) / 1000.0);
  if (kind < 7 || &member != &cluster_.director()) {
    member.Kill();
    return "is killed and away" + StartFault(part, time, RestartAfterFault(part, member));
  }
  const uint64_t calls = 1 + random.Below(60);
  const uint64_t die_at = disk_.calls() + calls;
  disk_.DieAt(die_at, static_cast<crash::DeathTime>(random.Below(3)));
  return absl::StrCat("will die in ", calls, " calls,",
                      StartFault(part, time,
                                 [this, &member, die_at, revive = RestartAfterFault(part, member),
                                  dead = false]() mutable {
                                   if (dead) return revive();
                                   disk_.DieAt(0, crash::DeathTime::kBefore);
                                   // The director may be about to die.
                                   const absl::Duration timeout = disk_.calls() < die_at
                                                                      ? absl::ZeroDuration()
                                                                      : absl::Seconds(1);
                                   dead = member.process().WaitForExit(timeout).has_value();
                                   return !dead;
                                 }));
}

std::string ChaosFaults::NetworkFault(Part& part, TcpProxy& network, Random random) {
  const uint64_t kind = random.Below(5);
  const absl::Duration time = kLongest * (random.Below(1000) / 1000.0);
  if (kind == 0) {
    network.Cut();
    return "is cut";
  }
  if (kind == 1) {
    network.Accept(false);
    network.Cut();
    return "is gone" + StartFault(part, time, [&network] {
             network.Accept(true);
             return true;
           });
  }
  const bool to_server = kind != 2;
  const bool to_client = kind != 3;
  const Flow flow = random.Chance(0.5) ? Flow::kHeld : Flow::kDropped;
  if (to_server) network.Set(Direction::kToServer, flow);
  if (to_client) network.Set(Direction::kToClient, flow);
  return absl::StrCat(flow == Flow::kHeld ? "holds" : "drops", " what goes ", to_server ? "in" : "",
                      to_server && to_client ? " and " : "", to_client ? "out" : "",
                      StartFault(part, time, [&network, flow] {
                        network.Set(Direction::kToServer, Flow::kForwarded);
                        network.Set(Direction::kToClient, Flow::kForwarded);
                        // A stream with missing bytes is unusable.
                        if (flow == Flow::kDropped) network.Cut();
                        return true;
                      }));
}

std::string ChaosFaults::DiskFault(Part& part, Random random) {
  const uint64_t kind = random.Below(small_disk_ == nullptr ? 2 : 3);
  const absl::Duration time = absl::Seconds(5) * (random.Below(1000) / 1000.0);
  if (kind == 0) {
    const auto syncs = static_cast<uint32_t>(1 + random.Below(5));
    disk_.control().log_syncs_to_fail = syncs;
    return absl::StrCat("fails ", syncs, " syncs");
  }
  if (kind == 1) {
    const auto delay = static_cast<uint32_t>(20 + random.Below(800));
    disk_.control().sync_delay_ms = delay;
    return absl::StrCat("takes ", delay, " ms for a sync", StartFault(part, time, [this] {
                          disk_.control().sync_delay_ms = 0;
                          return true;
                        }));
  }
  small_disk_->Fill();
  return "is full" + StartFault(part, time, [this] {
           small_disk_->Free();
           return true;
         });
}

void ChaosFaults::Log(const std::string& what) {
  log_ << absl::StreamFormat("%9.3f s  %s\n", absl::ToDoubleSeconds(clock_.MonotonicNow() - begin_),
                             what)
       << std::flush;
}

}  // namespace callboard::e2e
