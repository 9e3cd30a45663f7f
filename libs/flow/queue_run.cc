#include "libs/flow/queue_run.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/error.h"

namespace callboard::flow::internal {

absl::Status CatchExceptions(absl::FunctionRef<absl::Status()> call) {
  try {
    return call();
  } catch (const std::exception& thrown) {
    return absl::InternalError(absl::StrCat("threw: ", thrown.what()));
  } catch (...) {
    return absl::InternalError("threw an object that is not a std::exception");
  }
}

RunReport QueueRun::Run(Source source) {
  CHECK(lane_.MayWait()) << "a job must not wait for a run in its own flow: lane " << lane_.name();
  absl::Status source_status;
  {
    const std::stop_callback on_stop(options_.stop, [this] { run_stop_.request_stop(); });
    source_status = SubmitAll(source);
  }
  WaitForAttempts();
  RunReport report = BuildReport();
  if (report.status.ok()) report.status = source_status;
  return report;
}

absl::Status QueueRun::SubmitAll(Source source) {
  const std::stop_callback wake(run_stop_.get_token(), [this] {
    base::MutexLock lock(mutex_);
    changed_.NotifyAll();
  });
  const uint32_t batch_size = traits_.reads_ahead ? std::max(1u, lane_.limit().max_pending / 2) : 1;
  absl::Status status;
  while (status.ok() && WaitForWork()) {
    bool keep_going = true;
    status = CatchExceptions([&] {
      // A source that may block is read while no place is reserved.
      if (!traits_.reads_ahead) PullItems(source, 1);
      keep_going = SubmitBatch(source, batch_size);
      return absl::OkStatus();
    });
    if (!keep_going) break;
  }
  if (!status.ok()) run_stop_.request_stop();
  items_.clear();
  return base::Annotate(status, "the source of items");
}

bool QueueRun::SubmitBatch(Source source, uint32_t count) {
  if (!traits_.reads_ahead && items_.empty()) return true;
  absl::StatusOr<LaneReservation> places = lane_.Reserve(run_stop_.get_token(), count);
  if (!places.ok()) return false;
  PullItems(source, places->count());
  std::vector<ports::Executor::Job> jobs;
  jobs.reserve(items_.size());
  for (std::unique_ptr<ItemWork>& item : items_) {
    jobs.emplace_back([this, item = std::move(item)]() mutable { RunAttempt(std::move(item)); });
  }
  items_.clear();
  submitted_ += jobs.size();
  std::move(*places).Run(absl::MakeSpan(jobs), this);
  return true;
}

void QueueRun::PullItems(Source source, size_t count) {
  while (items_.size() < count) {
    std::unique_ptr<ItemWork> retry = TakeDueRetry();
    if (retry == nullptr) break;
    items_.push_back(std::move(retry));
  }
  size_t room = 0;
  {
    base::MutexLock lock(mutex_);
    room = FreeCapacity();
  }
  for (; has_more_ && room > 0 && items_.size() < count; --room) {
    std::unique_ptr<ItemWork> item = source();
    has_more_ = item != nullptr;
    if (!has_more_) return;
    item->index = pulled_++;
    items_.push_back(std::move(item));
  }
}

size_t QueueRun::FreeCapacity() const {
  const size_t items_max = size_t{lane_.limit().concurrency} + lane_.limit().max_pending;
  return items_max - std::min(items_max, pulled_ - finished_);
}

bool QueueRun::WaitForWork() {
  base::MutexLock lock(mutex_);
  while (!run_stop_.stop_requested()) {
    if (has_more_ && FreeCapacity() > 0) return true;
    absl::Duration until_due = absl::InfiniteDuration();
    if (!retries_.empty()) {
      until_due = retries_.begin()->first - lane_.clock().MonotonicNow();
      if (until_due <= absl::ZeroDuration()) return true;
    } else if (!has_more_ && ended_attempts_ == submitted_) {
      return false;
    }
    lane_.executor().Wait(mutex_, changed_, until_due);
  }
  return false;
}

std::unique_ptr<ItemWork> QueueRun::TakeDueRetry() {
  if (!has_retries_) return nullptr;
  base::MutexLock lock(mutex_);
  const auto first = retries_.begin();
  if (first == retries_.end() || first->first > lane_.clock().MonotonicNow()) return nullptr;
  std::unique_ptr<ItemWork> item = std::move(first->second);
  retries_.erase(first);
  has_retries_ = !retries_.empty();
  return item;
}

void QueueRun::WaitForAttempts() {
  const size_t withdrawn = lane_.Withdraw(this);
  std::multimap<absl::Duration, std::unique_ptr<ItemWork>> dropped;
  base::MutexLock lock(mutex_);
  while (ended_attempts_ + withdrawn < submitted_) {
    lane_.executor().Wait(mutex_, changed_, absl::InfiniteDuration());
  }
  dropped.swap(retries_);
}

ItemContext QueueRun::MakeContext(const ItemWork& item) const {
  return {.index = item.index, .attempt = item.attempt, .stop = options_.stop};
}

void QueueRun::RunAttempt(std::unique_ptr<ItemWork> item) {
  if (run_stop_.stop_requested()) return Drop(std::move(item));
  const ItemContext context = MakeContext(*item);
  bool should_retry = false;
  absl::Status status = CatchExceptions([&] {
    absl::Status result = item->RunWorker(context);
    if (!result.ok()) should_retry = ShouldRetry(result, *item);
    return result;
  });
  if (should_retry) {
    // The run ends, so the retry will not happen. That is not a failure of the item.
    if (run_stop_.stop_requested()) return Drop(std::move(item));
    return Retry(std::move(item), status);
  }
  if (status.ok() && traits_.has_on_result) {
    base::MutexLock lock(callback_mutex_);
    status = CatchExceptions([&] { return item->OnResult(context); });
  }
  if (status.ok()) return Succeed(std::move(item));
  // The item was stopped; it has not failed.
  if (options_.stop.stop_requested() && IsAbortError(status)) return Drop(std::move(item));
  Fail(std::move(item), std::move(status));
}

bool QueueRun::ShouldRetry(const absl::Status& error, const ItemWork& item) const {
  if (item.attempt > options_.retries) return false;
  // The worker obeyed the stop request.
  if (options_.stop.stop_requested() && IsAbortError(error)) return false;
  return options_.is_transient == nullptr || options_.is_transient(error);
}

absl::Duration QueueRun::Backoff(const absl::Status& error, const ItemWork& item) const {
  absl::Duration backoff = options_.backoff;
  for (uint32_t i = 1; i < item.attempt && backoff < options_.backoff_max; ++i) backoff *= 2;
  backoff = base::GetErrorDetails(error).retry_after.value_or(backoff);
  return std::min(backoff, options_.backoff_max);
}

void QueueRun::Retry(std::unique_ptr<ItemWork> item, const absl::Status& error) {
  const absl::Duration due = lane_.clock().MonotonicNow() + Backoff(error, *item);
  ++item->attempt;
  base::MutexLock lock(mutex_);
  retries_.emplace(due, std::move(item));
  has_retries_ = true;
  ++ended_attempts_;
  changed_.NotifyAll();
}

void QueueRun::Succeed(std::unique_ptr<ItemWork> item) {
  item.reset();
  base::MutexLock lock(mutex_);
  ++report_.succeeded;
  MarkFinished();
}

void QueueRun::Fail(std::unique_ptr<ItemWork> item, absl::Status error) {
  const size_t index = item->index;
  bool is_first = false;
  {
    base::MutexLock lock(mutex_);
    is_first = report_.failed++ == 0;
    if (is_first) report_.status = error;
  }
  // Before the callback, which may be slow.
  if (options_.on_failure == OnFailure::kStop) run_stop_.request_stop();
  {
    base::MutexLock lock(callback_mutex_);
    const ItemContext context = MakeContext(*item);
    const absl::Status callback_status =
        CatchExceptions([&] { return item->OnError(error, context); });
    if (!callback_status.ok())
      error = base::Annotate(error, absl::StrCat("(on_error: ", callback_status.message(), ")"));
  }
  item.reset();
  base::MutexLock lock(mutex_);
  if (is_first) report_.status = error;
  if (first_failure_.error.ok() || index < first_failure_.index) first_failure_ = {index, error};
  if (report_.errors.size() < options_.errors_max) {
    report_.errors.push_back({index, std::move(error)});
  }
  MarkFinished();
}

void QueueRun::Drop(std::unique_ptr<ItemWork> item) {
  item.reset();
  base::MutexLock lock(mutex_);
  MarkFinished();
}

void QueueRun::MarkFinished() {
  ++finished_;
  ++ended_attempts_;
  changed_.NotifyAll();
}

RunReport QueueRun::BuildReport() {
  base::MutexLock lock(mutex_);
  std::sort(report_.errors.begin(), report_.errors.end(),
            [](const ItemError& a, const ItemError& b) { return a.index < b.index; });
  if (options_.stop.stop_requested()) {
    report_.status = options_.abort_error;
  } else if (options_.on_failure == OnFailure::kContinue && report_.failed > 0) {
    report_.status = base::Annotate(
        first_failure_.error, absl::StrCat(report_.failed, " of ", pulled_, " items failed; item ",
                                           first_failure_.index));
  }
  return std::move(report_);
}

}  // namespace callboard::flow::internal
