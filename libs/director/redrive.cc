#include "libs/director/redrive.h"

#include <utility>
#include <variant>

#include "libs/director/engine.h"

namespace callboard::director {
namespace {

// A group ends with the task that reaches one of these limits.
constexpr size_t kGroupTasks = 64;
constexpr size_t kGroupBytes = 1 << 20;

absl::StatusOr<core::SpecPtr> SpecAt(const ports::EventStore& store,
                                     const absl::StatusOr<core::QueueId>& id) {
  if (!id.ok()) return id.status();
  absl::StatusOr<core::SpecPtr> spec = store.TaskSpec(*id);
  if (spec.ok() && *spec == nullptr) return TaskNotFound(*id);
  return spec;
}

RedriveResult RedrivenFrom(const Decision& decision) {
  if (const auto* error = std::get_if<absl::Status>(&decision)) return *error;
  return std::get<SubmitResult>(decision).queue_id;
}

}  // namespace

Redrive::Redrive(Deps deps, std::vector<absl::StatusOr<core::QueueId>> tasks, std::string who,
                 Reply reply)
    : deps_(std::move(deps)),
      tasks_(std::move(tasks)),
      who_(std::move(who)),
      reply_(std::move(reply)) {}

void Redrive::ReadGroup() {
  if (answers_.size() == tasks_.size()) return reply_(std::move(answers_));
  deps_.read([self = shared_from_this()](absl::StatusOr<const ports::EventStore*> store) {
    if (!store.ok()) return self->FailRest(store.status());
    std::vector<Item> group;
    size_t bytes = 0;
    for (size_t next = self->answers_.size(); next < self->tasks_.size(); ++next) {
      const absl::StatusOr<core::QueueId>& id = self->tasks_[next];
      const Item& item = group.emplace_back(Item{id, SpecAt(**store, id)});
      if (item.spec.ok()) bytes += (*item.spec)->prompt.size() + (*item.spec)->payload.size();
      if (group.size() == kGroupTasks || bytes >= kGroupBytes) break;
    }
    self->SubmitGroup(std::move(group));
  });
}

void Redrive::SubmitGroup(std::vector<Item> group) {
  const auto submit = [group = std::move(group), who = who_](
                          DirectorEngine& engine,
                          Moment now) -> absl::StatusOr<std::vector<RedriveResult>> {
    std::vector<RedriveResult> redriven;
    for (const Item& item : group) {
      redriven.push_back(item.spec.ok()
                             ? RedrivenFrom(engine.Redrive(*item.queue_id, **item.spec, who, now))
                             : RedriveResult(item.spec.status()));
    }
    return redriven;
  };
  deps_.post(CallCommand<std::vector<RedriveResult>>(
      Command::Access::kWrite, submit,
      [self = shared_from_this()](absl::StatusOr<std::vector<RedriveResult>> redriven) {
        if (!redriven.ok()) return self->FailRest(redriven.status());
        self->AddAnswers(*std::move(redriven));
      }));
}

void Redrive::AddAnswers(std::vector<RedriveResult> group) {
  for (RedriveResult& redriven : group) answers_.push_back(std::move(redriven));
  ReadGroup();
}

void Redrive::FailRest(const absl::Status& why) {
  answers_.resize(tasks_.size(), why);
  reply_(std::move(answers_));
}

}  // namespace callboard::director
