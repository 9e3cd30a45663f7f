#ifndef CALLBOARD_LIBS_TESTING_FAKE_RANDOM_H_
#define CALLBOARD_LIBS_TESTING_FAKE_RANDOM_H_

#include <cstdint>

#include "libs/ports/random.h"

namespace callboard::test {

// Chance that is the same in every run with the same seed (SplitMix64). Not thread-safe.
class FakeRandom final : public ports::Random {
 public:
  explicit FakeRandom(uint64_t seed = 1) : state_(seed) {}

  uint64_t Next() override {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t mixed = state_;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
  }

  // A number from 0 to `bound` - 1. REQUIRES: bound > 0.
  uint64_t Below(uint64_t bound) { return Next() % bound; }
  // True with the given probability.
  bool Chance(double probability) {
    return static_cast<double>(Next() >> 11) * 0x1.0p-53 < probability;
  }

 private:
  uint64_t state_;
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_FAKE_RANDOM_H_
