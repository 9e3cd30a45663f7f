#include "libs/link/grpc_agent_link.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "libs/base/log.h"
#include "libs/base/mutex.h"
#include "libs/core/dispatch_rules.h"
#include "libs/link/session_call.h"
#include "libs/ports/agent_link.h"
#include "libs/wire/alarm.h"

namespace callboard::link {
namespace internal {

using DialPolicy = GrpcAgentLink::DialPolicy;

namespace {

// A read is deferred for at most twice this time.
constexpr absl::Duration kDeferredReadPeriod = absl::Milliseconds(100);
constexpr absl::Duration kConnectTimeout = absl::Seconds(1);

std::shared_ptr<grpc::Channel> NewChannel(const std::string& address, absl::Duration keepalive) {
  const int milliseconds = static_cast<int>(absl::ToInt64Milliseconds(keepalive));
  grpc::ChannelArguments arguments;
  // A separate connection for each channel, and no backoff by gRPC itself.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Despite its name, the first limits how long an attempt to connect may take, unless the others
  // are longer.
  for (const char* backoff :
       {GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
        GRPC_ARG_MAX_RECONNECT_BACKOFF_MS}) {
    arguments.SetInt(backoff, static_cast<int>(absl::ToInt64Milliseconds(kConnectTimeout)));
  }
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, milliseconds);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, milliseconds);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // No Session uses these filters, and every message would pass through them.
  for (const char* unused :
       {GRPC_ARG_ENABLE_RETRIES, GRPC_ARG_ENABLE_DEADLINE_CHECKS, GRPC_ARG_ENABLE_CHANNELZ,
        GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION}) {
    arguments.SetInt(unused, 0);
  }
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

class LinkCore : public std::enable_shared_from_this<LinkCore> {
 public:
  LinkCore(const LinkOptions& options, const ports::Clock& clock)
      : options_(options), clock_(clock), first_dials_(options.redials_per_second) {}

  void Start(ports::AgentListener& listener) {
    base::MutexLock lock(mutex_);
    listener_ = &listener;
    for (auto& [address, peer] : peers_) StartCall(address, peer);
  }

  void Shutdown(absl::Duration timeout) {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    const absl::Status reason = absl::CancelledError("the director is shutting down");
    for (auto& [address, peer] : peers_) {
      peer.redial_alarm.reset();
      // An agent that has not opened its Session has nothing to receive.
      if (!peer.is_open) CancelCall(peer, reason);
      peer.call.reset();
    }
    for (auto& [session, call] : calls_) call->Close();
    const auto all_ended = [this]()
                               ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return calls_.empty(); };
    if (!changed_.WaitFor(mutex_, timeout, all_ended)) {
      for (auto& [session, call] : calls_) call->Cancel(reason);
      while (!calls_.empty()) changed_.Wait(mutex_);
    }
    // Destroy the channels here, and not in the call or timer that releases this object last: their
    // destruction waits for gRPC's threads, so it must not run on one.
    peers_.clear();
    retired_.clear();
  }

  void Dial(const std::string& address, DialPolicy policy, const std::string& name) {
    base::MutexLock lock(mutex_);
    const absl::Duration now = clock_.MonotonicNow();
    const bool is_new = !peers_.contains(address);
    if (is_new && !name.empty()) ForgetOldAddresses(address, name);
    // The agent will announce itself again.
    if (is_new && policy == DialPolicy::kWhileAnnounced &&
        CountUnreached() >= options_.unreached_max)
      return;
    Peer& peer = peers_[address];
    peer.is_permanent = peer.is_permanent || policy == DialPolicy::kAlways;
    peer.announced_at = now;
    if (peer.call != nullptr) return;
    if (!name.empty()) peer.name = name;
    if (is_new && !peer.is_permanent && !first_dials_.TryAcquire(now)) {
      // Schedules it like an agent that could not be reached.
      peer.dialled_at = now;
      return ScheduleRedial(address, peer);
    }
    if (peer.redial_alarm != nullptr) {
      // After a broken Session, an announcement does not shorten the delay, because an agent may
      // announce itself at the end of each Session. An agent that could not be reached may be
      // reachable now.
      if (peer.session.opened) return;
      const absl::Duration soonest =
          peer.dialled_at + RedialDelayMax(CountWaiting(), options_.redials_per_second,
                                           options_.announced_dial_period);
      if (peer.redial_at <= soonest) return;
      if (now < soonest) return ScheduleRedialAt(address, peer, soonest);
      peer.redial_alarm.reset();
    }
    StartCall(address, peer);
  }

