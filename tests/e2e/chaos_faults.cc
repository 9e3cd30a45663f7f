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

// Between two troubles.
constexpr absl::Duration kPauseMin = absl::Milliseconds(300);
constexpr absl::Duration kPauseMax = absl::Milliseconds(1700);
// Of who is stopped or cut off: often longer than a lease.
constexpr absl::Duration kLongest = absl::Seconds(15);
constexpr absl::Duration kTryAgain = absl::Milliseconds(200);
// How long anybody may take to be well again.
constexpr absl::Duration kHealWithin = absl::Minutes(1);
// A director that cannot use its disk may end with this, and has to be started again.
constexpr int kTryLater = 1;

// How it ended, and its last words.
std::string HowItEnded(Member& member) {
  const std::string output = member.process().Output();
  return absl::StrCat("ended with ", member.WaitForEnd(), ":\n",
                      output.substr(output.size() - std::min<size_t>(output.size(), 4000)));
}

}  // namespace

ChaosFaults::ChaosFaults(Cluster& cluster, crash::Disk& disk, crash::SmallDisk* small_disk,
                         uint64_t seed, std::ostream& log)
    : cluster_(cluster), disk_(disk), small_disk_(small_disk), random_(seed), log_(log) {
  parts_.push_back({.name = "the director's disk", .trouble = [this](Part& part, Random random) {
                      return TroubleDisk(part, random);
                    }});
  const auto add = [this](const std::string& name, Member& member) {
    parts_.push_back({.name = absl::StrCat(name, "'s network"),
                      .trouble = [this, &member](Part& part, Random random) {
                        return TroubleNetwork(part, member.network(), random);
                      }});
    parts_.push_back(
        {.name = name, .member = &member, .trouble = [this, &member](Part& part, Random random) {
           return TroubleProcess(part, member, random);
         }});
  };
  add("the director", cluster.director());
  for (size_t i = 1; i <= cluster.agents(); ++i) add(absl::StrCat("agent-", i), cluster.agent(i));
}

void ChaosFaults::Run(absl::Duration time) {
  absl::Duration next = begin_;
  Eventually(time, [&] {
    const absl::Duration now = clock_.MonotonicNow();
    HealDue(now);
    Look();
    if (now < next) return false;
    next = now + kPauseMin + (kPauseMax - kPauseMin) * (random_.Below(1000) / 1000.0);
    Part& part = parts_[random_.Below(parts_.size())];
    const Random random(random_.Next());
    // The seed decides what is next; whose trouble lasts is passed by.
    if (part.heal != nullptr) return false;
    ++faults_;
    Say(absl::StrCat(part.name, " ", part.trouble(part, random)));
    return false;
  });
}

void ChaosFaults::Heal() {
  const bool all_well = Eventually(kHealWithin, [this] {
    HealDue(absl::InfiniteDuration());
    return std::all_of(parts_.begin(), parts_.end(),
                       [](const Part& part) { return part.heal == nullptr; });
  });
  for (const Part& part : parts_) {
    if (!all_well && part.heal != nullptr) deaths_.push_back(part.name + " cannot be healed");
  }
  Say("all is healed");
}

void ChaosFaults::HealDue(absl::Duration until) {
  for (Part& part : parts_) {
    if (part.heal == nullptr || part.heal_at > until) continue;
    if (part.heal()) {
      part.heal = nullptr;
    } else {
      part.heal_at = clock_.MonotonicNow() + kTryAgain;
    }
  }
}

void ChaosFaults::Look() {
  for (Part& part : parts_) {
    if (part.member == nullptr || part.heal != nullptr || part.member->is_alive()) continue;
    deaths_.push_back(absl::StrCat(part.name, " ", HowItEnded(*part.member)));
    Say(absl::StrCat(part.name, " ended by itself, and is started",
                     For(part, absl::ZeroDuration(), Reviving(part, *part.member))));
  }
}

std::string ChaosFaults::For(Part& part, absl::Duration time, std::function<bool()> heal) const {
  part.heal = std::move(heal);
  part.heal_at = clock_.MonotonicNow() + time;
  return absl::StrFormat(" for %.1f s", absl::ToDoubleSeconds(time));
}

