#ifndef CALLBOARD_LIBS_TESTING_RUN_ORDERS_H_
#define CALLBOARD_LIBS_TESTING_RUN_ORDERS_H_

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "libs/ports/task_runner.h"

namespace callboard::test {

// A dispatch that has the same name in no other process: tests that start some run side by side.
inline core::FenceToken RunToken(uint64_t number) {
  return {core::QueueId(core::Ulid(static_cast<uint64_t>(getpid()), number)),
          core::DispatchNumber(1), 7};
}

inline core::TaskSpec SpecOf(std::string prompt) {
  core::TaskSpec spec;
  spec.prompt = std::move(prompt);
  return spec;
}

inline ports::RunOrder RunOrderOf(const core::FenceToken& token, core::TaskSpec spec) {
  return {.token = token,
          .task_id = core::TaskIdText(token.queue_id, token.dispatch),
          .spec = std::make_shared<const core::TaskSpec>(std::move(spec))};
}

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_RUN_ORDERS_H_
