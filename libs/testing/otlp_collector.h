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

// A span as it arrived, and who sent it.
struct ReceivedSpan {
  opentelemetry::proto::trace::v1::Span span;
  // The sender's attributes that are text: service.name and others.
  std::map<std::string, std::string> resource;
  // Of the call that brought it.
  std::map<std::string, std::string> headers;
};

// An OpenTelemetry collector inside the test, on 127.0.0.1. Thread-safe.
class OtlpCollector {
 public:
  // On a free port, unless one is given.
  explicit OtlpCollector(uint16_t port = 0,
                         const std::shared_ptr<grpc::ServerCredentials>& credentials =
                             grpc::InsecureServerCredentials());
  // Answers what is still held.
  ~OtlpCollector();
  OtlpCollector(const OtlpCollector&) = delete;
  OtlpCollector& operator=(const OtlpCollector&) = delete;

  // host:port, for telemetry.otlp_endpoint.
  const std::string& address() const { return address_; }

  // From now on takes calls and does not answer them.
  void Hold();
  // From now on refuses them, as one that is overloaded does.
  void Fail();
  // Answers all calls again, those that are held too.
  void Release();

  // All spans of answered calls, in order of arrival: once there are `count`, or when `deadline`
  // has passed.
  std::vector<ReceivedSpan> WaitForSpans(size_t count, absl::Duration deadline);

 private:
  class Service;

  const std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_OTLP_COLLECTOR_H_
