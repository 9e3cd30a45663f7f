#ifndef CALLBOARD_LIBS_DIRECTOR_SUBMIT_STREAM_H_
#define CALLBOARD_LIBS_DIRECTOR_SUBMIT_STREAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/base/mutex.h"
#include "libs/director/command.h"

namespace callboard::director {

// Many submits, one after the other: decided in the order in which they come, in as few commands as
// they come in, and answered in the same order. One that has to wait for a place holds up those
// behind it.
//
// Thread-safe, but for Submit(), which one thread at a time calls.
class SubmitStream : public std::enable_shared_from_this<SubmitStream> {
 public:
  // A task to submit (Submitter()), or why it is none.
  using Item = absl::StatusOr<Caller>;
  struct Answer {
    // Counts the items from 0.
    uint64_t index = 0;
    // Of a task that was accepted, without its spec.
    Decision decision;
  };
  // What it needs of its driver, which outlives it.
  struct Desk {
    CallId call;
    // False, and the command is as before, when there is no room; then `when_room` is told, once.
    std::function<bool(CommandPtr&, std::function<void()> when_room)> post;
    // Never refused.
    std::function<void(CommandPtr)> post_always;
  };
  // Told on any thread, which must not be blocked, and with no lock held.
  struct Owner {
    // There is something to take.
    std::function<void()> on_answers;
    // What there was no room for is on its way.
    std::function<void()> on_room;
  };

  SubmitStream(Desk desk, Owner owner);

  // False when there is no room for more: not to be called again before the owner is told.
  bool Submit(std::vector<Item> items);
  // Answers that were not taken yet, at most so many: in the order of the items, without a gap.
  std::vector<Answer> Take(size_t most);
  // The caller has gone: an item that waits for a place is answered CANCELLED, and what is not
  // decided yet never will be. `owner` lives until the last answer is there.
  void Stop(std::shared_ptr<const void> owner);

 private:
  class Deciding;
  class Batch;
  class Rest;
  class Seated;
  // Items that came together, from the first on that is not decided yet.
  struct Items {
    uint64_t index = 0;
    std::vector<Item> all = {};
    size_t decided = 0;

    size_t size() const { return all.size() - decided; }
    // What is answered to all that are left.
    void Refuse(const absl::Status& why, std::vector<Answer>& answers) const;
  };

  bool Post(CommandPtr command);
  void PostAgain();
  // Decides items until one has to wait; that one sits down at the desk, and those behind it go
  // into the backlog.
  void Decide(Items items, DirectorEngine& engine, WaiterDesk& desk, Moment now,
              std::vector<Answer>& answers);
  void OnSeatedAnswered(uint64_t index, const Decision& decision);
  void Give(std::vector<Answer> answers);

  const Desk desk_;
  const Owner owner_;
  std::atomic<bool> over_ = false;
  uint64_t submitted_ = 0;

  // Touched by the deciding thread only: whether an item waits for a place, and what is behind it.
  bool waits_ = false;
  std::deque<Items> backlog_;

  base::Mutex mutex_;
  // What there was no room for.
  CommandPtr unposted_ ABSL_GUARDED_BY(mutex_);
  // Answers without a gap before them, and others: items that are refused may overtake some.
  std::deque<Answer> ready_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Decision> early_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_SUBMIT_STREAM_H_
