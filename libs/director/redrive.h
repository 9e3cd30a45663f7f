#ifndef CALLBOARD_LIBS_DIRECTOR_REDRIVE_H_
#define CALLBOARD_LIBS_DIRECTOR_REDRIVE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/core/ids.h"
#include "libs/core/task.h"
#include "libs/director/command.h"
#include "libs/ports/event_store.h"

namespace callboard::director {

// The id of the new task, or the reason why there is none.
using RedriveResult = absl::StatusOr<core::QueueId>;

// A redrive of several tasks, done in groups: ReadGroup() reads the specs of a group from the
// store, SubmitGroup() submits them in one turn. This way a call needs only as much memory as one
// large submit, and counts as one call in the inbox, no matter how many tasks it names.
//
// Steps never overlap: each one starts the next. The object keeps itself alive until it has
// replied.
class Redrive : public std::enable_shared_from_this<Redrive> {
 public:
  // Receives the store, or the reason why there is none.
  using ReadCallback = std::function<void(absl::StatusOr<const ports::EventStore*>)>;
  // Dependencies, provided by the driver, which outlives it: functions that read the store and post
  // a command.
  struct Deps {
    std::function<void(ReadCallback)> read;
    std::function<void(CommandPtr)> post;
  };
  // Makes the submission of the new task from the spec of the old one.
  using MakeSubmission =
      std::function<absl::StatusOr<core::Submission>(const std::string& spec, core::QueueId old)>;
  // Receives the results in the order of the tasks.
  using Reply = std::function<void(std::vector<RedriveResult>)>;

  // `who` requested the redrive. For a task with an error instead of an id, the result is that
  // error.
  Redrive(Deps deps, std::vector<absl::StatusOr<core::QueueId>> tasks, std::string who,
          MakeSubmission make_submission, Reply reply);

  void ReadGroup();

 private:
  // A task of the current group, and the submission of its successor.
  struct Item {
    absl::StatusOr<core::QueueId> queue_id;
    absl::StatusOr<core::Submission> submission;
  };

  Item MakeItem(const ports::EventStore& store, const absl::StatusOr<core::QueueId>& id) const;

  void SubmitGroup(std::vector<Item> group);
  void AddAnswers(std::vector<RedriveResult> group);
  // Sets the result of all remaining tasks to `why` and replies.
  void FailRest(const absl::Status& why);

  const Deps deps_;
  const std::vector<absl::StatusOr<core::QueueId>> tasks_;
  const std::string who_;
  const MakeSubmission make_submission_;
  const Reply reply_;
  std::vector<RedriveResult> answers_;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_REDRIVE_H_