// Its start may wait for what others have to heal.
std::function<bool()> ChaosFaults::Reviving(const Part& part, Member& member) {
  auto starting = std::make_shared<std::future<bool>>();
  return [this, name = part.name, &member, starting] {
    if (!starting->valid()) {
      *starting = std::async(std::launch::async, [&member] { return member.TryStart(); });
    }
    if (starting->wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
    if (starting->get()) return true;
    if (member.WaitForEnd() == kTryLater) {
      Say(name + " could not start");
    } else {
      deaths_.push_back(absl::StrCat(name, " ", HowItEnded(member)));
    }
    return false;
  };
}

std::string ChaosFaults::TroubleProcess(Part& part, Member& member, Random random) {
  const uint64_t kind = random.Below(10);
  if (kind < 4) {
    const absl::Duration time = kLongest * (random.Below(1000) / 1000.0);
    member.Freeze();
    return "is stopped" + For(part, time, [&member] {
             member.Thaw();
             return true;
           });
  }
  const absl::Duration time = absl::Seconds(3) * (random.Below(1000) / 1000.0);
  if (kind < 7 || &member != &cluster_.director()) {
    member.Kill();
    return "is killed and away" + For(part, time, Reviving(part, member));
  }
  const uint64_t calls = 1 + random.Below(60);
  const uint64_t die_at = disk_.calls() + calls;
  disk_.DieAt(die_at, static_cast<crash::Death>(random.Below(3)));
  return absl::StrCat(
      "is to die ", calls, " calls from now,",
      For(part, time,
          [this, &member, die_at, revive = Reviving(part, member), dead = false]() mutable {
            if (dead) return revive();
            disk_.DieAt(0, crash::Death::kBefore);
            // It may be about to.
            const absl::Duration patience =
                disk_.calls() < die_at ? absl::ZeroDuration() : absl::Seconds(1);
            dead = member.process().WaitForExit(patience).has_value();
            return !dead;
          }));
}

std::string ChaosFaults::TroubleNetwork(Part& part, TcpProxy& network, Random random) {
  const uint64_t kind = random.Below(5);
  const absl::Duration time = kLongest * (random.Below(1000) / 1000.0);
  if (kind == 0) {
    network.Cut();
    return "is cut";
  }
  if (kind == 1) {
    network.Accept(false);
    network.Cut();
    return "is gone" + For(part, time, [&network] {
             network.Accept(true);
             return true;
           });
  }
  const bool to_server = kind != 2;
  const bool to_client = kind != 3;
  const Flow flow = random.Chance(0.5) ? Flow::kHeld : Flow::kSwallowed;
  if (to_server) network.Set(Direction::kToServer, flow);
  if (to_client) network.Set(Direction::kToClient, flow);
  return absl::StrCat(flow == Flow::kHeld ? "holds" : "swallows", " what goes ",
                      to_server ? "in" : "", to_server && to_client ? " and " : "",
                      to_client ? "out" : "", For(part, time, [&network, flow] {
                        network.Set(Direction::kToServer, Flow::kThrough);
                        network.Set(Direction::kToClient, Flow::kThrough);
                        // Nobody makes sense of a stream with a hole in it.
                        if (flow == Flow::kSwallowed) network.Cut();
                        return true;
                      }));
}

std::string ChaosFaults::TroubleDisk(Part& part, Random random) {
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
    return absl::StrCat("takes ", delay, " ms for a sync", For(part, time, [this] {
                          disk_.control().sync_delay_ms = 0;
                          return true;
                        }));
  }
  small_disk_->Fill();
  return "is full" + For(part, time, [this] {
           small_disk_->Free();
           return true;
         });
}

void ChaosFaults::Say(const std::string& what) {
  log_ << absl::StreamFormat("%9.3f s  %s\n", absl::ToDoubleSeconds(clock_.MonotonicNow() - begin_),
                             what)
       << std::flush;
}

}  // namespace callboard::e2e
