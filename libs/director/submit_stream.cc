#include "libs/director/submit_stream.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "libs/director/engine.h"

namespace callboard::director {

// Base of the commands that decide items of the stream.
class SubmitStream::StreamCommand : public Command {
 public:
  StreamCommand(Origin origin, std::shared_ptr<SubmitStream> stream)
      : Command(Access::kWrite, origin), stream_(std::move(stream)) {}

  void SendReply() final { stream_->AddAnswers(std::move(answers_)); }
  void Fail(const absl::Status& why) final {
    for (Answer& answer : answers_) answer.decision = why;
    FailUndecided(why, answers_);
    stream_->AddAnswers(std::move(answers_));
  }

 protected:
  SubmitStream& stream() { return *stream_; }
  std::vector<Answer>& answers() { return answers_; }
  DecideResult ReplyIfDecided() const {
    return answers_.empty() ? DecideResult::kNoReply : DecideResult::kReply;
  }

 private:
  // Adds answers for the items that are not decided yet.
  virtual void FailUndecided(const absl::Status& why, std::vector<Answer>& answers) = 0;

  const std::shared_ptr<SubmitStream> stream_;
  std::vector<Answer> answers_;
};

// Decides the items of one message.
class SubmitStream::BatchCommand final : public StreamCommand {
 public:
  BatchCommand(std::shared_ptr<SubmitStream> stream, Items items)
      : StreamCommand(Origin::kCaller, std::move(stream)), items_(std::move(items)) {}

  size_t weight() const override { return std::max<size_t>(1, items_.size()); }
  DecideResult Decide(DirectorEngine& engine, WaiterTable& waiters, Moment now) override {
    if (stream().stopped_) return DecideResult::kNoReply;
    if (stream().has_waiting_item_) {
      stream().backlog_.push_back(std::move(items_));
      return DecideResult::kNoReply;
    }
    stream().Decide(std::exchange(items_, {}), engine, waiters, now, answers());
    return ReplyIfDecided();
  }

 private:
  void FailUndecided(const absl::Status& why, std::vector<Answer>& answers) override {
    items_.Fail(why, answers);
  }

  Items items_;
};

// Decides the backlog after the waiting item was answered.
class SubmitStream::BacklogCommand final : public StreamCommand {
 public:
  explicit BacklogCommand(std::shared_ptr<SubmitStream> stream)
      : StreamCommand(Origin::kLink, std::move(stream)) {}

  DecideResult Decide(DirectorEngine& engine, WaiterTable& waiters, Moment now) override {
    stream().has_waiting_item_ = false;
    if (stream().stopped_) stream().backlog_.clear();
    while (!stream().has_waiting_item_ && !stream().backlog_.empty()) {
      Items items = std::move(stream().backlog_.front());
      stream().backlog_.pop_front();
      stream().Decide(std::move(items), engine, waiters, now, answers());
    }
    is_decided_ = true;
    return ReplyIfDecided();
  }

 private:
  void FailUndecided(const absl::Status& why, std::vector<Answer>& answers) override {
    if (is_decided_) return;
    stream().has_waiting_item_ = false;
    for (const Items& items : std::exchange(stream().backlog_, {})) items.Fail(why, answers);
  }

  bool is_decided_ = false;
};

// Represents an item that waits for a place in the WaiterTable.
class SubmitStream::WaitingItemCommand final : public AdmissionCommand {
 public:
  WaitingItemCommand(CallId call, WaiterId waiter, Reply reply)
      : AdmissionCommand(call, std::move(reply)) {
    SetDecision(waiter);
  }

 private:
  Decision Evaluate(DirectorEngine&, Moment) override { return decision(); }
};

void SubmitStream::Items::Fail(const absl::Status& why, std::vector<Answer>& answers) const {
  for (size_t i = 0; i < size(); ++i) answers.push_back({index + i, why});
}

SubmitStream::SubmitStream(Deps deps, Callbacks callbacks)
    : deps_(std::move(deps)), callbacks_(std::move(callbacks)) {}

bool SubmitStream::Submit(std::vector<Item> items) {
  const uint64_t index = std::exchange(submitted_, submitted_ + items.size());
  return Post(std::make_unique<BatchCommand>(shared_from_this(), Items{index, std::move(items)}));
}

bool SubmitStream::Post(CommandPtr command) {
  base::MutexLock lock(mutex_);
  // If there is room before `unposted_command_` is set, RetryPost() waits for the lock and then
  // finds the command.
  const auto on_room = [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->RetryPost();
  };
  if (deps_.post(command, on_room)) return true;
  unposted_command_ = std::move(command);
  return false;
}

void SubmitStream::RetryPost() {
  CommandPtr command;
  {
    base::MutexLock lock(mutex_);
    command = std::move(unposted_command_);
  }
  if (command != nullptr && !stopped_ && Post(std::move(command))) callbacks_.on_room();
}

void SubmitStream::Decide(Items items, DirectorEngine& engine, WaiterTable& waiters, Moment now,
                          std::vector<Answer>& answers) {
  while (items.size() > 0) {
    Item& item = items.all[items.decided++];
    const uint64_t index = items.index++;
    Decision decision = item.ok() ? engine.Submit(*std::move(item), now) : item.status();
    const auto* waiter = std::get_if<WaiterId>(&decision);
    if (waiter == nullptr) {
      answers.push_back({index, std::move(decision)});
      continue;
    }
    has_waiting_item_ = true;
    waiters.Add(std::make_unique<WaitingItemCommand>(
        deps_.call, *waiter, [self = shared_from_this(), index](const Decision& answer) {
          self->OnWaiterAnswered(index, answer);
        }));
    if (items.size() > 0) backlog_.push_front(std::move(items));
    return;
  }
}

void SubmitStream::OnWaiterAnswered(uint64_t index, const Decision& decision) {
  AddAnswers({{index, decision}});
  deps_.post_always(std::make_unique<BacklogCommand>(shared_from_this()));
}

void SubmitStream::AddAnswers(std::vector<Answer> answers) {
  bool has_more = false;
  {
    base::MutexLock lock(mutex_);
    for (Answer& answer : answers) {
      // The spec may be large, and readers of answers do not need it.
      if (auto* submitted = std::get_if<SubmitResult>(&answer.decision)) {
        submitted->admitted.spec = nullptr;
      }
      if (answer.index != next_) {
        out_of_order_.emplace(answer.index, std::move(answer.decision));
        continue;
      }
      ++next_;
      ready_.push_back(std::move(answer));
    }
    for (; !out_of_order_.empty() && out_of_order_.begin()->first == next_;
         out_of_order_.erase(out_of_order_.begin())) {
      ready_.push_back({next_++, std::move(out_of_order_.begin()->second)});
    }
    has_more = !ready_.empty();
  }
  if (has_more) callbacks_.on_answers();
}

std::vector<SubmitStream::Answer> SubmitStream::TakeAnswers(size_t most) {
  base::MutexLock lock(mutex_);
  const auto end = ready_.begin() + static_cast<ptrdiff_t>(std::min(most, ready_.size()));
  std::vector<Answer> taken(std::make_move_iterator(ready_.begin()), std::make_move_iterator(end));
  ready_.erase(ready_.begin(), end);
  return taken;
}

void SubmitStream::Stop(std::shared_ptr<const void> owner) {
  stopped_ = true;
  deps_.post_always(CancelWaitCommand(deps_.call, std::move(owner)));
}

}  // namespace callboard::director