  uint64_t unknown_items() const { return unknown_items_; }

  size_t address_count() const {
    base::MutexLock lock(mutex_);
    return peers_.size();
  }

  void Redial(uint64_t director_epoch) {
    base::MutexLock lock(mutex_);
    epoch_ = director_epoch;
    for (auto& [address, peer] : peers_) {
      CancelCall(peer, absl::CancelledError("the director starts a new epoch"));
      peer.redial_alarm.reset();
      StartCall(address, peer);
    }
  }

  bool Send(core::AgentSessionId session, absl::Span<const core::DirectorMessage> messages) {
    const std::shared_ptr<SessionCall> call = Find(session);
    return call != nullptr && call->Send(messages);
  }

  void EndSession(core::AgentSessionId session, const absl::Status& reason) {
    if (const std::shared_ptr<SessionCall> call = Find(session)) call->Cancel(reason);
  }

  void ReportNotSent(const core::FenceToken& token) {
    {
      base::MutexLock lock(mutex_);
      if (stopping_) return;
    }
    listener_->OnStartNotSent(token);
  }

 private:
  struct Peer {
    bool is_permanent = false;
    absl::Duration announced_at = {};
    std::unique_ptr<v1::AgentService::Stub> stub = nullptr;
    // Null while no call is pending.
    std::shared_ptr<SessionCall> call = nullptr;
    // From its last opening message, or as it announced itself.
    std::string name = {};
    bool is_open = false;
    // A Session was open at least once.
    bool was_reached = false;
    // The last dial and its outcome so far.
    absl::Duration dialled_at = {};
    SessionOutcome session = {};
    bool had_unknown_items = false;
    // The last rejection that was logged.
    std::string rejection = {};
    uint32_t failures = 0;
    // Null when no redial is scheduled.
    std::unique_ptr<grpc::Alarm> redial_alarm = nullptr;
    absl::Duration redial_at = {};
  };

  std::shared_ptr<SessionCall> Find(core::AgentSessionId session) {
    base::MutexLock lock(mutex_);
    const auto found = calls_.find(session);
    return found == calls_.end() ? nullptr : found->second;
  }

  void StartCall(const std::string& address, Peer& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (listener_ == nullptr || stopping_) return;
    if (peer.stub == nullptr) {
      peer.stub = v1::AgentService::NewStub(NewChannel(address, options_.keepalive));
    }
    const core::AgentSessionId session(++last_session_);
    SessionCall::Events events = {
        .on_messages =
            [core = shared_from_this(), address](SessionCall& call,
                                                 const std::vector<core::AgentMessage>& messages) {
              return core->OnMessages(address, call, messages);
            },
        .on_read_deferred = [core = shared_from_this()] { core->ScheduleDeferredReads(); },
        .on_done =
            [core = shared_from_this(), address](SessionCall& call, const absl::Status& reason,
                                                 std::vector<core::FenceToken> unsent) {
              core->OnDone(address, call, reason, unsent);
            }};
    peer.call = std::make_shared<SessionCall>(session, std::move(events));
    peer.is_open = false;
    peer.session = {};
    peer.had_unknown_items = false;
    peer.dialled_at = clock_.MonotonicNow();
    calls_[session] = peer.call;
    peer.call->Start(*peer.stub, {.director_epoch = epoch_, .lease = options_.lease});
    retired_.clear();
  }

