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

// The new task of one that was redriven, or why there is none.
using Redriven = absl::StatusOr<core::QueueId>;

// Some tasks on their way to be submitted again, group by group: ReadGroup() reads what they ask
// for from the store, SubmitGroup() submits that in one turn. So a call holds about as much in
// memory as one submit may, and one place in line, however many tasks it names.
//
// Each step follows from the one before: no two run at once. Keeps itself until it has answered.
class Redrive : public std::enable_shared_from_this<Redrive> {
 public:
  // Gets the store, or why there is none.
  using Reading = std::function<void(absl::StatusOr<const ports::EventStore*>)>;
  // What it needs of its driver, which outlives it: to read the store, and to post a command.
  struct Desk {
    std::function<void(Reading)> read;
    std::function<void(CommandPtr)> post;
  };
  // In the order of the tasks.
  using Reply = std::function<void(std::vector<Redriven>)>;

  // `who` asks for it. A task that could not be named is answered with why.
  Redrive(Desk desk, std::vector<absl::StatusOr<core::QueueId>> tasks, std::string who,
          Reply reply);

  void ReadGroup();

 private:
  // A task of the group under way, and what it asks for.
  struct Item {
    absl::StatusOr<core::QueueId> queue_id;
    absl::StatusOr<core::SpecPtr> spec;
  };

  void SubmitGroup(std::vector<Item> group);
  void Answer(std::vector<Redriven> group);
  // Every task that has no answer yet gets this one.
  void GiveUp(const absl::Status& why);

  const Desk desk_;
  const std::vector<absl::StatusOr<core::QueueId>> tasks_;
  const std::string who_;
  const Reply reply_;
  std::vector<Redriven> answers_;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_REDRIVE_H_
