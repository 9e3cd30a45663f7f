#include "libs/director/submit_stream.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "libs/director/engine.h"

namespace callboard::director {

void FailResult(absl::StatusOr<std::vector<SubmitStream::Answer>>& answers,
                const absl::Status& why) {
  for (SubmitStream::Answer& answer : *answers) answer.decision = why;
}

SubmitStream::SubmitStream(Deps deps, Callbacks callbacks)
    : deps_(std::move(deps)), callbacks_(std::move(callbacks)) {}

bool SubmitStream::Submit(std::vector<Item> items) {
  const size_t count = items.size();
  const uint64_t first = std::exchange(submitted_, submitted_ + count);
  return Post(MakeCommand(
      {.weight = std::max<size_t>(1, count)},
      [self = shared_from_this(), batch = Items{first, std::move(items)}](
          DirectorEngine& engine, WaiterTable& waiters,
          Moment now) mutable -> std::optional<std::vector<Answer>> {
        if (self->stopped_) return std::nullopt;
        self->backlog_.push_back(std::move(batch));
        if (self->has_waiting_item_) return std::nullopt;
        return self->DecideBacklog(engine, waiters, now);
      },
      [self = shared_from_this(), first, count](absl::StatusOr<std::vector<Answer>> answers) {
        if (answers.ok()) return self->AddAnswers(*std::move(answers));
        std::vector<Answer> failed;
        for (size_t i = 0; i < count; ++i) failed.push_back({first + i, answers.status()});
        self->AddAnswers(std::move(failed));
      }));
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

std::optional<std::vector<SubmitStream::Answer>> SubmitStream::DecideBacklog(DirectorEngine& engine,
                                                                             WaiterTable& waiters,
                                                                             Moment now) {
  std::vector<Answer> answers;
  while (!has_waiting_item_ && !backlog_.empty()) {
    Items& items = backlog_.front();
    if (items.size() == 0) {
      backlog_.pop_front();
      continue;
    }
    Item& item = items.all[items.decided++];
    const uint64_t index = items.index++;
    Decision decision = item.ok() ? engine.Submit(*std::move(item), now) : item.status();
    const auto* waiter = std::get_if<WaiterId>(&decision);
    if (waiter == nullptr) {
      answers.push_back({index, std::move(decision)});
      continue;
    }
    has_waiting_item_ = true;
    CommandPtr waiting = MakeCommand(
        {.call = deps_.call},
        [waiter = *waiter](DirectorEngine&, Moment) -> Decision { return waiter; },
        [self = shared_from_this(), index](const Decision& answer) {
          self->OnWaiterAnswered(index, answer);
        });
    waiting->Decide(engine, waiters, now);
    waiters.Add(std::move(waiting));
  }
  if (answers.empty()) return std::nullopt;
  return answers;
}

std::vector<SubmitStream::Answer> SubmitStream::FailBacklog(const absl::Status& why) {
  has_waiting_item_ = false;
  std::vector<Answer> answers;
  for (const Items& items : std::exchange(backlog_, {})) {
    for (size_t i = 0; i < items.size(); ++i) answers.push_back({items.index + i, why});
  }
  return answers;
}

void SubmitStream::OnWaiterAnswered(uint64_t index, const Decision& decision) {
  AddAnswers({{index, decision}});
  deps_.post_always(MakeCommand(
      {.origin = Command::Origin::kLink},
      [self = shared_from_this()](DirectorEngine& engine, WaiterTable& waiters, Moment now) {
        self->has_waiting_item_ = false;
        if (self->stopped_) self->backlog_.clear();
        return self->DecideBacklog(engine, waiters, now);
      },
      [self = shared_from_this()](absl::StatusOr<std::vector<Answer>> answers) {
        self->AddAnswers(answers.ok() ? *std::move(answers) : self->FailBacklog(answers.status()));
      }));
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