  // Puts the peer's channel aside. It is destroyed later.
  void RetireChannel(Peer& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (peer.stub != nullptr) retired_.push_back(std::move(peer.stub));
  }

  void CancelCall(Peer& peer, const absl::Status& reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (const std::shared_ptr<SessionCall> call = std::exchange(peer.call, nullptr)) {
      call->Cancel(reason);
    }
  }

  bool OnMessages(const std::string& address, SessionCall& call,
                  const std::vector<core::AgentMessage>& messages) {
    std::vector<core::AgentMessage> for_director;
    uint64_t unknown = 0;
    for (const core::AgentMessage& message : messages) {
      if (const auto* opened = std::get_if<core::SessionOpened>(&message)) {
        if (!RecordOpened(address, call, opened->name)) return true;
        core::SessionOpened with_url = *opened;
        if (with_url.url.empty()) with_url.url = absl::StrCat("grpc://", address);
        if (!listener_->OnSessionOpened(call.id(), with_url)) return false;
      } else if (std::holds_alternative<core::UnknownItem>(message)) {
        ++unknown;
      } else if (!std::holds_alternative<core::RunOutput>(message)) {
        for_director.push_back(message);
      }
    }
    if (!for_director.empty() && !listener_->OnMessages(call.id(), std::move(for_director))) {
      return false;
    }
    RecordMessages(address, call, messages, unknown);
    for (const core::AgentMessage& message : messages) {
      const auto* heartbeat = std::get_if<core::Heartbeat>(&message);
      if (heartbeat != nullptr) call.Send({core::HeartbeatAck{heartbeat->agent_time}});
    }
    for (const core::AgentMessage& message : messages) {
      const auto* output = std::get_if<core::RunOutput>(&message);
      if (output != nullptr) listener_->OnOutput(call.id(), *output);
    }
    return true;
  }

  // Returns false when the call is no longer the peer's current one.
  bool RecordOpened(const std::string& address, const SessionCall& call, const std::string& name) {
    base::MutexLock lock(mutex_);
    const auto peer = peers_.find(address);
    if (peer == peers_.end() || peer->second.call.get() != &call) return false;
    peer->second.name = name;
    peer->second.is_open = true;
    peer->second.was_reached = true;
    peer->second.session.opened = true;
    peer->second.rejection.clear();
    ForgetOldAddresses(address, name);
    return true;
  }

  // Forgets other addresses of the agent: it has moved to `address`.
  void ForgetOldAddresses(const std::string& address, const std::string& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (auto entry = peers_.begin(); entry != peers_.end();) {
      auto& [other, peer] = *entry;
      const bool is_in_use = peer.is_permanent || (peer.was_reached && peer.call != nullptr);
      if (peer.name != name || other == address || is_in_use) {
        ++entry;
        continue;
      }
      CancelCall(peer, absl::CancelledError("the agent moved to another address"));
      RetireChannel(peer);
      entry = peers_.erase(entry);
    }
  }

  // Counts announced addresses that were never reached.
  ptrdiff_t CountUnreached() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::count_if(peers_.begin(), peers_.end(), [](const auto& entry) {
      return !entry.second.is_permanent && !entry.second.was_reached;
    });
  }

  void RecordMessages(const std::string& address, const SessionCall& call,
                      absl::Span<const core::AgentMessage> messages, uint64_t unknown) {
    const bool did_work = std::any_of(messages.begin(), messages.end(), [](const auto& message) {
      return std::holds_alternative<core::StartAnswer>(message) ||
             std::holds_alternative<core::RunEnded>(message);
    });
    if (!did_work && unknown == 0) return;
    unknown_items_ += unknown;
    base::MutexLock lock(mutex_);
    const auto found = peers_.find(address);
    if (found == peers_.end() || found->second.call.get() != &call) return;
    Peer& peer = found->second;
    peer.session.did_work = peer.session.did_work || did_work;
    if (unknown > 0 && !std::exchange(peer.had_unknown_items, true)) {
      base::LogWarning(
          "agent", "unknown_items",
          {{"name", peer.name},
           {"address", address},
           {"next", "the items are ignored; the agent may be newer than this director"}});
    }
  }

