#include "libs/server/error_detail_interceptor.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/base/version.h"
#include "libs/wire/status.h"

namespace callboard::server {
namespace {

using grpc::experimental::InterceptionHookPoints;

class ErrorDetailInterceptor final : public grpc::experimental::Interceptor {
 public:
  explicit ErrorDetailInterceptor(const char* method) : method_(method) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
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
    return absl::UnimplementedError(absl::StrCat(
        absl::StripPrefix(method_, "/"), " is not part of this version (", base::kVersion, ")"));
  }

  // gRPC's; outlives the call.
  const char* const method_;
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
