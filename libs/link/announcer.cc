#include "libs/link/announcer.h"

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
#include "libs/base/log.h"
#include "libs/base/mutex.h"
#include "libs/wire/alarm.h"
#include "libs/wire/status.h"
#include "libs/wire/time.h"

namespace callboard::link {
namespace internal {
namespace {

// The delay before the next attempt when a director did not answer, and the timeout of a call.
constexpr absl::Duration kRetryDelay = absl::Seconds(1);
constexpr absl::Duration kCallTimeout = absl::Seconds(5);
// Bounds on the delay that a director asks for.
constexpr absl::Duration kDelayMin = absl::Milliseconds(100);
constexpr absl::Duration kDelayMax = absl::Minutes(1);

// Returns what the operator should check.
absl::string_view NextStep(const absl::Status& failure) {
  const bool is_unreachable = absl::IsUnavailable(failure) || absl::IsDeadlineExceeded(failure);
  return is_unreachable
             ? "check that the director runs and that director.address is its gRPC port; "
               "the agent retries"
             : "check agent.name and agent.advertise; the agent retries";
}

}  // namespace

class AnnouncerCore : public std::enable_shared_from_this<AnnouncerCore> {
 public:
  explicit AnnouncerCore(const std::string& director_address)
      : director_address_(director_address),
        stub_(v1::FleetService::NewStub(
            grpc::CreateChannel(director_address, grpc::InsecureChannelCredentials()))) {}

  void Start(const Announcement& announcement) {
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
    // Two timers may have fired.
    if (stopping_ || context_.has_value()) return;
    alarm_.reset();
    context_.emplace();
    context_->set_deadline(
        gpr_time_from_millis(absl::ToInt64Milliseconds(kCallTimeout), GPR_TIMESPAN));
    stub_->async()->AnnounceAgent(&*context_, &request_, &response_,
                                  [self = shared_from_this()](const grpc::Status& status) {
                                    self->OnAnswer(wire::FromGrpc(status));
                                  });
  }

  void AnnounceSoon() {
    base::MutexLock lock(mutex_);
    // With a delay: otherwise a director that ends every Session would receive endless
    // announcements.
    if (alarm_ != nullptr) AnnounceAfter(kRetryDelay);
  }

  void Stop() {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    alarm_.reset();
    if (context_.has_value()) context_->TryCancel();
    while (context_.has_value()) call_done_.Wait(mutex_);
    // Destroy the channel here: its destruction waits for gRPC's threads, so it must not run on
    // one.
    stub_.reset();
  }

 private:
  void OnAnswer(const absl::Status& status) {
    base::MutexLock lock(mutex_);
    context_.reset();
    call_done_.NotifyAll();
    if (stopping_) return;
    // Logs each change of the result once, not every failed attempt.
    if (status.code() != last_code_) {
      if (status.ok()) {
        base::LogInfo("agent", "announced", {{"director", director_address_}});
      } else {
        base::LogWarning("agent", "announce_failed",
                         {{"director", director_address_},
                          {"error", status.message()},
                          {"next", NextStep(status)}});
      }
    }
    last_code_ = status.code();
    absl::Duration wait = kRetryDelay;
    if (status.ok()) {
      wait = wire::FromProto(response_.announce_again_after()).value_or(kRetryDelay);
      wait = std::clamp(wait, kDelayMin, kDelayMax);
    }
    AnnounceAfter(wait);
  }

  void AnnounceAfter(absl::Duration wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    alarm_ = std::make_unique<grpc::Alarm>();
    wire::SetAlarm(*alarm_, wait, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Announce();
    });
  }

  const std::string director_address_;
  v1::AnnounceAgentRequest request_;

  base::Mutex mutex_;
  base::CondVar call_done_;
  std::unique_ptr<v1::FleetService::Stub> stub_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Present while a call is pending.
  std::optional<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
  v1::AnnounceAgentResponse response_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::StatusCode> last_code_ ABSL_GUARDED_BY(mutex_);
  // Set while no call is pending.
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace internal

Announcer::Announcer(const std::string& director_address)
    : core_(std::make_shared<internal::AnnouncerCore>(director_address)) {}

Announcer::~Announcer() { core_->Stop(); }

void Announcer::Start(const Announcement& announcement) { core_->Start(announcement); }

void Announcer::AnnounceSoon() { core_->AnnounceSoon(); }

}  // namespace callboard::link
