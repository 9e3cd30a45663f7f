#include "tests/benchmarks/raw_grpc.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/testing/process.h"
#include "probe.grpc.pb.h"

namespace callboard::benchmarks {

using test::v1::ProbeRequest;
using test::v1::ProbeResponse;
using test::v1::ProbeService;

struct RawGrpc::Server {
  test::Process process{{test::BuiltBinary("tests/benchmarks/raw_server")}};
  const std::string address =
      absl::StrCat("127.0.0.1:", test::FieldOf(process.WaitForLine("port="), "port"));
  std::unique_ptr<ProbeService::Stub> stub =
      ProbeService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
};

RawGrpc::RawGrpc(const ports::Clock& clock) : clock_(clock), server_(new Server) {}

RawGrpc::~RawGrpc() = default;

const std::string& RawGrpc::address() const { return server_->address; }

Callers::Call RawGrpc::Call() {
  ProbeRequest request;
  request.set_name(std::string(kPayloadBytes, 'x'));
  return UnaryCall<ProbeRequest, ProbeResponse>(
      std::move(request), [&stub = *server_->stub](auto&&... arguments) {
        stub.async()->Hold(std::forward<decltype(arguments)>(arguments)...);
      });
}

double RawGrpc::CpuSeconds() const {
  return absl::ToDoubleSeconds(test::ProcessorTimeOf(getpid()) +
                               test::ProcessorTimeOf(server_->process.pid()));
}

Rate RawGrpc::MeasureCalls(int outstanding, const Timing& timing) {
  Meter meter;
  Callers callers(outstanding, Call(), meter);
  return MeasureRate(
      clock_, timing, [&] { return meter.count(); }, [&] { return CpuSeconds(); });
}

Rate RawGrpc::MeasureItems(int window, const Timing& timing) {
  Meter meter;
  const auto fill = [](ProbeRequest& request, int) {
    request.set_name(std::string(kPayloadBytes, 'x'));
  };
  Streamer<ProbeRequest, ProbeResponse> streamer(
      [this](auto... arguments) { server_->stub->async()->HoldBidi(arguments...); },
      {.window = window, .fill = fill, .answered = [](const ProbeResponse&) { return 1; }}, meter);
  return MeasureRate(
      clock_, timing, [&] { return meter.count(); }, [&] { return CpuSeconds(); });
}

}  // namespace callboard::benchmarks
