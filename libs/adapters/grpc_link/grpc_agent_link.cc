#include "libs/adapters/grpc_link/grpc_agent_link.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "libs/adapters/grpc_link/redial.h"
#include "libs/adapters/grpc_link/session_call.h"
#include "libs/base/log.h"
#include "libs/base/mutex.h"
#include "libs/core/answer.h"

namespace callboard::adapters {
namespace internal {

using Known = GrpcAgentLink::Known;

namespace {

// Reading is put off for twice that at most.
constexpr absl::Duration kReadOnAfter = absl::Milliseconds(100);
constexpr absl::Duration kConnectTimeout = absl::Seconds(1);

std::shared_ptr<grpc::Channel> NewChannel(const std::string& address, absl::Duration keepalive) {
  const int milliseconds = static_cast<int>(absl::ToInt64Milliseconds(keepalive));
  grpc::ChannelArguments arguments;
  // A connection of its own, and none of the waiting that channels do by themselves.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // The first is gRPC's name for the time that a connection may take, unless the others are longer.
  for (const char* backoff :
       {GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
        GRPC_ARG_MAX_RECONNECT_BACKOFF_MS}) {
    arguments.SetInt(backoff, static_cast<int>(absl::ToInt64Milliseconds(kConnectTimeout)));
  }
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, milliseconds);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, milliseconds);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Every message would pass through them, and no Session asks for any.
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
    for (auto& [address, peer] : peers_) Call(address, peer);
  }

