#include "libs/flow/queue_run.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/status_macros.h"

namespace callboard::flow::internal {

absl::Status Guarded(absl::FunctionRef<absl::Status()> call) {
  try {
    return call();
  } catch (const std::exception& thrown) {
    return absl::InternalError(absl::StrCat("threw: ", thrown.what()));
  } catch (...) {
    return absl::InternalError("threw something that is no std::exception");
  }
}

RunReport QueueRun::Run(Source source) {
  CHECK(lane_.MayWait()) << "work may not wait for a run in its own flow: lane " << lane_.name();
  absl::Status source_status;
  {
    const std::stop_callback on_stop(options_.stop, [this] { ending_.request_stop(); });
    source_status = BringAll(source);
  }
  Settle();
  RunReport report = Report();
  if (report.status.ok()) report.status = source_status;
  return report;
}

absl::Status QueueRun::BringAll(Source source) {
  const std::stop_callback wake(ending_.get_token(), [this] {
    base::MutexLock lock(mutex_);
    changed_.NotifyAll();
  });
  const uint32_t at_once = traits_.reads_ahead ? std::max(1u, lane_.limit().max_pending / 2) : 1;
  absl::Status status;
  while (status.ok() && WaitForWork()) {
    bool goes_on = true;
    status = Guarded([&] {
      // A source that waits is read while nothing is held for it.
      if (!traits_.reads_ahead) PullSome(source, 1);
      goes_on = BringSome(source, at_once);
      return absl::OkStatus();
    });
    if (!goes_on) break;
  }
  if (!status.ok()) ending_.request_stop();
  items_.clear();
  return base::Annotate(status, "the source of items");
}

bool QueueRun::BringSome(Source source, uint32_t count) {
  if (!traits_.reads_ahead && items_.empty()) return true;
  absl::StatusOr<Places> places = lane_.Reserve(ending_.get_token(), count);
  if (!places.ok()) return false;
  PullSome(source, places->count());
  std::vector<ports::Executor::Job> jobs;
  jobs.reserve(items_.size());
  for (std::unique_ptr<ItemWork>& item : items_) {
    jobs.emplace_back([this, item = std::move(item)]() mutable { Attempt(std::move(item)); });
  }
  items_.clear();
  brought_ += jobs.size();
  std::move(*places).Run(absl::MakeSpan(jobs), this);
  return true;
}

void QueueRun::PullSome(Source source, size_t count) {
  while (items_.size() < count) {
    std::unique_ptr<ItemWork> retry = TakeDueRetry();
    if (retry == nullptr) break;
    items_.push_back(std::move(retry));
  }
  size_t room = 0;
  {
    base::MutexLock lock(mutex_);
    room = Room();
  }
  for (; has_more_ && room > 0 && items_.size() < count; --room) {
    std::unique_ptr<ItemWork> item = source();
    has_more_ = item != nullptr;
    if (!has_more_) return;
    item->index = pulled_++;
    items_.push_back(std::move(item));
  }
}

size_t QueueRun::Room() const {
  const size_t items_max = size_t{lane_.limit().concurrency} + lane_.limit().max_pending;
  return items_max - std::min(items_max, pulled_ - finished_);
}

bool QueueRun::WaitForWork() {
  base::MutexLock lock(mutex_);
  while (!ending_.stop_requested()) {
    if (has_more_ && Room() > 0) return true;
    absl::Duration until_due = absl::InfiniteDuration();
    if (!retries_.empty()) {
      until_due = retries_.begin()->first - lane_.clock().MonotonicNow();
      if (until_due <= absl::ZeroDuration()) return true;
    } else if (!has_more_ && over_ == brought_) {
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

void QueueRun::Settle() {
  const size_t withdrawn = lane_.Withdraw(this);
  std::multimap<absl::Duration, std::unique_ptr<ItemWork>> dropped;
  base::MutexLock lock(mutex_);
  while (over_ + withdrawn < brought_) {
    lane_.executor().Wait(mutex_, changed_, absl::InfiniteDuration());
  }
  dropped.swap(retries_);
}

ItemContext QueueRun::ContextOf(const ItemWork& item) const {
  return {.index = item.index, .attempt = item.attempt, .stop = options_.stop};
}

void QueueRun::Attempt(std::unique_ptr<ItemWork> item) {
  if (ending_.stop_requested()) return Drop(std::move(item));
  const ItemContext context = ContextOf(*item);
  bool worth_a_retry = false;
  absl::Status status = Guarded([&] {
    absl::Status tried = item->Try(context);
    if (!tried.ok()) worth_a_retry = IsWorthARetry(tried, *item);
    return tried;
  });
  if (worth_a_retry) {
    // An attempt that will not come is no failure, whenever the end came.
    if (ending_.stop_requested()) return Drop(std::move(item));
    return Retry(std::move(item), status);
  }
  if (status.ok() && traits_.has_on_result) {
    base::MutexLock lock(callbacks_);
    status = Guarded([&] { return item->OnResult(context); });
  }
  if (status.ok()) return Succeed(std::move(item));
  // Stopped, which is not failed.
  if (options_.stop.stop_requested() && IsAbortError(status)) return Drop(std::move(item));
  Fail(std::move(item), std::move(status));
}

bool QueueRun::IsWorthARetry(const absl::Status& error, const ItemWork& item) const {
  if (item.attempt > options_.retries) return false;
  // One that heeds a stop is not asked again.
  if (options_.stop.stop_requested() && IsAbortError(error)) return false;
  return options_.is_transient == nullptr || options_.is_transient(error);
}

absl::Duration QueueRun::Backoff(const absl::Status& error, const ItemWork& item) const {
  absl::Duration backoff = options_.backoff;
  for (uint32_t i = 1; i < item.attempt && backoff < options_.backoff_max; ++i) backoff *= 2;
  backoff = base::DetailsOf(error).retry_after.value_or(backoff);
  return std::min(backoff, options_.backoff_max);
}

void QueueRun::Retry(std::unique_ptr<ItemWork> item, const absl::Status& error) {
  const absl::Duration due = lane_.clock().MonotonicNow() + Backoff(error, *item);
  ++item->attempt;
  base::MutexLock lock(mutex_);
  retries_.emplace(due, std::move(item));
  has_retries_ = true;
  ++over_;
  changed_.NotifyAll();
}

void QueueRun::Succeed(std::unique_ptr<ItemWork> item) {
  item.reset();
  base::MutexLock lock(mutex_);
  ++report_.succeeded;
  CountFinished();
}

void QueueRun::Fail(std::unique_ptr<ItemWork> item, absl::Status error) {
  const size_t index = item->index;
  bool is_first = false;
  {
    base::MutexLock lock(mutex_);
    is_first = report_.failed++ == 0;
    if (is_first) report_.status = error;
  }
  // Before anybody is told, which may take its time.
  if (options_.on_failure == OnFailure::kStop) ending_.request_stop();
  {
    base::MutexLock lock(callbacks_);
    const ItemContext context = ContextOf(*item);
    const absl::Status told = Guarded([&] { return item->OnError(error, context); });
    if (!told.ok()) error = base::Annotate(error, absl::StrCat("(on_error: ", told.message(), ")"));
  }
  item.reset();
  base::MutexLock lock(mutex_);
  if (is_first) report_.status = error;
  if (first_failed_.error.ok() || index < first_failed_.index) first_failed_ = {index, error};
  if (report_.errors.size() < options_.errors_max) {
    report_.errors.push_back({index, std::move(error)});
  }
  CountFinished();
}

void QueueRun::Drop(std::unique_ptr<ItemWork> item) {
  item.reset();
  base::MutexLock lock(mutex_);
  CountFinished();
}

void QueueRun::CountFinished() {
  ++finished_;
  ++over_;
  changed_.NotifyAll();
}

RunReport QueueRun::Report() {
  base::MutexLock lock(mutex_);
  std::sort(report_.errors.begin(), report_.errors.end(),
            [](const ItemError& a, const ItemError& b) { return a.index < b.index; });
  if (options_.stop.stop_requested()) {
    report_.status = options_.abort_error;
  } else if (options_.on_failure == OnFailure::kGoOn && report_.failed > 0) {
    report_.status = base::Annotate(
        first_failed_.error,
        absl::StrCat(report_.failed, " of ", pulled_, " items failed; item ", first_failed_.index));
  }
  return std::move(report_);
}

}  // namespace callboard::flow::internal
