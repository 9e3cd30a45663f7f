#ifndef CALLBOARD_LIBS_DIRECTOR_SUBMIT_STREAM_H_
#define CALLBOARD_LIBS_DIRECTOR_SUBMIT_STREAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/base/mutex.h"
#include "libs/director/command.h"

namespace callboard::director {

// A sequence of submits from one caller. Items are decided in order, one command per message, and
// answered in the same order. An item that has to wait for a place blocks the items behind it.
//
// Thread-safe, except that only one thread at a time may call Submit().
class SubmitStream : public std::enable_shared_from_this<SubmitStream> {
 public:
  // A task to submit (made by MakeSubmitRequest()), or the error that its conversion returned.
  using Item = absl::StatusOr<AdmissionRequest>;
  struct Answer {
    // Number of the item, from 0.
    uint64_t index = 0;
    // For an accepted task: without the spec.
    Decision decision;
  };
  // Dependencies, provided by the driver, which outlives the stream.
  struct Deps {
    CallId call;
    // Returns false and leaves the command unchanged when there is no room; then calls `on_room`
    // once, when there is.
    std::function<bool(CommandPtr&, std::function<void()> on_room)> post;
    // Never fails for lack of room.
    std::function<void(CommandPtr)> post_always;
  };
  // Called on any thread without holding a lock. Must not block.
  struct Callbacks {
    // There are answers to take.
    std::function<void()> on_answers;
    // The command that had found no room is posted; Submit() may be called again.
    std::function<void()> on_room;
  };

  SubmitStream(Deps deps, Callbacks callbacks);

  // Returns false when there is no room for more. Then wait for on_room() before the next call.
  bool Submit(std::vector<Item> items);
  // Returns the next answers, at most `most`, in the order of the items without a gap.
  std::vector<Answer> TakeAnswers(size_t most);
  // The caller has gone. An item that waits for a place is answered CANCELLED; undecided items are
  // dropped. `owner` is kept alive until the last answer is there.
  void Stop(std::shared_ptr<const void> owner);

 private:
  // Items of one message, from the first undecided one on.
  struct Items {
    uint64_t index = 0;
    std::vector<Item> all = {};
    size_t decided = 0;

    size_t size() const { return all.size() - decided; }
  };

  bool Post(CommandPtr command);
  void RetryPost();
  // Decides the backlog until an item has to wait for a place. That item goes to `waiters`. Returns
  // the answers, if there are any.
  std::optional<std::vector<Answer>> DecideBacklog(DirectorEngine& engine, WaiterTable& waiters,
                                                   Moment now);
  // Answers the whole backlog with `why`.
  std::vector<Answer> FailBacklog(const absl::Status& why);
  void OnWaiterAnswered(uint64_t index, const Decision& decision);
  void AddAnswers(std::vector<Answer> answers);

  const Deps deps_;
  const Callbacks callbacks_;
  std::atomic<bool> stopped_ = false;
  uint64_t submitted_ = 0;

  // Used only by the thread that decides: whether an item waits for a place, and the items that are
  // not decided yet, which are behind it.
  bool has_waiting_item_ = false;
  std::deque<Items> backlog_;

  base::Mutex mutex_;
  // The command that found no room.
  CommandPtr unposted_command_ ABSL_GUARDED_BY(mutex_);
  // Answers without a gap before them, the index of the next one, and answers that arrived too
  // early: a failed item may overtake others.
  std::deque<Answer> ready_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Decision> out_of_order_ ABSL_GUARDED_BY(mutex_);
};

// The items that a command has decided fail one by one.
void FailResult(absl::StatusOr<std::vector<SubmitStream::Answer>>& answers,
                const absl::Status& why);

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_SUBMIT_STREAM_H_
