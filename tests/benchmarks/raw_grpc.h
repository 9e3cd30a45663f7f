#ifndef CALLBOARD_TESTS_BENCHMARKS_RAW_GRPC_H_
#define CALLBOARD_TESTS_BENCHMARKS_RAW_GRPC_H_

#include <cstddef>
#include <memory>
#include <string>

#include "libs/ports/environment.h"
#include "tests/benchmarks/calls.h"

namespace callboard::benchmarks {

// Payload of a call or an item.
inline constexpr size_t kPayloadBytes = 256;

// Bare gRPC in a separate process.
class RawGrpc {
 public:
  // `clock` must outlive this object.
  explicit RawGrpc(const ports::Clock& clock);
  ~RawGrpc();

  // host:port; also accepts spans.
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
