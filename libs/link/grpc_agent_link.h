// The director's gRPC connections to agents: one Session each, and the rules for dialling again.

#ifndef CALLBOARD_LIBS_LINK_GRPC_AGENT_LINK_H_
#define CALLBOARD_LIBS_LINK_GRPC_AGENT_LINK_H_

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "callboard/v1/agent.grpc.pb.h"
#include "libs/base/mutex.h"
#include "libs/core/limits.h"
#include "libs/core/queue.h"
#include "libs/core/session.h"
#include "libs/ports/agent_link.h"
#include "libs/ports/environment.h"
#include "libs/wire/session.h"

namespace callboard::link::internal {

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

// Runs `then` after `wait`, unless the alarm is destroyed or cancelled before.
void SetAlarm(grpc::Alarm& alarm, absl::Duration wait, std::function<void()> then);

// The director's end of one Session, from the dial to its end. One write is in progress at a time.
// Messages that arrive meanwhile are sent together in the next write.
//
// Thread-safe. Stays alive until gRPC has finished with it.
class SessionCall final : public grpc::ClientBidiReactor<v1::SessionRequest, v1::SessionResponse>,
                          public std::enable_shared_from_this<SessionCall> {
 public:
  // Callbacks. They run on gRPC's threads, one at a time.
  struct Events {
    // Receives the items of one message. Returns false to receive them again later.
    std::function<bool(SessionCall&, const std::vector<core::AgentMessage>&)> on_messages;
    // The next read was deferred. It happens together with the next write, or when
    // ResumeDeferredRead() is called.
    std::function<void()> on_read_deferred;
    // The call has ended. Receives the reason, and the starts that were never handed to gRPC.
    std::function<void(SessionCall&, const absl::Status&, std::vector<core::FenceToken>)> on_done;
  };

  SessionCall(core::SessionId id, Events events) : id_(id), events_(std::move(events)) {}

  core::SessionId id() const { return id_; }

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

  const core::SessionId id_;
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

}  // namespace callboard::link::internal

namespace callboard::link {

namespace internal {
class LinkCore;
}  // namespace internal

struct LinkOptions {
  // Sent to agents in the opening message.
  core::LeaseOptions lease = {};
  // The minimum and maximum delay before an agent is dialled again. The delay doubles with each
  // failure; up to half of it is subtracted as jitter.
  absl::Duration redial_min = absl::Milliseconds(50);
  absl::Duration redial_max = absl::Seconds(5);
  // Maximum rate of dials to unreachable agents, all together. With many of them, each is dialled
  // less often than every `redial_max`. New addresses have a separate budget of the same rate, with
  // bursts of up to one second's worth.
  uint32_t redials_per_second = 100;
  // Maximum number of announced addresses that no Session has reached yet. More are not dialled.
  ptrdiff_t unreached_max = core::kUnreachedAgentsMax;
  // Minimum time between two dials of an agent when announcements request them.
  absl::Duration announced_dial_period = absl::Seconds(1);
  // An announced agent that is not connected is dialled until this long after its last
  // announcement.
  absl::Duration forget_after = absl::Minutes(1);
  // Interval and timeout of the pings that detect a dead connection.
  absl::Duration keepalive = absl::Seconds(10);
};

// The director's end of its Sessions over gRPC: one bidirectional call per agent, dialled until it
// is open and again whenever it breaks.
//
// Thread-safe. Only Shutdown(), Stop() and the destructor block.
class GrpcAgentLink final : public ports::AgentLink {
 public:
  // `clock` outlives the link.
  GrpcAgentLink(const LinkOptions& options, const ports::Clock& clock);
  // Calls Stop().
  ~GrpcAgentLink() override;

  // Starts dialling agents and passing their messages to `listener`, which must live until Stop()
  // returns.
  void Start(ports::AgentListener& listener);
  // Sends what is queued and ends all Sessions; cancels those whose agents have not taken
  // everything within `timeout`. The listener gets no further calls, and no agent is dialled again.
  void Shutdown(absl::Duration timeout);
  // Same as Shutdown() without waiting.
  void Stop();

  // How long an address is dialled: always, or only while its agent announces itself.
  enum class DialPolicy { kAlways, kWhileAnnounced };
  // Dials the agent at host:port if it is not connected and was not dialled a moment ago. `name`:
  // as the agent announced itself. An agent that was never reached is dialled only at its latest
  // address.
  void Dial(const std::string& address, DialPolicy policy, const std::string& name = "");

  void Send(core::SessionId session, std::vector<core::DirectorItem> items) override;
  void Redial(uint64_t director_epoch) override;

  // Confirms to the agent that its output was stored. Does nothing if the Session has ended.
  void AcknowledgeOutput(core::SessionId session, const core::OutputAck& acknowledged);
  // Ends a Session whose agent was rejected. The agent is dialled again later.
  void EndSession(core::SessionId session, const absl::Status& reason);

  // Items in agents' messages that this version does not know and ignored.
  uint64_t unknown_items() const;
  // Number of addresses that have a Session, are being dialled or wait to be dialled.
  size_t address_count() const;

 private:
  // Shared with pending calls and timers, which may end after the link.
  const std::shared_ptr<internal::LinkCore> core_;
};

}  // namespace callboard::link

#endif  // CALLBOARD_LIBS_LINK_GRPC_AGENT_LINK_H_
