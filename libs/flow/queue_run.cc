#include "libs/flow/queue_run.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
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
  {
    const std::stop_callback on_stop(options_.stop, [this] { ending_.request_stop(); });
    BringAll(source);
  }
  Settle();
  return Report();
}

void QueueRun::BringAll(Source source) {
  const std::stop_callback wake(ending_.get_token(), [this] {
    base::MutexLock lock(mutex_);
    changed_.NotifyAll();
  });
  const uint32_t wanted = traits_.reads_ahead ? std::max(1u, lane_.limit().max_pending / 2) : 1;
  std::vector<ports::Executor::Job> jobs;
  bool more = true;
  while (WaitForWork(more)) {
    absl::StatusOr<Places> places = lane_.Reserve(ending_.get_token(), wanted);
    if (!places.ok()) return;
    jobs.clear();
    while (jobs.size() < places->count()) {
      std::unique_ptr<ItemWork> item = NextItem(source);
      if (item == nullptr) {
        more = false;
        break;
      }
      jobs.push_back([this, item = std::move(item)]() mutable { Attempt(std::move(item)); });
    }
    brought_ += jobs.size();
    std::move(*places).Run(absl::MakeSpan(jobs), this);
  }
}

bool QueueRun::WaitForWork(bool more) {
  if (more) return !ending_.stop_requested();
  base::MutexLock lock(mutex_);
  while (!ending_.stop_requested()) {
    absl::Duration until_due = absl::InfiniteDuration();
    if (!retries_.empty()) {
      until_due = retries_.begin()->first - lane_.clock().MonotonicNow();
      if (until_due <= absl::ZeroDuration()) return true;
    } else if (over_ == brought_) {
      return false;
    }
    lane_.executor().Wait(mutex_, changed_, until_due);
  }
  return false;
}

std::unique_ptr<ItemWork> QueueRun::NextItem(Source source) {
  if (has_retries_) {
    base::MutexLock lock(mutex_);
    const auto first = retries_.begin();
    if (first != retries_.end() && first->first <= lane_.clock().MonotonicNow()) {
      std::unique_ptr<ItemWork> item = std::move(first->second);
      retries_.erase(first);
      has_retries_ = !retries_.empty();
      return item;
    }
  }
  std::unique_ptr<ItemWork> item = source();
  if (item != nullptr) item->index = pulled_++;
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
  absl::Status status = Guarded([&] { return item->Try(context); });
  if (!status.ok() && MayRetry(status, *item)) return Retry(std::move(item), status);
  if (status.ok() && traits_.has_on_result) {
    base::MutexLock lock(callbacks_);
    status = Guarded([&] { return item->OnResult(context); });
  }
  if (status.ok()) return Succeed(std::move(item));
  // Stopped, which is not failed.
  if (options_.stop.stop_requested() && IsAbortError(status)) return Drop(std::move(item));
  Fail(std::move(item), std::move(status));
}

bool QueueRun::MayRetry(const absl::Status& error, const ItemWork& item) const {
  return item.attempt <= options_.retries && !ending_.stop_requested() &&
         (options_.is_transient == nullptr || options_.is_transient(error));
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
  ++over_;
  changed_.NotifyAll();
}

void QueueRun::Fail(std::unique_ptr<ItemWork> item, absl::Status error) {
  {
    base::MutexLock lock(callbacks_);
    const ItemContext context = ContextOf(*item);
    const absl::Status told = Guarded([&] { return item->OnError(error, context); });
    if (!told.ok()) error = base::Annotate(error, absl::StrCat("(on_error: ", told.message(), ")"));
  }
  const size_t index = item->index;
  item.reset();
  {
    base::MutexLock lock(mutex_);
    ++report_.failed;
    if (report_.status.ok()) report_.status = error;
    if (report_.errors.size() < options_.errors_max) {
      report_.errors.push_back({index, std::move(error)});
    }
  }
  if (options_.on_failure == OnFailure::kStop) ending_.request_stop();
  Drop(nullptr);
}

void QueueRun::Drop(std::unique_ptr<ItemWork> item) {
  item.reset();
  base::MutexLock lock(mutex_);
  ++over_;
  changed_.NotifyAll();
}

RunReport QueueRun::Report() {
  base::MutexLock lock(mutex_);
  std::vector<ItemError>& errors = report_.errors;
  std::sort(errors.begin(), errors.end(),
            [](const ItemError& a, const ItemError& b) { return a.index < b.index; });
  if (options_.stop.stop_requested()) {
    report_.status = options_.abort_error;
  } else if (options_.on_failure == OnFailure::kGoOn && report_.failed > 0) {
    const ItemError first = errors.empty() ? ItemError{0, report_.status} : errors.front();
    report_.status = base::Annotate(first.error, absl::StrCat(report_.failed, " of ", pulled_,
                                                              " items failed; item ", first.index));
  }
  return std::move(report_);
}

}  // namespace callboard::flow::internal
