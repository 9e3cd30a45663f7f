// Errors as gRPC callers see them.
#ifndef CALLBOARD_LIBS_WIRE_STATUS_H_
#define CALLBOARD_LIBS_WIRE_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"

namespace callboard::wire {

// `status` with its details (libs/base/error.h) as google.rpc messages. Every error carries an
// ErrorInfo; one without a reason of its own has its code's name as reason.
grpc::Status ToGrpc(const absl::Status& status);
// The same as a message, for answers that hold the errors of single items.
google::rpc::Status ToProto(const absl::Status& status);

// The other way round: what ToGrpc() made of `status`, or what another server said. The message is
// made valid UTF-8 and has at most core::kErrorBytesMax.
absl::Status FromGrpc(const grpc::Status& status);
absl::Status FromProto(const google::rpc::Status& status);

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_STATUS_H_
