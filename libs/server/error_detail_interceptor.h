#ifndef CALLBOARD_LIBS_SERVER_ERROR_DETAIL_INTERCEPTOR_H_
#define CALLBOARD_LIBS_SERVER_ERROR_DETAIL_INTERCEPTOR_H_

#include <grpcpp/support/server_interceptor.h>

#include <memory>

namespace callboard::server {

// Gives details to errors that leave the server without any: those of gRPC itself, and the answer
// to methods that are declared and not served, which then say so. A request that does not parse is
// answered with INVALID_ARGUMENT.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
NewErrorDetailInterceptorFactory();

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_ERROR_DETAIL_INTERCEPTOR_H_
