#include "libs/director/submit_stream.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

namespace callboard::director {

// A command that has decided some items.
class SubmitStream::Deciding : public Command {
 public:
  Deciding(From from, std::shared_ptr<SubmitStream> stream)
      : Command(Need::kWrite, from), stream_(std::move(stream)) {}

  void Say() final { stream_->Give(std::move(answers_)); }
  void Refuse(const absl::Status& why) final {
    for (Answer& answer : answers_) answer.decision = why;
    RefuseRest(why, answers_);
    stream_->Give(std::move(answers_));
  }

 protected:
  SubmitStream& stream() { return *stream_; }
  std::vector<Answer>& answers() { return answers_; }
  Then SayIfDecided() const { return answers_.empty() ? Then::kNothing : Then::kSay; }

 private:
  // What it has not decided yet.
  virtual void RefuseRest(const absl::Status& why, std::vector<Answer>& answers) = 0;

  const std::shared_ptr<SubmitStream> stream_;
  std::vector<Answer> answers_;
};

// The items of one message.
class SubmitStream::Batch final : public Deciding {
 public:
  Batch(std::shared_ptr<SubmitStream> stream, Items items)
      : Deciding(From::kCaller, std::move(stream)), items_(std::move(items)) {}

  size_t weight() const override { return std::max<size_t>(1, items_.size()); }
  Then Decide(DirectorEngine& engine, WaiterDesk& desk, Moment now) override {
    if (stream().over_) return Then::kNothing;
    if (stream().waits_) {
      stream().backlog_.push_back(std::move(items_));
      return Then::kNothing;
    }
    stream().Decide(std::exchange(items_, {}), engine, desk, now, answers());
    return SayIfDecided();
  }

 private:
  void RefuseRest(const absl::Status& why, std::vector<Answer>& answers) override {
    items_.Refuse(why, answers);
  }

  Items items_;
};

// What stood behind an item that waited.
class SubmitStream::Rest final : public Deciding {
 public:
  explicit Rest(std::shared_ptr<SubmitStream> stream) : Deciding(From::kLink, std::move(stream)) {}

  Then Decide(DirectorEngine& engine, WaiterDesk& desk, Moment now) override {
    stream().waits_ = false;
    if (stream().over_) stream().backlog_.clear();
    while (!stream().waits_ && !stream().backlog_.empty()) {
      Items items = std::move(stream().backlog_.front());
      stream().backlog_.pop_front();
      stream().Decide(std::move(items), engine, desk, now, answers());
    }
    is_decided_ = true;
    return SayIfDecided();
  }

 private:
  void RefuseRest(const absl::Status& why, std::vector<Answer>& answers) override {
    if (is_decided_) return;
    stream().waits_ = false;
    for (const Items& items : std::exchange(stream().backlog_, {})) items.Refuse(why, answers);
  }

  bool is_decided_ = false;
};

// An item at the desk.
class SubmitStream::Seated final : public DoorCommand {
 public:
  Seated(CallId call, WaiterId waiter, Reply reply) : DoorCommand(call, std::move(reply)) {
    SetDecision(waiter);
  }

 private:
  Decision Knock(DirectorEngine&, Moment) override { return decision(); }
};

void SubmitStream::Items::Refuse(const absl::Status& why, std::vector<Answer>& answers) const {
  for (size_t i = 0; i < size(); ++i) answers.push_back({index + i, why});
}

SubmitStream::SubmitStream(Desk desk, Owner owner)
    : desk_(std::move(desk)), owner_(std::move(owner)) {}

bool SubmitStream::Submit(std::vector<Item> items) {
  const uint64_t index = std::exchange(submitted_, submitted_ + items.size());
  return Post(std::make_unique<Batch>(shared_from_this(), Items{index, std::move(items)}));
}

bool SubmitStream::Post(CommandPtr command) {
  base::MutexLock lock(mutex_);
  // Whoever tells that there is room waits for the lock, and finds the command.
  const auto when_room = [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->PostAgain();
  };
  if (desk_.post(command, when_room)) return true;
  unposted_ = std::move(command);
  return false;
}

void SubmitStream::PostAgain() {
  CommandPtr command;
  {
    base::MutexLock lock(mutex_);
    command = std::move(unposted_);
  }
  if (command != nullptr && !over_ && Post(std::move(command))) owner_.on_room();
}

void SubmitStream::Decide(Items items, DirectorEngine& engine, WaiterDesk& desk, Moment now,
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
    waits_ = true;
    desk.Seat(std::make_unique<Seated>(desk_.call, *waiter,
                                       [self = shared_from_this(), index](const Decision& answer) {
                                         self->OnSeatedAnswered(index, answer);
                                       }));
    if (items.size() > 0) backlog_.push_front(std::move(items));
    return;
  }
}

void SubmitStream::OnSeatedAnswered(uint64_t index, const Decision& decision) {
  Give({{index, decision}});
  desk_.post_always(std::make_unique<Rest>(shared_from_this()));
}

void SubmitStream::Give(std::vector<Answer> answers) {
  bool has_more = false;
  {
    base::MutexLock lock(mutex_);
    for (Answer& answer : answers) {
      // Nobody who takes answers asks for the task, which may be large.
      if (auto* submitted = std::get_if<Submitted>(&answer.decision)) {
        submitted->admitted.spec = nullptr;
      }
      if (answer.index != next_) {
        early_.emplace(answer.index, std::move(answer.decision));
        continue;
      }
      ++next_;
      ready_.push_back(std::move(answer));
    }
    for (; !early_.empty() && early_.begin()->first == next_; early_.erase(early_.begin())) {
      ready_.push_back({next_++, std::move(early_.begin()->second)});
    }
    has_more = !ready_.empty();
  }
  if (has_more) owner_.on_answers();
}

std::vector<SubmitStream::Answer> SubmitStream::Take(size_t most) {
  base::MutexLock lock(mutex_);
  const auto end = ready_.begin() + static_cast<ptrdiff_t>(std::min(most, ready_.size()));
  std::vector<Answer> taken(std::make_move_iterator(ready_.begin()), std::make_move_iterator(end));
  ready_.erase(ready_.begin(), end);
  return taken;
}

void SubmitStream::Stop(std::shared_ptr<const void> owner) {
  over_ = true;
  desk_.post_always(LeaveCommand(desk_.call, std::move(owner)));
}

}  // namespace callboard::director
