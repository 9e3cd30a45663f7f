// The part of RunWithQueue() that does not depend on the types of items and results.
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
  // The first failure ends the run: no more items are started, running ones are waited for, and the
  // first error is returned.
  kStop,
  // All items run; the returned error has the number of failures.
  kContinue,
};

// Passed to workers and callbacks together with the item.
struct ItemContext {
  // The item's index in the input, from 0.
  size_t index = 0;
  // 1 for the first attempt.
  uint32_t attempt = 1;
  // Requested when the caller stops the run; the worker passes it on. Lives as long as the run.
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
  // The delay before the first retry. Doubles before each further one, up to `backoff_max`. A delay
  // that an error itself requests (base::WithRetryAfter) is used instead, with the same bound.
  absl::Duration backoff = absl::ZeroDuration();
  absl::Duration backoff_max = absl::Minutes(5);
  // Returns whether an error may be retried. Null retries all errors.
  std::function<bool(const absl::Status&)> is_transient = {};
  std::stop_token stop = {};
  // The status of a stopped run.
  absl::Status abort_error = AbortError();
  // Errors to keep; further ones are only counted.
  size_t errors_max = 1000;
};

// The outcome of a run.
struct RunReport {
  // OK; the first error (kStop); an error with the number of failures (kContinue); `abort_error` if
  // the run was stopped; or the exception of the source.
  absl::Status status;
  // In the order of the input, at most `errors_max`.
  std::vector<ItemError> errors = {};
  size_t succeeded = 0;
  size_t failed = 0;
};

namespace internal {

// An item, with the calls that its worker and callbacks need. Owned by the run or by one attempt.
class ItemWork {
 public:
  virtual ~ItemWork() = default;

  // The item's index in the input, and the number of its next attempt.
  size_t index = 0;
  uint32_t attempt = 1;

  // Calls the worker. Runs concurrently with other items.
  virtual absl::Status RunWorker(const ItemContext& context) = 0;
  // Call the callbacks, for one item at a time.
  virtual absl::Status OnResult(const ItemContext& context) = 0;
  virtual absl::Status OnError(const absl::Status& error, const ItemContext& context) = 0;
};

// One call of RunWithQueue(). Lives on the caller's stack: when Run() returns, neither the lane nor
// the executor refers to it.
class QueueRun {
 public:
  // Returns the next item, null after the last. Called on the caller's thread only.
  using Source = absl::FunctionRef<std::unique_ptr<ItemWork>()>;

  // Properties that allow shortcuts.
  struct Traits {
    // The source never blocks, so items may be read in batches. If it may block, each item is
    // submitted before the next is read.
    bool reads_ahead = false;
    // OnResult() does something.
    bool has_on_result = true;
  };

  QueueRun(Lane& lane, const RunOptions& options, Traits traits)
      : lane_(lane), options_(options), traits_(traits) {}
  QueueRun(const QueueRun&) = delete;
  QueueRun& operator=(const QueueRun&) = delete;

  RunReport Run(Source source);

 private:
  // Submits items until the source is empty, an item failed or the run is stopped. Returns the
  // error of the source.
  absl::Status SubmitAll(Source source);
  // Reserves up to `count` places and submits as many items. Returns false if the run ends.
  bool SubmitBatch(Source source, uint32_t count);
  // Fills `items_` up to `count`, with due retries first.
  void PullItems(Source source, size_t count);
  // Drops pending attempts and retries, and waits for running attempts.
  void WaitForAttempts();
  // Waits until there is an item or a due retry to submit. Returns false at the end of the run.
  bool WaitForWork();
  // Returns how many more items may exist. Items in backoff count as existing.
  size_t FreeCapacity() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns a due retry, or null.
  std::unique_ptr<ItemWork> TakeDueRetry();

  // Runs one attempt, as a job of the lane. It ends in exactly one of the four methods below, after
  // which the run may be destroyed.
  void RunAttempt(std::unique_ptr<ItemWork> item);
  void Retry(std::unique_ptr<ItemWork> item, const absl::Status& error);
  void Succeed(std::unique_ptr<ItemWork> item);
  void Fail(std::unique_ptr<ItemWork> item, absl::Status error);
  void Drop(std::unique_ptr<ItemWork> item);
  void MarkFinished() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool ShouldRetry(const absl::Status& error, const ItemWork& item) const;
  absl::Duration Backoff(const absl::Status& error, const ItemWork& item) const;
  ItemContext MakeContext(const ItemWork& item) const;
  RunReport BuildReport();

  // Constant after construction.
  Lane& lane_;
  const RunOptions& options_;
  const Traits traits_;

  // Requested when nothing more may start: after `options_.stop`, a failure with kStop, or an error
  // of the source.
  std::stop_source run_stop_;

  // Used by the caller's thread only.
  // Whether the source may have more items.
  bool has_more_ = true;
  // Items taken from the source.
  size_t pulled_ = 0;
  // Attempts submitted to the lane.
  size_t submitted_ = 0;
  // Items to submit next.
  std::vector<std::unique_ptr<ItemWork>> items_;

  // Held while a callback runs, so that callbacks run for one item at a time.
  base::Mutex callback_mutex_;

  base::Mutex mutex_;
  base::CondVar changed_;
  // Attempts that have ended. Each submitted attempt ends here or is withdrawn.
  size_t ended_attempts_ ABSL_GUARDED_BY(mutex_) = 0;
  // Items without further attempts.
  size_t finished_ ABSL_GUARDED_BY(mutex_) = 0;
  // Items in backoff, by the time at which their retry is due.
  std::multimap<absl::Duration, std::unique_ptr<ItemWork>> retries_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> has_retries_ = false;
  // `status` holds the first error until BuildReport().
  RunReport report_ ABSL_GUARDED_BY(mutex_);
  // The failed item with the smallest index.
  ItemError first_failure_ ABSL_GUARDED_BY(mutex_);
};

// Returns `call()`. An exception becomes an error.
absl::Status CatchExceptions(absl::FunctionRef<absl::Status()> call);

}  // namespace internal
}  // namespace callboard::flow

#endif  // CALLBOARD_LIBS_FLOW_QUEUE_RUN_H_
