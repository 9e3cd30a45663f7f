#include "libs/director/redrive.h"

#include <utility>
#include <variant>

#include "libs/director/engine.h"

namespace callboard::director {
namespace {

// A group ends with the task that reaches one of these limits.
constexpr size_t kGroupTasks = 64;
constexpr size_t kGroupBytes = 1 << 20;

RedriveResult RedrivenFrom(const Decision& decision) {
  if (const auto* error = std::get_if<absl::Status>(&decision)) return *error;
  return std::get<SubmitResult>(decision).queue_id;
}

}  // namespace

Redrive::Redrive(Deps deps, std::vector<absl::StatusOr<core::QueueId>> tasks, std::string who,
                 MakeSubmission make_submission, Reply reply)
    : deps_(std::move(deps)),
      tasks_(std::move(tasks)),
      who_(std::move(who)),
      make_submission_(std::move(make_submission)),
      reply_(std::move(reply)) {}

void Redrive::ReadGroup() {
  if (answers_.size() == tasks_.size()) return reply_(std::move(answers_));
  deps_.read([self = shared_from_this()](absl::StatusOr<const ports::EventStore*> store) {
    if (!store.ok()) return self->FailRest(store.status());
    std::vector<Item> group;
    size_t bytes = 0;
    for (size_t next = self->answers_.size(); next < self->tasks_.size(); ++next) {
      const absl::StatusOr<core::QueueId>& id = self->tasks_[next];
      const Item& item = group.emplace_back(self->MakeItem(**store, id));
      if (item.submission.ok()) bytes += item.submission->spec.bytes->size();
      if (group.size() == kGroupTasks || bytes >= kGroupBytes) break;
    }
    self->SubmitGroup(std::move(group));
  });
}

Redrive::Item Redrive::MakeItem(const ports::EventStore& store,
                                const absl::StatusOr<core::QueueId>& id) const {
  if (!id.ok()) return {id, id.status()};
  const absl::StatusOr<core::SpecBytes> spec = store.Spec(*id);
  if (!spec.ok()) return {id, spec.status()};
  if (*spec == nullptr) return {id, TaskNotFound(*id)};
  return {id, make_submission_(**spec, *id)};
}

void Redrive::SubmitGroup(std::vector<Item> group) {
  const auto submit = [group = std::move(group), who = who_](DirectorEngine& engine,
                                                             Moment now) mutable {
    std::vector<RedriveResult> redriven;
    for (Item& item : group) {
      redriven.push_back(
          item.submission.ok()
              ? RedrivenFrom(engine.Redrive(*item.queue_id, *std::move(item.submission), who, now))
              : RedriveResult(item.submission.status()));
    }
    return redriven;
  };
  deps_.post(MakeCommand(
      {}, submit, [self = shared_from_this()](absl::StatusOr<std::vector<RedriveResult>> redriven) {
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
