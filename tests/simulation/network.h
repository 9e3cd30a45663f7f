#ifndef CALLBOARD_TESTS_SIMULATION_NETWORK_H_
#define CALLBOARD_TESTS_SIMULATION_NETWORK_H_

#include <functional>
#include <set>
#include <utility>

#include "absl/time/time.h"
#include "libs/testing/fake_environment.h"
#include "tests/simulation/settings.h"
#include "tests/simulation/timeline.h"

namespace callboard::simulation {

// An endpoint of the network: 0 is the director, then come the agents, then the callers.
using Address = int;
inline constexpr Address kDirector = 0;

// Carries single messages. It may lose, repeat, delay and so reorder them, and one direction
// between two endpoints may be cut while the other still works.
class Network {
 public:
  Network(const Settings& settings, Timeline& timeline, test::FakeRandom& random)
      : settings_(settings), timeline_(timeline), random_(random) {}

  void Send(Address from, Address to, std::function<void()> deliver,
            absl::Duration hold_up = absl::ZeroDuration()) {
    if (!quiet_ && (cut_.contains({from, to}) || random_.Chance(settings_.lost))) return;
    int copies = 1;
    if (!quiet_ && random_.Chance(settings_.repeated)) ++copies;
    for (int i = 0; i < copies; ++i) {
      absl::Duration delay = hold_up + absl::Microseconds(random_.Below(5000));
      if (!quiet_ && random_.Chance(settings_.held_up)) {
        delay += absl::Milliseconds(random_.Below(60'000));
      }
      timeline_.After(delay, [this, from, to, deliver] {
        if (quiet_ || !cut_.contains({from, to})) deliver();
      });
    }
  }

  void Cut(Address from, Address to) { cut_.emplace(from, to); }
  void Heal(Address from, Address to) { cut_.erase({from, to}); }
  bool IsCutBetween(Address a, Address b) const {
    return !quiet_ && (cut_.contains({a, b}) || cut_.contains({b, a}));
  }
  // Delivers every message from now on.
  void BecomeQuiet() { quiet_ = true; }

 private:
  const Settings& settings_;
  Timeline& timeline_;
  test::FakeRandom& random_;
  bool quiet_ = false;
  std::set<std::pair<Address, Address>> cut_;
};

}  // namespace callboard::simulation

#endif  // CALLBOARD_TESTS_SIMULATION_NETWORK_H_
