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
#include "libs/ports/clock.h"
#include "libs/server/bidi_call.h"

namespace callboard {

// One SubmitTasks call: reads while not too much is unanswered, and says all answers there are when
// the ones before are sent. Keeps itself while the call lasts.
//
// Thread-safe.
class SubmitTasksCall : public std::enable_shared_from_this<SubmitTasksCall> {
 public:
  // Messages as they are sent, so that one item that does not parse costs the others nothing.
  using Call = server::BidiCall<grpc::ByteBuffer, grpc::ByteBuffer>;

  // All outlive the call. `observer` hears of submits that are refused.
  // `trace`: its caller's.
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
  // Each a span of its own. INVALID_ARGUMENT when the message as a whole is none.
  // `origins` gets one for each.
  absl::StatusOr<std::vector<director::SubmitStream::Item>> ItemsFrom(
      const grpc::ByteBuffer& request, std::vector<director::SubmitOrigin>& origins) const;
  void EndSpan(const director::SubmitStream::Answer& answer) const;
  // Null at the end of messages.
  void OnMessage(const grpc::ByteBuffer* request);
  void OnRoom();
  void OnSent();
  void OnAbandoned();
  void ReadIfWanted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Says what can be said, or ends the call when nothing is left to say.
  void Send();

  const Call call_;
  director::DirectorDriver& driver_;
  director::Observer& observer_;
  const ports::Clock& clock_;
  const server::CallTracer& tracer_;
  const std::optional<core::SpanContext> trace_;
  std::shared_ptr<director::SubmitStream> stream_;

  base::Mutex mutex_;
  // Items that were read and whose answers are not sent yet; and those of them under way.
  size_t open_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t sending_ ABSL_GUARDED_BY(mutex_) = 0;
  // Of the items that are not answered yet, in their order.
  std::deque<director::SubmitOrigin> origins_ ABSL_GUARDED_BY(mutex_);
  // Of messages since all items were answered.
  size_t open_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_room_ ABSL_GUARDED_BY(mutex_) = true;
  // The caller has gone: nothing more is sent.
  bool is_abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  // Set when no more is read: how the call ends, once everything is answered.
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_SUBMIT_TASKS_H_
