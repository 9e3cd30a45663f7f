#include "services/agent/session_reactor.h"

#include <utility>
#include <variant>
#include <vector>

#include "libs/base/error.h"
#include "libs/base/status_macros.h"
#include "libs/wire/session.h"
#include "libs/wire/status.h"

namespace callboard {

// Thread-safe.
class SessionReactor::Line final : public agent::SessionLine {
 public:
  explicit Line(SessionReactor& reactor) : reactor_(&reactor) {}

  void Say(absl::Span<const core::AgentWord> words) override {
    std::vector<v1::SessionResponse::Item> items;
    items.reserve(words.size());
    for (const core::AgentWord& word : words) items.push_back(wire::ToProto(word));
    base::MutexLock lock(mutex_);
    if (end_.has_value()) return;
    for (v1::SessionResponse::Item& item : items) {
      if (item.has_logs()) {
        outgoing_.AddOutput(std::move(item));
      } else {
        outgoing_.Add(std::move(item));
      }
    }
    Go();
  }

  void End(const absl::Status& why) override {
    base::MutexLock lock(mutex_);
    if (end_.has_value()) return;
    end_ = why;
    Go();
  }

  void OnWritten(bool ok) {
    base::MutexLock lock(mutex_);
    writing_ = false;
    if (!ok && !end_.has_value()) end_ = absl::CancelledError("the director has left");
    Go();
  }

  // Nothing is asked of the reactor any more.
  void Detach() {
    base::MutexLock lock(mutex_);
    reactor_ = nullptr;
    if (!end_.has_value()) end_ = absl::CancelledError("the director has left");
  }

 private:
  // gRPC hears of a write or an end later, on a thread of its own: it never comes back into this.
  void Go() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (reactor_ == nullptr || writing_ || finished_) return;
    if (end_.has_value()) {
      finished_ = true;
      reactor_->Finish(wire::ToGrpc(*end_));
    } else if (!outgoing_.empty()) {
      current_ = outgoing_.Take();
      writing_ = true;
      reactor_->StartWrite(&current_);
    }
  }

  base::Mutex mutex_;
  SessionReactor* reactor_ ABSL_GUARDED_BY(mutex_);
  wire::OutgoingItems<v1::SessionResponse> outgoing_ ABSL_GUARDED_BY(mutex_);
  v1::SessionResponse current_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

SessionReactor::SessionReactor(agent::AgentDriver& driver, std::function<void()> on_end)
    : driver_(driver), on_end_(std::move(on_end)), line_(std::make_shared<Line>(*this)) {
  StartRead(&incoming_);
}

absl::Status SessionReactor::HearMessage() {
  std::vector<core::DirectorWord> words;
  for (const v1::SessionRequest::Item& item : incoming_.items()) {
    ASSIGN_OR_RETURN(core::DirectorWord word, wire::FromProto(item));
    // An item of a later version may come before `open`.
    if (!session_.has_value() && std::holds_alternative<core::UnknownItem>(word)) continue;
    const auto* terms = std::get_if<core::SessionTerms>(&word);
    if (terms != nullptr && !session_.has_value()) {
      session_ = driver_.Open(line_, *terms);
    } else if (terms == nullptr && session_.has_value()) {
      words.push_back(std::move(word));
    } else {
      return base::WithReason(
          absl::InvalidArgumentError("a Session begins with `open`, once, and nothing before"),
          "BAD_SESSION");
    }
  }
  if (!words.empty()) driver_.Hear(*session_, std::move(words));
  return absl::OkStatus();
}

void SessionReactor::OnReadDone(bool ok) {
  // The director has said all that it will: it goes.
  if (!ok) return line_->End(absl::OkStatus());
  if (const absl::Status heard = HearMessage(); !heard.ok()) return line_->End(heard);
  StartRead(&incoming_);
}

void SessionReactor::OnWriteDone(bool ok) { line_->OnWritten(ok); }

void SessionReactor::OnCancel() { line_->End(absl::CancelledError("the director has left")); }

void SessionReactor::OnDone() {
  line_->Detach();
  if (session_.has_value()) {
    driver_.OnBroken(*session_);
    on_end_();
  }
  delete this;
}

}  // namespace callboard
