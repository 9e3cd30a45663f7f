#ifndef CALLBOARD_SERVICES_DIRECTOR_SUBMIT_TASKS_H_
#define CALLBOARD_SERVICES_DIRECTOR_SUBMIT_TASKS_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/base/mutex.h"
#include "libs/director/driver.h"
#include "libs/director/observer.h"
#include "libs/director/submit_stream.h"
#include "libs/ports/environment.h"
#include "libs/server/bidi_call.h"

namespace callboard {

// One SubmitTasks call. Reads the next message only while the number and the bytes of unanswered
// items are below their limits and the director's command queue has room. Whenever a write has
// completed, sends all answers that have arrived since.
//
// The call's callbacks own this object until the call ends. Thread-safe.
class SubmitTasksCall : public std::enable_shared_from_this<SubmitTasksCall> {
 public:
  // Messages are received unparsed, so that an item that does not parse does not affect the others.
  using Call = server::BidiCall<grpc::ByteBuffer, grpc::ByteBuffer>;

  // The references outlive the call. `observer` receives rejected submits. `trace` is the caller's.
  SubmitTasksCall(Call call, director::DirectorDriver& driver, director::Observer& observer,
                  const ports::Clock& clock, const server::CallTracer& tracer,
                  const std::optional<core::SpanContext>& trace)
      : call_(std::move(call)),
        driver_(driver),
        observer_(observer),
        clock_(clock),
        tracer_(tracer),
        trace_(trace) {}

  void Begin();

 private:
  // Parses a message. Begins a span for each item and appends the item's origin to `origins`.
  // Returns INVALID_ARGUMENT when the message as a whole cannot be parsed.
  absl::StatusOr<std::vector<director::SubmitStream::Item>> ItemsFrom(
      const grpc::ByteBuffer& request, std::vector<director::SubmitOrigin>& origins) const;
  void EndSpan(const director::SubmitStream::Answer& answer) const;
  // Handles a message; null after the last one.
  void OnMessage(const grpc::ByteBuffer* request);
  void OnRoom();
  void OnSent();
  void OnAbandoned();
  // Requests the next message unless a limit is reached.
  void MaybeRead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends the answers that have arrived, or ends the call when all are sent and no more can come.
  void Send();

  const Call call_;
  director::DirectorDriver& driver_;
  director::Observer& observer_;
  const ports::Clock& clock_;
  const server::CallTracer& tracer_;
  const std::optional<core::SpanContext> trace_;
  std::shared_ptr<director::SubmitStream> stream_;

  base::Mutex mutex_;
  // Items that were read and whose answers are not sent yet.
  size_t unanswered_items_ ABSL_GUARDED_BY(mutex_) = 0;
  // Number of items whose answers are in the write under way.
  size_t items_being_sent_ ABSL_GUARDED_BY(mutex_) = 0;
  // Origins of the items that have no answer yet, in the order of the items.
  std::deque<director::SubmitOrigin> origins_ ABSL_GUARDED_BY(mutex_);
  // Bytes of the messages that were read since unanswered_items_ was last 0.
  size_t unanswered_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_reading_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether the director's command queue accepts more items.
  bool has_room_ ABSL_GUARDED_BY(mutex_) = true;
  // The caller has left: nothing more is sent.
  bool is_abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  // Set when no more messages are read. The call ends with this status once every item is answered.
  std::optional<absl::Status> end_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_SUBMIT_TASKS_H_
