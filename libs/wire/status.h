// Conversion of errors between absl::Status and gRPC.
#ifndef CALLBOARD_LIBS_WIRE_STATUS_H_
#define CALLBOARD_LIBS_WIRE_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"

namespace callboard::wire {

// Converts `status` and its details (libs/base/error.h) to google.rpc messages. Every error has an
// ErrorInfo. The reason of an error without one is the name of its code.
grpc::Status ToGrpc(const absl::Status& status);
// Like ToGrpc(), but returns a message, for responses that contain the errors of single items.
google::rpc::Status ToProto(const absl::Status& status);

// Convert an error that ToGrpc() or another server made. The message is made valid UTF-8 and
// truncated to core::kErrorBytesMax.
absl::Status FromGrpc(const grpc::Status& status);
absl::Status FromProto(const google::rpc::Status& status);

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_STATUS_H_
