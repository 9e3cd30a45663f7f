#ifndef CALLBOARD_LIBS_TESTING_DRIVER_FLOW_H_
#define CALLBOARD_LIBS_TESTING_DRIVER_FLOW_H_

#include "libs/director/driver.h"
#include "libs/flow/flow.h"
#include "libs/flow/thread_pool.h"
#include "libs/ports/clock.h"

namespace callboard::test {

// The lanes of a director's driver, on two threads for reads. `clock` outlives them.
class DriverFlow {
 public:
  explicit DriverFlow(const ports::Clock& clock, const director::DriverOptions& options = {})
      // On one token, which nothing may wait for with another in hand.
      : flow_({.lanes = director::DriverLanes(/*reads_at_once=*/2, options),
               .tokens = flow::Tokens{.cpu = 1, .io = 1, .memory = 1}},
              pool_, clock) {}

  flow::Flow& flow() { return flow_; }

 private:
  flow::ThreadPool pool_{3};
  flow::Flow flow_;
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_DRIVER_FLOW_H_