  void OnDone(const std::string& address, SessionCall& call, const absl::Status& reason,
              const std::vector<core::FenceToken>& unsent) {
    bool was_open = false;
    bool is_new_rejection = false;
    std::string name;
    {
      base::MutexLock lock(mutex_);
      const auto found = peers_.find(address);
      if (found != peers_.end() && found->second.call.get() == &call) {
        Peer& peer = found->second;
        was_open = peer.is_open;
        name = peer.name;
        peer.call = nullptr;
        peer.is_open = false;
        // Otherwise the channel would keep dialling by itself.
        if (!was_open) RetireChannel(peer);
        if (!was_open && core::IsSessionRejection(reason)) {
          const std::string before = std::exchange(peer.rejection, reason.ToString());
          is_new_rejection = peer.rejection != before;
        }
        OnCallEnded(address, peer);
      }
    }
    for (const core::FenceToken& token : unsent) listener_->OnStartNotSent(token);
    if (is_new_rejection) {
      base::LogWarning("agent", "refused",
                       {{"name", name},
                        {"address", address},
                        {"code", absl::StatusCodeToString(reason.code())},
                        {"error", reason.message()}});
    }
    if (was_open) {
      base::LogWarning("agent", "session_broken",
                       {{"name", name}, {"address", address}, {"error", reason.message()}});
      listener_->OnSessionClosed(call.id(), reason);
    } else if (!name.empty()) {
      listener_->OnUnreachable(name, reason);
    }
    base::MutexLock lock(mutex_);
    calls_.erase(call.id());
    changed_.NotifyAll();
  }

  // Starts a timer for deferred reads, unless it is running.
  void ScheduleDeferredReads() {
    base::MutexLock lock(mutex_);
    if (stopping_ || deferred_reads_alarm_ != nullptr) return;
    deferred_reads_alarm_ = std::make_unique<grpc::Alarm>();
    wire::SetAlarm(*deferred_reads_alarm_, kDeferredReadPeriod, [weak = weak_from_this()] {
      if (const auto core = weak.lock()) core->ResumeDeferredReads();
    });
  }

  void ResumeDeferredReads() {
    std::vector<std::shared_ptr<SessionCall>> calls;
    {
      base::MutexLock lock(mutex_);
      deferred_reads_alarm_ = nullptr;
      for (const auto& [session, call] : calls_) calls.push_back(call);
    }
    bool any_deferred = false;
    for (const std::shared_ptr<SessionCall>& call : calls)
      any_deferred = call->ResumeDeferredRead() || any_deferred;
    if (any_deferred) ScheduleDeferredReads();
  }

  void OnCallEnded(const std::string& address, Peer& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (stopping_) return;
    const absl::Duration now = clock_.MonotonicNow();
    peer.session.duration = now - peer.dialled_at;
    peer.failures = CountFailures(peer.session, peer.failures, options_.redial_max);
    ScheduleRedial(address, peer);
  }

  void ScheduleRedial(const std::string& address, Peer& peer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto at_shared_rate = [this](absl::Duration wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return RedialDelayMax(CountWaiting(), options_.redials_per_second, wait);
    };
    // Agents that were lost together are likely to be back soon, so the first redials of known
    // agents are not slowed down to the shared rate. Dials of unreached addresses always are.
    const bool is_known = peer.was_reached || peer.is_permanent;
    const absl::Duration shortest =
        is_known ? options_.redial_min : at_shared_rate(options_.redial_min);
    ScheduleRedialAt(address, peer,
                     clock_.MonotonicNow() + RedialDelay(address, peer.failures, shortest,
                                                         at_shared_rate(options_.redial_max)));
  }

