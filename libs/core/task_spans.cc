#include "libs/core/task_spans.h"

#include <cstdint>

#include "libs/core/stable_hash.h"

namespace callboard::core {
namespace {

// Never change: spans that are under way would end under other names.
enum class Kind : uint64_t {
  kSubmit = 1,
  kWait = 2,
  kDispatch = 3,
  kDispatchTrace = 4,
  kFire = 5,
  kCancel = 6,
};

StableHash HashOf(Kind kind, QueueId id, DispatchNumber dispatch) {
  return StableHash()
      .Add(static_cast<uint64_t>(kind))
      .Add(id.value().high())
      .Add(id.value().low())
      .Add(dispatch.value());
}

}  // namespace

SpanContext SubmitSpanOf(QueueId id) {
  const StableHash hash = HashOf(Kind::kSubmit, id, DispatchNumber());
  SpanContext submit = NewTrace({hash.value(), hash.second_value(), hash.value()});
  submit.sampled = false;
  return submit;
}

SpanId WaitSpanOf(QueueId id, DispatchNumber before) {
  return NewSpan(HashOf(Kind::kWait, id, before).value());
}

SpanId DispatchSpanOf(QueueId id, DispatchNumber dispatch) {
  return NewSpan(HashOf(Kind::kDispatch, id, dispatch).value());
}

TraceId DispatchTraceOf(QueueId id, DispatchNumber dispatch) {
  const StableHash hash = HashOf(Kind::kDispatchTrace, id, dispatch);
  return NewTrace({hash.value(), hash.second_value(), 0}).trace_id;
}

SpanId CancelSpanOf(const SpanId& submit) {
  StableHash hash;
  hash.Add(static_cast<uint64_t>(Kind::kCancel));
  for (const uint8_t byte : submit.value()) hash.Add(byte);
  return NewSpan(hash.value());
}

TraceId FireTraceOf(absl::string_view director, absl::string_view request_id) {
  const StableHash hash =
      StableHash().Add(static_cast<uint64_t>(Kind::kFire)).Add(director).Add(request_id);
  return NewTrace({hash.value(), hash.second_value(), 0}).trace_id;
}

}  // namespace callboard::core
