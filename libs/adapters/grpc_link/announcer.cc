#include "libs/adapters/grpc_link/announcer.h"

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "callboard/v1/fleet.grpc.pb.h"
#include "libs/adapters/grpc_link/session_call.h"
#include "libs/base/log.h"
#include "libs/base/mutex.h"
#include "libs/wire/status.h"
#include "libs/wire/time.h"

namespace callboard::adapters {
namespace internal {
namespace {

// How soon a director that did not answer is told again, and how long it may take to answer.
constexpr absl::Duration kAgainAfter = absl::Seconds(1);
constexpr absl::Duration kAnswerWithin = absl::Seconds(5);
// Whatever a director asks for.
constexpr absl::Duration kAgainAfterMin = absl::Milliseconds(100);
constexpr absl::Duration kAgainAfterMax = absl::Minutes(1);

// What an operator checks.
absl::string_view NextStep(const absl::Status& failure) {
  const bool is_silent = absl::IsUnavailable(failure) || absl::IsDeadlineExceeded(failure);
  return is_silent ? "check that the director runs and that director.address is its gRPC port; "
                     "it is asked again"
                   : "check agent.name and agent.advertise; it is asked again";
}

}  // namespace

class AnnouncerCore : public std::enable_shared_from_this<AnnouncerCore> {
 public:
  explicit AnnouncerCore(const std::string& director_address)
      : director_address_(director_address),
        stub_(v1::FleetService::NewStub(
            grpc::CreateChannel(director_address, grpc::InsecureChannelCredentials()))) {}

  void Begin(const Announcement& announcement) {
    request_.set_name(announcement.name);
    request_.set_address(announcement.address);
    request_.set_instance_id(announcement.instance_id);
    request_.mutable_labels()->insert(announcement.labels.begin(), announcement.labels.end());
    for (const auto& [name, slots] : announcement.lanes) {
      v1::Lane& lane = *request_.add_lanes();
      lane.set_name(name);
      lane.set_slots(slots);
    }
    Announce();
  }

  void Announce() {
    base::MutexLock lock(mutex_);
    // Two timers may have been due.
    if (stopping_ || context_.has_value()) return;
    again_.reset();
    context_.emplace();
    context_->set_deadline(
        gpr_time_from_millis(absl::ToInt64Milliseconds(kAnswerWithin), GPR_TIMESPAN));
    stub_->async()->AnnounceAgent(&*context_, &request_, &response_,
                                  [self = shared_from_this()](const grpc::Status& status) {
                                    self->OnAnswer(wire::FromGrpc(status));
                                  });
  }

  void Hurry() {
    base::MutexLock lock(mutex_);
    // Not at once: one that ends every Session would be told without end.
    if (again_ != nullptr) AnnounceAfter(kAgainAfter);
  }

  void Stop() {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    again_.reset();
    if (context_.has_value()) context_->TryCancel();
    while (context_.has_value()) answered_.Wait(mutex_);
    // The channel ends here, not on a thread of gRPC: gRPC waits for those then.
    stub_.reset();
  }

 private:
  void OnAnswer(const absl::Status& status) {
    base::MutexLock lock(mutex_);
    context_.reset();
    answered_.NotifyAll();
    if (stopping_) return;
    // Once for each change: a director that is away is away for a while.
    if (status.code() != last_) {
      if (status.ok()) {
        base::LogInfo("agent", "announced", {{"director", director_address_}});
      } else {
        base::LogWarning("agent", "announce_failed",
                         {{"director", director_address_},
                          {"error", status.message()},
                          {"next", NextStep(status)}});
      }
    }
    last_ = status.code();
    absl::Duration wait = kAgainAfter;
    if (status.ok()) {
      wait = wire::FromProto(response_.announce_again_after()).value_or(kAgainAfter);
      wait = std::clamp(wait, kAgainAfterMin, kAgainAfterMax);
    }
    AnnounceAfter(wait);
  }

  void AnnounceAfter(absl::Duration wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    again_ = std::make_unique<grpc::Alarm>();
    SetAlarm(*again_, wait, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Announce();
    });
  }

  const std::string director_address_;
  v1::AnnounceAgentRequest request_;

  base::Mutex mutex_;
  base::CondVar answered_;
  std::unique_ptr<v1::FleetService::Stub> stub_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // While a call is under way.
  std::optional<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
  v1::AnnounceAgentResponse response_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::StatusCode> last_ ABSL_GUARDED_BY(mutex_);
  // While none is.
  std::unique_ptr<grpc::Alarm> again_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace internal

Announcer::Announcer(const std::string& director_address)
    : core_(std::make_shared<internal::AnnouncerCore>(director_address)) {}

Announcer::~Announcer() { core_->Stop(); }

void Announcer::Announce(const Announcement& announcement) { core_->Begin(announcement); }

void Announcer::Hurry() { core_->Hurry(); }

}  // namespace callboard::adapters
