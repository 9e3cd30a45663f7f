#ifndef CALLBOARD_LIBS_PORTS_RPC_SPAN_H_
#define CALLBOARD_LIBS_PORTS_RPC_SPAN_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libs/ports/telemetry.h"

namespace callboard::ports {

// What spans say of an error: its reason (libs/base/error.h), or else its code's name. A reason
// that is no name of one, whoever sent it, is none.
std::string ErrorTypeOf(const absl::Status& error);

// A call that is over, as either side sees it: without a time, and without what its error says,
// which may come from the caller. `method`: callboard.v1.QueueService/SubmitTask
//
// To its caller every call that does not end well has failed; to the server only one that failed
// for its sake: not when a caller asks for too much, or at the wrong time.
FinishedSpan RpcSpan(SpanKind kind, absl::string_view method, const absl::Status& status);

}  // namespace callboard::ports

#endif  // CALLBOARD_LIBS_PORTS_RPC_SPAN_H_
