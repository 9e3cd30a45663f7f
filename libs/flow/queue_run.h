// What RunWithQueue() does that does not depend on the types of items and results.
#ifndef CALLBOARD_LIBS_FLOW_QUEUE_RUN_H_
#define CALLBOARD_LIBS_FLOW_QUEUE_RUN_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/flow/abort.h"
#include "libs/flow/flow.h"

namespace callboard::flow {

enum class OnFailure {
  // The first failure ends the run: nothing more is begun, what runs is waited for, and the first
  // error is returned.
  kStop,
  // All items run; the error tells of all that failed.
  kGoOn,
};

// What workers and callbacks are told beside the item.
struct ItemContext {
  // The item's place in the input, from 0.
  size_t index = 0;
  // 1 for the first attempt.
  uint32_t attempt = 1;
  // Requested when the whole run is to stop; for the worker to hand on. Lives as long as the run.
  const std::stop_token& stop;
};

struct ItemError {
  size_t index = 0;
  absl::Status error;
};

struct RunOptions {
  OnFailure on_failure = OnFailure::kStop;
  // Attempts after the first.
  uint32_t retries = 0;
  // Before the first retry, and twice as long before each further one, up to `backoff_max`. An
  // error that says itself how long to wait (base::WithRetryAfter) is heeded, up to the same bound.
  absl::Duration backoff = absl::ZeroDuration();
  absl::Duration backoff_max = absl::Minutes(5);
  // Errors that another attempt may mend; null: all.
  std::function<bool(const absl::Status&)> is_transient = {};
  std::stop_token stop = {};
  // What a stopped run returns.
  absl::Status abort_error = AbortError();
  // Errors that are kept; further ones are counted only.
  size_t errors_max = 1000;
};

// How a run went.
struct RunReport {
  // OK; the first error; one that tells of all; `abort_error`; or why the source broke off.
  absl::Status status;
  // In the order of the input, at most `errors_max`.
  std::vector<ItemError> errors = {};
  size_t succeeded = 0;
  size_t failed = 0;
};

namespace internal {

// An item and what is done with it.
class ItemWork {
 public:
  virtual ~ItemWork() = default;

  // Place in the input, and the number of the next attempt.
  size_t index = 0;
  uint32_t attempt = 1;

  // The worker. Runs beside that of other items.
  virtual absl::Status Try(const ItemContext& context) = 0;
  // What follows it, for one item at a time.
  virtual absl::Status OnResult(const ItemContext& context) = 0;
  virtual absl::Status OnError(const absl::Status& error, const ItemContext& context) = 0;
};

// One call of RunWithQueue(). Lives on the caller's stack: nothing of it is left in lane or
// executor when Run() returns.
class QueueRun {
 public:
  // The next item, null after the last. Called by the caller's thread only, when there is a place
  // for what it returns.
  using Source = absl::FunctionRef<std::unique_ptr<ItemWork>()>;

  // What spares work where it is known.
  struct Traits {
    // The source never waits, so that items may be read in groups. Of one that does, each item is
    // brought before the next is read.
    bool reads_ahead = false;
    // OnResult() has something to do.
    bool has_on_result = true;
  };

  QueueRun(Lane& lane, const RunOptions& options, Traits traits)
      : lane_(lane), options_(options), traits_(traits) {}
  QueueRun(const QueueRun&) = delete;
  QueueRun& operator=(const QueueRun&) = delete;

  RunReport Run(Source source);

 private:
  // Brings items until there are no more, one failed or the run is stopped. The source's error.
  absl::Status BringAll(Source source);
  // Brings up to `count` of them at once; false when the run ends.
  bool BringSome(Source source, uint32_t count);
  // Fills `items_` up to `count`.
  void PullSome(Source source, size_t count);
  // Waits for what is under way, after what is still pending was dropped.
  void Settle();
  // Waits until there is something to bring; false at the end.
  bool WaitForWork();
  // How many more items may exist: those in their backoff count.
  size_t Room() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A retry that is due; else null.
  std::unique_ptr<ItemWork> TakeDueRetry();

  // One attempt at an item, in a lane's thread; and how it can end. Once it is over, the run may be
  // gone.
  void Attempt(std::unique_ptr<ItemWork> item);
  void Retry(std::unique_ptr<ItemWork> item, const absl::Status& error);
  void Succeed(std::unique_ptr<ItemWork> item);
  void Fail(std::unique_ptr<ItemWork> item, absl::Status error);
  void Drop(std::unique_ptr<ItemWork> item);
  void CountFinished() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Whether another attempt may mend it.
  bool IsWorthARetry(const absl::Status& error, const ItemWork& item) const;
  absl::Duration Backoff(const absl::Status& error, const ItemWork& item) const;
  ItemContext ContextOf(const ItemWork& item) const;
  RunReport Report();

  // Constant after construction.
  Lane& lane_;
  const RunOptions& options_;
  const Traits traits_;

  // Requested when nothing more is to begin: by `options_.stop` or by a failure.
  std::stop_source ending_;

  // Of the caller's thread. Whether the source may have more; what was taken from it; attempts that
  // were put into the lane; and what is about to be.
  bool has_more_ = true;
  size_t pulled_ = 0;
  size_t brought_ = 0;
  std::vector<std::unique_ptr<ItemWork>> items_;

  // Callbacks are for one item at a time.
  base::Mutex callbacks_;

  base::Mutex mutex_;
  base::CondVar changed_;
  // Attempts that are over; each that was brought ends here or is withdrawn.
  size_t over_ ABSL_GUARDED_BY(mutex_) = 0;
  // Items of which no attempt will come.
  size_t finished_ ABSL_GUARDED_BY(mutex_) = 0;
  // By the time they are due.
  std::multimap<absl::Duration, std::unique_ptr<ItemWork>> retries_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> has_retries_ = false;
  // Its status is the first error, until it is reported.
  RunReport report_ ABSL_GUARDED_BY(mutex_);
  // The failed item that stands first in the input.
  ItemError first_failed_ ABSL_GUARDED_BY(mutex_);
};

// `call()`, with whatever it throws as an error.
absl::Status Guarded(absl::FunctionRef<absl::Status()> call);

}  // namespace internal
}  // namespace callboard::flow

#endif  // CALLBOARD_LIBS_FLOW_QUEUE_RUN_H_
