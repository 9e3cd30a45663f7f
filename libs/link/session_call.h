// One Session of the director with an agent, and the rules for dialling an agent again.

#ifndef CALLBOARD_LIBS_LINK_SESSION_CALL_H_
#define CALLBOARD_LIBS_LINK_SESSION_CALL_H_

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "callboard/v1/agent.grpc.pb.h"
#include "libs/base/mutex.h"
#include "libs/core/session.h"
#include "libs/wire/session.h"

namespace callboard::link::internal {

// The director's end of one Session, from the dial to its end. One write is in progress at a time.
// Messages that arrive meanwhile are sent together in the next write.
//
// Thread-safe. Stays alive until gRPC has finished with it.
class SessionCall final : public grpc::ClientBidiReactor<v1::SessionRequest, v1::SessionResponse>,
                          public std::enable_shared_from_this<SessionCall> {
 public:
  // Callbacks. They run on gRPC's threads, one at a time.
  struct Events {
    // Receives the messages that arrived together. Returns false to receive them again later.
    std::function<bool(SessionCall&, const std::vector<core::AgentMessage>&)> on_messages;
    // The next read was deferred. It happens together with the next write, or when
    // ResumeDeferredRead() is called.
    std::function<void()> on_read_deferred;
    // The call has ended. Receives the reason, and the starts that were never handed to gRPC.
    std::function<void(SessionCall&, const absl::Status&, std::vector<core::FenceToken>)> on_done;
  };

  SessionCall(core::AgentSessionId id, Events events) : id_(id), events_(std::move(events)) {}

  core::AgentSessionId id() const { return id_; }

  // Starts the call and sends the terms. REQUIRES: called once.
  void Start(v1::AgentService::Stub& stub, const core::SessionTerms& terms);
  // Sends the messages in order, in one gRPC message if they fit. Returns false, and sends none of
  // them, if the Session has ended.
  bool Send(absl::Span<const core::DirectorMessage> messages);
  // Ends the call. on_done() receives `reason`.
  void Cancel(const absl::Status& reason);
  // Closes the sending side after everything that is queued, and lets the agent end the call.
  void Close();
  // Called periodically. Starts a deferred read on the second call after it was deferred. Returns
  // true when a read is still deferred.
  bool ResumeDeferredRead();

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartDeferredRead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Passes what was read to on_messages(), repeatedly until it is taken, and then reads on.
  void Deliver();
  absl::Status ParseIncoming();
  bool AwaitsAnswer();

  const core::AgentSessionId id_;
  const Events events_;
  // Keeps this object alive until gRPC has finished with it.
  std::shared_ptr<SessionCall> self_;
  // Owned by gRPC while a read is in progress, and by the thread of OnReadDone() otherwise.
  v1::SessionResponse incoming_;
  std::vector<core::AgentMessage> messages_;
  // According to the last load that the agent reported.
  bool agent_is_idle_ = false;
  std::unique_ptr<grpc::Alarm> alarm_;

  base::Mutex mutex_;
  // Reset when gRPC has finished. It holds a reference to the channel, and a gRPC thread must not
  // release the last one.
  std::optional<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
  wire::OutgoingItems<v1::SessionRequest> outgoing_ ABSL_GUARDED_BY(mutex_);
  v1::SessionRequest current_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool reads_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // Reads are deferred to save packets. gRPC announces free receive space to the other end either
  // with the next write or, when a read starts, in a packet of its own. So the next message is read
  // when the answer to the last one is written, or a little later when there is no answer.
  uint64_t writes_ ABSL_GUARDED_BY(mutex_) = 0;
  // kDeferredLong: deferred since before the last ResumeDeferredRead().
  enum class ReadState { kActive, kDeferred, kDeferredLong };
  ReadState read_state_ ABSL_GUARDED_BY(mutex_) = ReadState::kActive;
  // Why the call was cancelled.
  absl::Status cancel_reason_ ABSL_GUARDED_BY(mutex_);
};

// ---- Dialling again ----

// Returns the delay before an agent is dialled again after `failures` failures in a row. It starts
// at `min` and doubles with each failure, up to `max`. Half of it is jitter derived from the
// address, so that agents which were lost at the same time are not dialled at the same time.
absl::Duration RedialDelay(absl::string_view address, uint32_t failures, absl::Duration min,
                           absl::Duration max);

// Returns the maximum delay when `waiting` addresses wait to be dialled: `max`, or longer if all of
// them together would otherwise be dialled more than `per_second` times a second.
absl::Duration RedialDelayMax(size_t waiting, uint32_t per_second, absl::Duration max);

// Limits first dials of addresses to `per_second`, with bursts of up to one second's worth.
class FirstDialLimiter {
 public:
  explicit FirstDialLimiter(uint32_t per_second) : period_(absl::Seconds(1) / per_second) {}

  // Returns whether a dial may be made now, and counts it if so.
  bool TryAcquire(absl::Duration now);

 private:
  const absl::Duration period_;
  // When the dials made so far would have ended, had they been made at the allowed rate.
  absl::Duration made_until_ = -absl::InfiniteDuration();
};

// The outcome of a Session, from its dial to its end.
struct SessionOutcome {
  bool opened = false;
  // The agent answered a start or reported a result.
  bool did_work = false;
  absl::Duration duration = {};
};

// Minimum duration of a Session whose work counts as a success. An agent that repeats an old result
// and breaks its Session immediately is treated like one that did nothing.
inline constexpr absl::Duration kWorkDurationMin = absl::Seconds(1);

// Returns the number of failures in a row after a Session has ended, given the number before it. A
// Session that opens and breaks immediately counts as a failure, like one that could not be opened.
// A Session that lasted for `max`, or that did work and lasted for kWorkDurationMin, is a success.
uint32_t CountFailures(const SessionOutcome& session, uint32_t failures, absl::Duration max);

}  // namespace callboard::link::internal

#endif  // CALLBOARD_LIBS_LINK_SESSION_CALL_H_
