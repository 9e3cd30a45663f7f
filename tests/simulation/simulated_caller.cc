#include "tests/simulation/simulated_caller.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/testing/submissions.h"
#include "libs/wire/spec.h"
#include "libs/wire/time.h"

namespace callboard::simulation {
namespace {

using core::QueuePolicy;

}  // namespace

SimulatedCaller::SimulatedCaller(SimulationContext& context, SimulatedDirector& director,
                                 Address address)
    : context_(context),
      director_(director),
      address_(address),
      identity_(absl::StrCat("caller-", address)),
      submits_left_(context.settings.submits_per_caller) {}

void SimulatedCaller::Start() {
  context_.timeline.After(absl::Milliseconds(context_.random.Below(20'000)), [this] { Next(); });
}

void SimulatedCaller::BecomeQuiet() { submits_left_ = 0; }

void SimulatedCaller::Next() {
  if (pending_.has_value() || submits_left_ == 0) return;
  --submits_left_;
  const Settings& settings = context_.settings;
  if (!sent_before_.empty() && context_.random.Chance(settings.repeats_request)) {
    pending_ = sent_before_[context_.random.Below(sent_before_.size())];
    pending_->ticket.clear();
  } else {
    pending_ = MakeSubmission();
    sent_before_.push_back(*pending_);
  }
  wants_ticket_ = context_.random.Chance(settings.uses_ticket);
  Retry();
}

core::Submission SimulatedCaller::MakeSubmission() {
  const Settings& settings = context_.settings;
  test::FakeRandom& random = context_.random;
  v1::SubmitTaskRequest request =
      test::MakeSubmit(absl::StrCat(identity_, " task ", ++last_request_));
  request.set_request_id(absl::StrCat("request-", last_request_));
  request.set_timeout_seconds(static_cast<uint32_t>(10 + random.Below(60)));
  const absl::Time now = context_.clock.WallNow();
  if (random.Chance(settings.uses_session)) {
    request.set_session_id(absl::StrCat("session-", random.Below(3)));
  }
  if (random.Chance(settings.uses_overlap)) {
    v1::Overlap& overlap = *request.mutable_overlap();
    overlap.set_key(absl::StrCat("key-", random.Below(2)));
    overlap.set_policy(random.Chance(0.5) ? v1::Overlap::POLICY_QUEUE_ONE
                                          : v1::Overlap::POLICY_SKIP);
    overlap.set_n(static_cast<uint32_t>(random.Below(3)));
  }
  if (random.Chance(settings.uses_delay)) {
    *request.mutable_earliest_start_at() = wire::ToProto(now + absl::Seconds(random.Below(60)));
  }
  if (random.Chance(settings.uses_deadline)) {
    *request.mutable_deadline_at() = wire::ToProto(now + absl::Seconds(60 + random.Below(300)));
  }
  if (settings.agents > 1 && random.Chance(settings.uses_labels)) {
    (*request.mutable_required_labels())["os"] = "linux";
  }
  if (random.Chance(settings.is_scheduler)) request.set_source("scheduler");
  if (random.Chance(settings.requeues_when_lost)) {
    request.set_on_agent_lost(v1::ON_AGENT_LOST_REQUEUE);
  }
  if (random.Chance(0.3)) request.add_retry_on("exit:*");
  if (random.Chance(0.5)) request.set_policy(v1::QUEUE_POLICY_BLOCK);
  if (random.Chance(0.1)) request.set_policy(v1::QUEUE_POLICY_DROP_OLDEST);
  return test::ToSubmission(std::move(request), settings.engine.queue.max_attempts);
}

// A call without special rights, so that the order of arrival is the order of admission.
bool SimulatedCaller::WaitsInOrder() const {
  const core::TaskSpec& spec = pending_->spec;
  return pending_->policy == QueuePolicy::kBlock && pending_->ticket.empty() &&
         !spec.terms.overlap.has_value() && spec.terms.source != core::TaskSource::kScheduler;
}

void SimulatedCaller::Retry() {
  call_ = 0;
  context_.timeline.After(absl::Milliseconds(10 + context_.random.Below(5000)), [this] {
    if (!pending_.has_value() || call_ != 0) return;
    if (wants_ticket_ && pending_->ticket.empty()) {
      Reserve();
    } else {
      Submit();
    }
  });
}

void SimulatedCaller::FinishRequest() {
  pending_.reset();
  call_ = 0;
  Start();
}

void SimulatedCaller::Reserve() {
  const director::CallId id = director_.NewCallId();
  call_ = id.value();
  context_.network.Send(address_, kDirector, [this, id] {
    director_.Post(director::MakeCommand(
        {.call = id},
        [this](director::DirectorEngine& engine, director::Moment now) {
          return engine.ReserveSlot(identity_, absl::Seconds(30), now);
        },
        [this, id](const director::Decision& decision) {
          director_.SendToCaller(address_,
                                 [this, id, decision] { OnDecision(id.value(), decision); });
        }));
  });
  // The wait for a ticket is bounded.
  context_.timeline.After(absl::Seconds(40), [this, id] {
    if (call_ != id.value()) return;
    director_.Post(director::CancelWaitCommand(id));
    wants_ticket_ = false;
    Retry();
  });
}

void SimulatedCaller::Submit() {
  const director::CallId id = director_.NewCallId();
  call_ = id.value();
  const bool takes_its_turn = WaitsInOrder();
  context_.network.Send(address_, kDirector, [this, id, takes_its_turn, submission = *pending_] {
    // A request is dropped if its caller has left.
    if (call_ != id.value()) return;
    Referee& referee = context_.referee;
    const bool posted = director_.Post(director::SubmitCommand(
        id, identity_, core::Submission(submission), context_.clock.WallNow(),
        [this, id, takes_its_turn, &referee,
         request_id = submission.spec.request_id](const director::Decision& decision) {
          const auto* submitted = std::get_if<director::SubmitResult>(&decision);
          if (takes_its_turn) {
            referee.OnBlockingSubmitAnswered(id.value(),
                                             submitted != nullptr && !submitted->deduplicated);
          }
          director_.SendToCaller(address_, [this, id, request_id, decision] {
            if (const auto* accepted = std::get_if<director::SubmitResult>(&decision)) {
              OnSubmitted(*accepted, request_id);
            }
            OnDecision(id.value(), decision);
          });
        }));
    if (posted && takes_its_turn) referee.OnBlockingSubmit(id.value());
    if (context_.random.Chance(context_.settings.repeats_request)) SubmitDuplicate(submission);
  });
  const bool leaves = !context_.quiet && context_.random.Chance(context_.settings.leaves);
  context_.timeline.After(
      leaves ? absl::Milliseconds(context_.random.Below(20'000)) : absl::Seconds(150), [this, id] {
        if (call_ != id.value()) return;
        director_.Post(director::CancelWaitCommand(id));
        Retry();
      });
}

// Sends the same request again while the first may still wait, as a proxy that repeats calls does.
void SimulatedCaller::SubmitDuplicate(const core::Submission& submission) {
  director_.Post(director::SubmitCommand(
      director_.NewCallId(), identity_, core::Submission(submission), context_.clock.WallNow(),
      [this, request_id = submission.spec.request_id](const director::Decision& decision) {
        const auto* submitted = std::get_if<director::SubmitResult>(&decision);
        if (submitted == nullptr) return;
        context_.referee.OnSubmitAcknowledged(identity_, request_id, submitted->queue_id,
                                              submitted->deduplicated);
      }));
}

void SimulatedCaller::OnDirectorDied() {
  if (call_ == 0) return;
  if (pending_.has_value()) Retry();
}

void SimulatedCaller::OnDecision(uint64_t call, const director::Decision& decision) {
  if (call != call_ || !pending_.has_value()) return;
  if (const auto* granted = std::get_if<director::GrantedTicket>(&decision)) {
    pending_->ticket = granted->ticket;
    return Retry();
  }
  if (std::holds_alternative<director::SubmitResult>(decision)) return FinishRequest();
  const absl::Status& error = std::get<absl::Status>(decision);
  const std::string reason = base::GetErrorDetails(error).reason;
  if (reason == "TICKET_EXPIRED" || reason == "TOO_MANY_TICKETS") {
    pending_->ticket.clear();
    wants_ticket_ = false;
    return Retry();
  }
  if (error.code() == absl::StatusCode::kUnavailable ||
      error.code() == absl::StatusCode::kCancelled) {
    return Retry();
  }
  // A full queue or a rejected submit is a final answer.
  FinishRequest();
}

void SimulatedCaller::OnSubmitted(const director::SubmitResult& submitted,
                                  const std::string& request_id) {
  const core::QueueId id = submitted.queue_id;
  if (!request_id.empty()) {
    context_.referee.OnSubmitAcknowledged(identity_, request_id, id, submitted.deduplicated);
  }
  if (context_.quiet) return;
  const Settings& settings = context_.settings;
  if (context_.random.Chance(settings.cancels)) {
    context_.timeline.After(absl::Milliseconds(context_.random.Below(60'000)),
                            [this, id] { Cancel(id); });
  }
  if (context_.random.Chance(settings.redrives)) {
    context_.timeline.After(absl::Seconds(context_.random.Below(300)), [this, id] { Redrive(id); });
  }
}

void SimulatedCaller::Cancel(core::QueueId id) {
  if (context_.quiet) return;
  context_.network.Send(address_, kDirector, [this, id] {
    director_.Post(director::MakeCommand(
        {},
        [this, id](director::DirectorEngine& engine, director::Moment now) {
          return engine.Cancel(id, identity_, "", now);
        },
        [this, id](absl::StatusOr<director::CancelResult> answer) {
          if (!answer.ok() || *answer == director::CancelResult::kAlreadyEnded) return;
          director_.SendToCaller(address_,
                                 [this, id] { context_.referee.OnCancelAcknowledged(id); });
        }));
  });
}

void SimulatedCaller::Redrive(core::QueueId id) {
  if (context_.quiet) return;
  context_.network.Send(address_, kDirector, [this, id] {
    director_.Post(director::MakeCommand(
        {},
        [this, id](director::DirectorEngine& engine,
                   director::Moment now) -> absl::StatusOr<director::Decision> {
          const core::SpecBytes spec = director_.StoredSpec(id);
          if (spec == nullptr) return director::TaskNotFound(id);
          ASSIGN_OR_RETURN(core::Submission submission, wire::MakeRedrive(*spec, id));
          return engine.Redrive(id, std::move(submission), identity_, now);
        },
        [](const absl::StatusOr<director::Decision>&) {}));
  });
}

}  // namespace callboard::simulation
