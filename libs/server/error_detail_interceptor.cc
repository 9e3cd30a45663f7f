#include "libs/server/error_detail_interceptor.h"

#include <google/protobuf/descriptor.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "libs/base/text.h"
#include "libs/base/version.h"
#include "libs/wire/parse.h"
#include "libs/wire/status.h"

namespace callboard::server {
namespace {

using grpc::experimental::InterceptionHookPoints;

// The type of the request of a method that is served, as in /callboard.v1.QueueService/GetTask.
const google::protobuf::Descriptor* RequestOf(absl::string_view method) {
  const auto* const known = google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
      absl::StrReplaceAll(absl::StripPrefix(method, "/"), {{"/", "."}}));
  return known == nullptr ? nullptr : known->input_type();
}

class ErrorDetailInterceptor final : public grpc::experimental::Interceptor {
 public:
  explicit ErrorDetailInterceptor(const char* method) : method_(method) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    // Of a method that takes one request. In a stream of them null is also their end.
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE) &&
        methods->GetRecvMessage() == nullptr) {
      const google::protobuf::Descriptor* const request = RequestOf(method_);
      if (request != nullptr) parse_error_ = wire::ParseError(*request);
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      if (!status.ok() && status.error_details().empty()) {
        methods->ModifySendStatus(wire::ToGrpc(Explained(wire::FromGrpc(status))));
      }
    }
    methods->Proceed();
  }

 private:
  absl::Status Explained(const absl::Status& error) const {
    if (!absl::IsUnimplemented(error) || !error.message().empty()) return error;
    // gRPC answers a request that does not parse as it does one to a method that nobody serves.
    if (!parse_error_.ok()) return parse_error_;
    return absl::UnimplementedError(absl::StrCat(base::Echoed(absl::StripPrefix(method_, "/")),
                                                 " is not part of this version (", base::kVersion,
                                                 ")"));
  }

  // gRPC's; outlives the call.
  const char* const method_;
  absl::Status parse_error_;
};

class ErrorDetailInterceptorFactory final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return new ErrorDetailInterceptor(info->method());
  }
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
NewErrorDetailInterceptorFactory() {
  return std::make_unique<ErrorDetailInterceptorFactory>();
}

}  // namespace callboard::server