  void ScheduleRedialAt(const std::string& address, Peer& peer, absl::Duration at)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    peer.redial_at = at;
    peer.redial_alarm = std::make_unique<grpc::Alarm>();
    wire::SetAlarm(*peer.redial_alarm, at - clock_.MonotonicNow(),
                   [weak = weak_from_this(), address] {
                     if (const auto core = weak.lock()) core->OnRedialDue(address);
                   });
  }

  // Counts addresses that wait to be dialled.
  size_t CountWaiting() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return peers_.size() - std::min(peers_.size(), calls_.size());
  }

  void OnRedialDue(const std::string& address) {
    base::MutexLock lock(mutex_);
    const auto found = peers_.find(address);
    if (found == peers_.end() || found->second.call != nullptr) return;
    Peer& peer = found->second;
    const absl::Duration silent_for = clock_.MonotonicNow() - peer.announced_at;
    if (!peer.is_permanent && silent_for > options_.forget_after) {
      RetireChannel(peer);
      peers_.erase(found);
      return;
    }
    StartCall(address, peer);
  }

  const LinkOptions options_;
  const ports::Clock& clock_;
  std::atomic<uint64_t> unknown_items_ = 0;

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  FirstDialLimiter first_dials_ ABSL_GUARDED_BY(mutex_);
  // Set once by Start(), before the first call.
  ports::AgentListener* listener_ = nullptr;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_session_ ABSL_GUARDED_BY(mutex_) = 0;
  // By address.
  std::map<std::string, Peer> peers_ ABSL_GUARDED_BY(mutex_);
  // Channels that are not used any more. They are destroyed when another call has started, or in
  // Shutdown(): a gRPC thread that destroyed the last channel would wait for itself.
  std::vector<std::unique_ptr<v1::AgentService::Stub>> retired_ ABSL_GUARDED_BY(mutex_);
  // Set while a call may have a deferred read.
  std::unique_ptr<grpc::Alarm> deferred_reads_alarm_ ABSL_GUARDED_BY(mutex_);
  // All calls with which gRPC has not finished.
  std::map<core::AgentSessionId, std::shared_ptr<SessionCall>> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace internal

GrpcAgentLink::GrpcAgentLink(const LinkOptions& options, const ports::Clock& clock)
    : core_(std::make_shared<internal::LinkCore>(options, clock)) {}

GrpcAgentLink::~GrpcAgentLink() { Stop(); }

void GrpcAgentLink::Start(ports::AgentListener& listener) { core_->Start(listener); }

void GrpcAgentLink::Shutdown(absl::Duration timeout) { core_->Shutdown(timeout); }

void GrpcAgentLink::Stop() { Shutdown(absl::ZeroDuration()); }

void GrpcAgentLink::Dial(const std::string& address, DialPolicy policy, const std::string& name) {
  core_->Dial(address, policy, name);
}

uint64_t GrpcAgentLink::unknown_items() const { return core_->unknown_items(); }

size_t GrpcAgentLink::address_count() const { return core_->address_count(); }

void GrpcAgentLink::Send(core::AgentSessionId session,
                         std::vector<core::DirectorMessage> messages) {
  if (core_->Send(session, messages)) return;
  for (const core::DirectorMessage& message : messages) {
    const auto* start = std::get_if<core::StartRun>(&message);
    if (start != nullptr) core_->ReportNotSent(start->token);
  }
}

void GrpcAgentLink::Redial(uint64_t director_epoch) { core_->Redial(director_epoch); }

void GrpcAgentLink::AcknowledgeOutput(core::AgentSessionId session,
                                      const core::OutputAck& acknowledged) {
  core_->Send(session, {acknowledged});
}

void GrpcAgentLink::EndSession(core::AgentSessionId session, const absl::Status& reason) {
  core_->EndSession(session, reason);
}

}  // namespace callboard::link
