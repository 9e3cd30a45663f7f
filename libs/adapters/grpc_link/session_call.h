#ifndef CALLBOARD_LIBS_ADAPTERS_GRPC_LINK_SESSION_CALL_H_
#define CALLBOARD_LIBS_ADAPTERS_GRPC_LINK_SESSION_CALL_H_

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "callboard/v1/agent.grpc.pb.h"
#include "libs/base/mutex.h"
#include "libs/core/session.h"
#include "libs/wire/outgoing_items.h"

namespace callboard::adapters::internal {

// Runs `then` after `wait`, unless the alarm is gone or cancelled before.
void SetAlarm(grpc::Alarm& alarm, absl::Duration wait, std::function<void()> then);

// One Session, from the dialling to its end: one write under way at a time, everything that comes
// meanwhile in the next.
//
// Thread-safe. Lives until gRPC is done with it.
class SessionCall final : public grpc::ClientBidiReactor<v1::SessionRequest, v1::SessionResponse>,
                          public std::enable_shared_from_this<SessionCall> {
 public:
  // Hears what becomes of the call, on gRPC's threads, one thing after the other.
  struct Events {
    // What came in one message. False when it has to be brought again.
    std::function<bool(SessionCall&, const std::vector<core::AgentWord>&)> on_words;
    // The call reads on with its next write, or when it is told to.
    std::function<void()> on_put_off;
    // Nothing follows. Why, and what was never handed to gRPC.
    std::function<void(SessionCall&, const absl::Status&, std::vector<core::FenceToken>)> on_done;
  };

  SessionCall(core::SessionId id, Events events) : id_(id), events_(std::move(events)) {}

  core::SessionId id() const { return id_; }

  // Begins with the terms. REQUIRES: called once.
  void Start(v1::AgentService::Stub& stub, const core::SessionTerms& terms);
  // In one message where they fit. False when the Session is over: then nothing of it was said.
  bool Say(absl::Span<const core::DirectorWord> words);
  // Ends it; `why` is what on_done() hears then.
  void Cancel(const absl::Status& why);
  // Lets the agent end it, once it has heard everything. Nothing more can be said.
  void Close();
  // Reads on, if that was put off since before the last time. True when there is more to read
  // later.
  bool ReadOn();

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Hands over what was read, again and again until it is taken, and then reads on.
  void Deliver();
  absl::Status ReadWords();
  bool AwaitsAnswer();

  const core::SessionId id_;
  const Events events_;
  // Until gRPC is done.
  std::shared_ptr<SessionCall> self_;
  // Of gRPC while a read is under way, else of the thread that hears of its end.
  v1::SessionResponse incoming_;
  std::vector<core::AgentWord> words_;
  // By the load that it reported last.
  bool agent_is_idle_ = false;
  std::unique_ptr<grpc::Alarm> again_;

  base::Mutex mutex_;
  // Until gRPC is done. Holds the channel, which a thread of gRPC may not be the last to let go of.
  std::optional<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
  wire::OutgoingItems<v1::SessionRequest> outgoing_ ABSL_GUARDED_BY(mutex_);
  v1::SessionRequest current_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // gRPC tells the other end that there is room again with the next write, or at once, in a packet
  // of its own, when something is to be read. So the next message is read when the answer to the
  // last one was written; or a little later, when there is none.
  uint64_t writes_ ABSL_GUARDED_BY(mutex_) = 0;
  enum class Reading { kGoesOn, kPutOff, kPutOffForLong };
  Reading reading_ ABSL_GUARDED_BY(mutex_) = Reading::kGoesOn;
  absl::Status why_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard::adapters::internal

#endif  // CALLBOARD_LIBS_ADAPTERS_GRPC_LINK_SESSION_CALL_H_
