#ifndef CALLBOARD_LIBS_TESTING_RUN_ORDERS_H_
#define CALLBOARD_LIBS_TESTING_RUN_ORDERS_H_

#include <memory>
#include <string>
#include <utility>

#include "libs/ports/task_runner.h"

namespace callboard::test {

// The `number`th dispatch of some task.
inline core::FenceToken RunToken(uint64_t number) {
  return {core::QueueId(core::Ulid(1, number)), core::DispatchNumber(1), 7};
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
