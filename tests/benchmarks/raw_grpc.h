#ifndef CALLBOARD_TESTS_BENCHMARKS_RAW_GRPC_H_
#define CALLBOARD_TESTS_BENCHMARKS_RAW_GRPC_H_

#include <cstddef>
#include <memory>
#include <string>

#include "libs/ports/clock.h"
#include "tests/benchmarks/calls.h"

namespace callboard::benchmarks {

// What a call or an item carries.
inline constexpr size_t kPayloadBytes = 256;

// gRPC with nothing behind it, in a process of its own.
class RawGrpc {
 public:
  // `clock` outlives it.
  explicit RawGrpc(const ports::Clock& clock);
  ~RawGrpc();

  // host:port; takes spans, too.
  const std::string& address() const;

  Callers::Call Call();
  double CallsPerSecond(int outstanding);
  // One item per message.
  double ItemsPerSecond(int window);

 private:
  struct Server;

  const ports::Clock& clock_;
  const std::unique_ptr<Server> server_;
};

}  // namespace callboard::benchmarks

#endif  // CALLBOARD_TESTS_BENCHMARKS_RAW_GRPC_H_
