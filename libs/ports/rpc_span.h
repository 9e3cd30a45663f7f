#ifndef CALLBOARD_LIBS_PORTS_RPC_SPAN_H_
#define CALLBOARD_LIBS_PORTS_RPC_SPAN_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libs/ports/telemetry.h"

namespace callboard::ports {

// A call that is over, as either side sees it: without a time, and without what its error says,
// which may come from the caller. `method`: callboard.v1.QueueService/SubmitTask
FinishedSpan RpcSpan(SpanKind kind, absl::string_view method, absl::StatusCode code);

}  // namespace callboard::ports

#endif  // CALLBOARD_LIBS_PORTS_RPC_SPAN_H_
