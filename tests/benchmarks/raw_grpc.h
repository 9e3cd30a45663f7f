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
  // Processor time is that of both sides.
  Rate MeasureCalls(int outstanding, const Timing& timing);
  // One item per message.
  Rate MeasureItems(int window, const Timing& timing);

 private:
  struct Server;

  // Processor time of this process and the server so far.
  double CpuSeconds() const;

  const ports::Clock& clock_;
  const std::unique_ptr<Server> server_;
};

}  // namespace callboard::benchmarks

#endif  // CALLBOARD_TESTS_BENCHMARKS_RAW_GRPC_H_