  void Leave(absl::Duration patience) {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    const absl::Status why = absl::CancelledError("the director stops");
    for (auto& [address, peer] : peers_) {
      peer.redial.reset();
      // Who has not even answered has nothing to hear.
      if (!peer.is_open) HangUp(peer, why);
      peer.call.reset();
    }
    for (auto& [session, call] : calls_) call->Close();
    const auto all_left = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return calls_.empty(); };
    if (!changed_.WaitFor(mutex_, patience, all_left)) {
      for (auto& [session, call] : calls_) call->Cancel(why);
      while (!calls_.empty()) changed_.Wait(mutex_);
    }
    // Channels end here, not with whatever call or timer lets go of this last: gRPC waits for its
    // own threads then.
    peers_.clear();
    retired_.clear();
  }

  void Dial(const std::string& address, Known known, const std::string& name) {
    base::MutexLock lock(mutex_);
    const absl::Duration now = clock_.MonotonicNow();
    const bool is_new = !peers_.contains(address);
    if (is_new && !name.empty()) ForgetOthers(address, name);
    // The agent announces itself again.
    if (is_new && known == Known::kWhileAnnounced && Unreached() >= options_.unreached_max) return;
    Peer& peer = peers_[address];
    peer.for_ever = peer.for_ever || known == Known::kForEver;
    peer.announced_at = now;
    if (peer.call != nullptr) return;
    if (!name.empty()) peer.name = name;
    if (is_new && !peer.for_ever && !first_dials_.Take(now)) {
      // As one that could not be reached.
      peer.dialled_at = now;
      return RedialLater(address, peer);
    }
    if (peer.redial != nullptr) {
      // A Session that broke is dialled again when its time has come: its agent may announce itself
      // at the end of each. One that could not be reached may be there now.
      if (peer.session.opened) return;
      const absl::Duration soonest =
          peer.dialled_at +
          LongestRedial(Waiting(), options_.redials_per_second, options_.announced_dial_period);
      if (peer.redial_at <= soonest) return;
      if (now < soonest) return RedialAt(address, peer, soonest);
      peer.redial.reset();
    }
    Call(address, peer);
  }

  uint64_t unknown_items() const { return unknown_items_; }

  size_t addresses() const {
    base::MutexLock lock(mutex_);
    return peers_.size();
  }

  void Redial(uint64_t director_epoch) {
    base::MutexLock lock(mutex_);
    epoch_ = director_epoch;
    for (auto& [address, peer] : peers_) {
      HangUp(peer, absl::CancelledError("the director begins anew"));
      peer.redial.reset();
      Call(address, peer);
    }
  }

  bool Say(core::SessionId session, absl::Span<const core::DirectorWord> words) {
    const std::shared_ptr<SessionCall> call = Find(session);
    return call != nullptr && call->Say(words);
  }

  void End(core::SessionId session, const absl::Status& why) {
    if (const std::shared_ptr<SessionCall> call = Find(session)) call->Cancel(why);
  }

  void NotWritten(const core::FenceToken& token) {
    {
      base::MutexLock lock(mutex_);
      if (stopping_) return;
    }
    listener_->OnNotWritten(token);
  }

 private:
  struct Peer {
    bool for_ever = false;
    absl::Duration announced_at = {};
    std::unique_ptr<v1::AgentService::Stub> stub = nullptr;
    // Null while it is not dialled.
    std::shared_ptr<SessionCall> call = nullptr;
    // Of its last opening, or as it announced itself.
    std::string name = {};
    bool is_open = false;
    // A Session was open at some time.
    bool was_reached = false;
    // When it was last dialled, and what became of that so far.
    absl::Duration dialled_at = {};
    DialledSession session = {};
    bool had_unknown_items = false;
    // The last refusal that was logged.
    std::string refusal = {};
    uint32_t failures = 0;
    // Null when it is not to be dialled again.
    std::unique_ptr<grpc::Alarm> redial = nullptr;
    absl::Duration redial_at = {};
  };

  std::shared_ptr<SessionCall> Find(core::SessionId session) {
    base::MutexLock lock(mutex_);
    const auto found = calls_.find(session);
    return found == calls_.end() ? nullptr : found->second;
  }

  void Call(const std::string& address, Peer& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (listener_ == nullptr || stopping_) return;
    if (peer.stub == nullptr) {
      peer.stub = v1::AgentService::NewStub(NewChannel(address, options_.keepalive));
    }
    const core::SessionId session(++last_session_);
    SessionCall::Events events = {
        .on_words =
            [core = shared_from_this(), address](SessionCall& call,
                                                 const std::vector<core::AgentWord>& words) {
              return core->OnWords(address, call, words);
            },
        .on_put_off = [core = shared_from_this()] { core->PlanReads(); },
        .on_done =
            [core = shared_from_this(), address](SessionCall& call, const absl::Status& why,
                                                 std::vector<core::FenceToken> unwritten) {
              core->OnDone(address, call, why, unwritten);
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

  // Its channel is not used any more.
  void Retire(Peer& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (peer.stub != nullptr) retired_.push_back(std::move(peer.stub));
  }

  void HangUp(Peer& peer, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (const std::shared_ptr<SessionCall> call = std::exchange(peer.call, nullptr)) {
      call->Cancel(why);
    }
  }

  bool OnWords(const std::string& address, SessionCall& call,
               const std::vector<core::AgentWord>& words) {
    std::vector<core::AgentItem> items;
    uint64_t unknown = 0;
    for (const core::AgentWord& word : words) {
      if (const auto* opened = std::get_if<core::AgentOpened>(&word)) {
        if (!NoteOpened(address, call, opened->name)) return true;
        core::AgentOpened told = *opened;
        if (told.url.empty()) told.url = absl::StrCat("grpc://", address);
        if (!listener_->OnOpened(call.id(), told)) return false;
      } else if (const auto* item = std::get_if<core::AgentItem>(&word)) {
        items.push_back(*item);
      } else if (std::holds_alternative<core::UnknownItem>(word)) {
        ++unknown;
      }
    }
    if (!items.empty() && !listener_->OnItems(call.id(), items)) return false;
    NoteHeard(address, call, items, unknown);
    for (const core::AgentItem& item : items) {
      const auto* heartbeat = std::get_if<core::Heartbeat>(&item);
      if (heartbeat != nullptr) call.Say({core::HeartbeatAcknowledged{heartbeat->agent_time}});
    }
    for (const core::AgentWord& word : words) {
      const auto* output = std::get_if<core::OutputWritten>(&word);
      if (output != nullptr) listener_->OnOutput(call.id(), *output);
    }
    return true;
  }

  // False when the call is no longer its peer's.
  bool NoteOpened(const std::string& address, const SessionCall& call, const std::string& name) {
    base::MutexLock lock(mutex_);
    const auto peer = peers_.find(address);
    if (peer == peers_.end() || peer->second.call.get() != &call) return false;
    peer->second.name = name;
    peer->second.is_open = true;
    peer->second.was_reached = true;
    peer->second.session.opened = true;
    peer->second.refusal.clear();
    ForgetOthers(address, name);
    return true;
  }

  // The agent moved: nobody is at its old address any more.
  void ForgetOthers(const std::string& address, const std::string& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (auto entry = peers_.begin(); entry != peers_.end();) {
      auto& [other, peer] = *entry;
      const bool is_in_use = peer.for_ever || (peer.was_reached && peer.call != nullptr);
      if (peer.name != name || other == address || is_in_use) {
        ++entry;
        continue;
      }
      HangUp(peer, absl::CancelledError("the agent moved"));
      Retire(peer);
      entry = peers_.erase(entry);
    }
  }

  // Announced addresses that were never reached.
  ptrdiff_t Unreached() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::count_if(peers_.begin(), peers_.end(), [](const auto& entry) {
      return !entry.second.for_ever && !entry.second.was_reached;
    });
  }

  void NoteHeard(const std::string& address, const SessionCall& call,
                 absl::Span<const core::AgentItem> items, uint64_t unknown) {
    const bool did_work = std::any_of(items.begin(), items.end(), [](const auto& item) {
      return std::holds_alternative<core::StartAnswered>(item) ||
             std::holds_alternative<core::RunEnded>(item);
    });
    if (!did_work && unknown == 0) return;
    unknown_items_ += unknown;
    base::MutexLock lock(mutex_);
    const auto found = peers_.find(address);
    if (found == peers_.end() || found->second.call.get() != &call) return;
    Peer& peer = found->second;
    peer.session.did_work = peer.session.did_work || did_work;
    if (unknown > 0 && !std::exchange(peer.had_unknown_items, true)) {
      base::LogWarning("agent", "unknown_items",
                       {{"name", peer.name},
                        {"address", address},
                        {"next", "they are ignored; the agent may be newer than this director"}});
    }
  }

  void OnDone(const std::string& address, SessionCall& call, const absl::Status& why,
              const std::vector<core::FenceToken>& unwritten) {
    bool was_open = false;
    bool is_new_refusal = false;
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
        // Its channel would dial by itself, again and again.
        if (!was_open) Retire(peer);
        if (!was_open && core::IsSessionRefusal(why)) {
          const std::string before = std::exchange(peer.refusal, why.ToString());
          is_new_refusal = peer.refusal != before;
        }
        PlanRedial(address, peer);
      }
    }
    for (const core::FenceToken& token : unwritten) listener_->OnNotWritten(token);
    if (is_new_refusal) {
      base::LogWarning("agent", "refused",
                       {{"name", name},
                        {"address", address},
                        {"code", absl::StatusCodeToString(why.code())},
                        {"error", why.message()}});
    }
    if (was_open) {
      base::LogWarning("agent", "session_broken",
                       {{"name", name}, {"address", address}, {"error", why.message()}});
      listener_->OnBroken(call.id(), why);
    } else if (!name.empty()) {
      listener_->OnUnreachable(name, why);
    }
    base::MutexLock lock(mutex_);
    calls_.erase(call.id());
    changed_.NotifyAll();
  }

  // Looks after those who put their reading off, until nobody does.
  void PlanReads() {
    base::MutexLock lock(mutex_);
    if (stopping_ || reads_ != nullptr) return;
    reads_ = std::make_unique<grpc::Alarm>();
    SetAlarm(*reads_, kReadOnAfter, [weak = weak_from_this()] {
      if (const auto core = weak.lock()) core->OnReadsDue();
    });
  }

  void OnReadsDue() {
    std::vector<std::shared_ptr<SessionCall>> calls;
    {
      base::MutexLock lock(mutex_);
      reads_ = nullptr;
      for (const auto& [session, call] : calls_) calls.push_back(call);
    }
    bool more = false;
    for (const std::shared_ptr<SessionCall>& call : calls) more = call->ReadOn() || more;
    if (more) PlanReads();
  }

  void PlanRedial(const std::string& address, Peer& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (stopping_) return;
    const absl::Duration now = clock_.MonotonicNow();
    peer.session.stood = now - peer.dialled_at;
    peer.failures = FailuresAfter(peer.session, peer.failures, options_.redial_max);
    RedialLater(address, peer);
  }

  void RedialLater(const std::string& address, Peer& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto shared = [this](absl::Duration wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return LongestRedial(Waiting(), options_.redials_per_second, wait);
    };
    // Agents that were lost together come back soon. Addresses that were never reached keep to the
    // rate from the beginning.
    const bool is_known = peer.was_reached || peer.for_ever;
    const absl::Duration shortest = is_known ? options_.redial_min : shared(options_.redial_min);
    RedialAt(address, peer,
             clock_.MonotonicNow() +
                 RedialAfter(address, peer.failures, shortest, shared(options_.redial_max)));
  }

  void RedialAt(const std::string& address, Peer& peer, absl::Duration at)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    peer.redial_at = at;
    peer.redial = std::make_unique<grpc::Alarm>();
    SetAlarm(*peer.redial, at - clock_.MonotonicNow(), [weak = weak_from_this(), address] {
      if (const auto core = weak.lock()) core->OnRedialDue(address);
    });
  }

  // Agents that are not connected and wait to be dialled.
  size_t Waiting() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return peers_.size() - std::min(peers_.size(), calls_.size());
  }

  void OnRedialDue(const std::string& address) {
    base::MutexLock lock(mutex_);
    const auto found = peers_.find(address);
    if (found == peers_.end() || found->second.call != nullptr) return;
    Peer& peer = found->second;
    const absl::Duration silent = clock_.MonotonicNow() - peer.announced_at;
    if (!peer.for_ever && silent > options_.forget_after) {
      Retire(peer);
      peers_.erase(found);
      return;
    }
    Call(address, peer);
  }

  const LinkOptions options_;
  const ports::Clock& clock_;
  std::atomic<uint64_t> unknown_items_ = 0;

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  FirstDials first_dials_ ABSL_GUARDED_BY(mutex_);
  // Set once, before anything is called.
  ports::AgentListener* listener_ = nullptr;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_session_ ABSL_GUARDED_BY(mutex_) = 0;
  // By address.
  std::map<std::string, Peer> peers_ ABSL_GUARDED_BY(mutex_);
  // Their channels end when another is in use, or in Leave(): a thread of gRPC that ends the last
  // one would wait for itself.
  std::vector<std::unique_ptr<v1::AgentService::Stub>> retired_ ABSL_GUARDED_BY(mutex_);
  // While somebody puts its reading off.
  std::unique_ptr<grpc::Alarm> reads_ ABSL_GUARDED_BY(mutex_);
  // All that gRPC is not done with.
  std::map<core::SessionId, std::shared_ptr<SessionCall>> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace internal

