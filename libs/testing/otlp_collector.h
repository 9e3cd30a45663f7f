#ifndef CALLBOARD_LIBS_TESTING_OTLP_COLLECTOR_H_
#define CALLBOARD_LIBS_TESTING_OTLP_COLLECTOR_H_

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/base/mutex.h"

namespace callboard::test {

// A span as it arrived, and its sender.
struct ReceivedSpan {
  opentelemetry::proto::trace::v1::Span span;
  // The text attributes of the sender: service.name and others.
  std::map<std::string, std::string> resource;
  // The metadata of the export call.
  std::map<std::string, std::string> headers;
};

// An OpenTelemetry collector inside the test, on 127.0.0.1. Thread-safe.
class OtlpCollector {
 public:
  // Listens on `port`, or on a free port if it is 0.
  explicit OtlpCollector(uint16_t port = 0,
                         const std::shared_ptr<grpc::ServerCredentials>& credentials =
                             grpc::InsecureServerCredentials());
  // Answers the calls that are still held.
  ~OtlpCollector();
  OtlpCollector(const OtlpCollector&) = delete;
  OtlpCollector& operator=(const OtlpCollector&) = delete;

  // host:port, for telemetry.otlp_endpoint.
  const std::string& address() const { return address_; }

  // Accepts calls from now on and does not answer them.
  void Hold();
  // Rejects calls from now on, as an overloaded collector does.
  void Fail();
  // Answers the held calls and all later calls.
  void Release();

  // Waits until there are `count` spans or `deadline` has passed. Returns all spans of answered
  // calls, in order of arrival.
  std::vector<ReceivedSpan> WaitForSpans(size_t count, absl::Duration deadline);

 private:
  class Service;

  const std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_OTLP_COLLECTOR_H_