GrpcAgentLink::GrpcAgentLink(const LinkOptions& options, const ports::Clock& clock)
    : core_(std::make_shared<internal::LinkCore>(options, clock)) {}

GrpcAgentLink::~GrpcAgentLink() { Stop(); }

void GrpcAgentLink::Start(ports::AgentListener& listener) { core_->Start(listener); }

void GrpcAgentLink::Leave(absl::Duration patience) { core_->Leave(patience); }

void GrpcAgentLink::Stop() { Leave(absl::ZeroDuration()); }

void GrpcAgentLink::Dial(const std::string& address, Known known, const std::string& name) {
  core_->Dial(address, known, name);
}

uint64_t GrpcAgentLink::unknown_items() const { return core_->unknown_items(); }

size_t GrpcAgentLink::addresses() const { return core_->addresses(); }

void GrpcAgentLink::Say(core::SessionId session, std::vector<core::DirectorItem> items) {
  const std::vector<core::DirectorWord> words(std::make_move_iterator(items.begin()),
                                              std::make_move_iterator(items.end()));
  if (core_->Say(session, words)) return;
  for (const core::DirectorWord& word : words) {
    const auto* start = std::get_if<core::StartRun>(&std::get<core::DirectorItem>(word));
    if (start != nullptr) core_->NotWritten(start->token);
  }
}

void GrpcAgentLink::Redial(uint64_t director_epoch) { core_->Redial(director_epoch); }

void GrpcAgentLink::Acknowledge(core::SessionId session,
                                const core::OutputAcknowledged& acknowledged) {
  core_->Say(session, {acknowledged});
}

void GrpcAgentLink::End(core::SessionId session, const absl::Status& why) {
  core_->End(session, why);
}

}  // namespace callboard::adapters
