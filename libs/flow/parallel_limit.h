#ifndef CALLBOARD_LIBS_FLOW_PARALLEL_LIMIT_H_
#define CALLBOARD_LIBS_FLOW_PARALLEL_LIMIT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/mutex.h"
#include "libs/flow/abort.h"
#include "libs/flow/queue_run.h"
#include "libs/flow/run_with_queue.h"
#include "libs/ports/environment.h"

namespace callboard::flow {

enum class Order { kCompletion, kInput };

struct ParallelOptions {
  // Results that may exist at a time: being built, built, or in use by the consumer.
  size_t limit = 1;
  Order order = Order::kCompletion;
  std::stop_token stop = {};
};

// Builds a result from each item of a source, several at a time, and returns the results one by
// one. Takes an item from the source, and starts to build its result, only when there is room for
// the result. This bounds the memory of large results.
//
//   ParallelLimit images(executor, files, decode, {.limit = 8});
//   while (std::optional<absl::StatusOr<Image>> image = images.Next()) { ... }
//
// `build(item, stop)` returns absl::StatusOr<Result>; an exception becomes an error. If an item
// fails, the others continue. To end early, destroy the ParallelLimit: it requests `stop`, waits
// for running builds and starts no others.
//
// Used by one thread, which is not a thread of the executor. `executor` outlives the ParallelLimit,
// and so does a `source` that is passed as an lvalue.
template <class Source, class Build>
class ParallelLimit {
  using Items = internal::ItemSource<std::remove_reference_t<Source>>;
  using Item = typename Items::Item;
  using StoredItem = typename Items::StoredItem;

 public:
  using Result = typename std::invoke_result_t<Build&, const Item&, std::stop_token>::value_type;

  // REQUIRES: options.limit > 0.
  ParallelLimit(ports::Executor& executor, Source&& source, Build build, ParallelOptions options)
      : executor_(executor),
        options_(std::move(options)),
        build_(std::move(build)),
        source_(std::forward<Source>(source)),
        items_(source_),
        caller_stop_(options_.stop, [this] { Stop(); }) {
    CHECK_GT(options_.limit, 0u);
  }
  ~ParallelLimit() {
    Stop();
    base::MutexLock lock(mutex_);
    while (building_ > 0) executor_.Wait(mutex_, changed_, absl::InfiniteDuration());
  }
  ParallelLimit(const ParallelLimit&) = delete;
  ParallelLimit& operator=(const ParallelLimit&) = delete;

  // Waits for the next result or error of an item. Returns nullopt after the last one. After a stop
  // request, returns AbortError() once, then nullopt. The result of the previous call stops
  // counting towards the limit.
  std::optional<absl::StatusOr<Result>> Next() {
    StartBuilds();
    base::MutexLock lock(mutex_);
    while (!stopping_.stop_requested()) {
      if (const auto first = ready_.begin();
          first != ready_.end() &&
          (options_.order == Order::kCompletion || first->first == returned_)) {
        ++returned_;
        return std::move(ready_.extract(first).mapped());
      }
      if (building_ == 0) return std::nullopt;
      executor_.Wait(mutex_, changed_, absl::InfiniteDuration());
    }
    if (std::exchange(abort_reported_, true)) return std::nullopt;
    return AbortError();
  }

 private:
  void StartBuilds() {
    while (has_more_ && !stopping_.stop_requested() && HasRoom()) {
      std::optional<StoredItem> item = items_.Next();
      if (!item.has_value()) {
        has_more_ = false;
        return;
      }
      auto held = std::make_unique<StoredItem>(*std::move(item));
      {
        base::MutexLock lock(mutex_);
        ++building_;
      }
      executor_.Run([this, index = started_++, held = std::move(held)]() mutable {
        BuildOne(index, std::move(held));
      });
    }
  }
  bool HasRoom() {
    base::MutexLock lock(mutex_);
    return building_ + ready_.size() < options_.limit;
  }

  // Builds one result, on a thread of the executor. The ParallelLimit may be destroyed as soon as
  // this has decremented `building_`.
  void BuildOne(uint64_t index, std::unique_ptr<StoredItem> item) {
    std::optional<absl::StatusOr<Result>> result;
    const absl::Status status = internal::CatchExceptions([&] {
      RETURN_IF_ERROR(CheckNotAborted(stopping_.get_token()));
      const Item& input = *item;
      result.emplace(build_(input, stopping_.get_token()));
      return absl::OkStatus();
    });
    if (!result.has_value()) result.emplace(status);
    item.reset();
    base::MutexLock lock(mutex_);
    ready_.emplace(options_.order == Order::kInput ? index : built_++, *std::move(result));
    --building_;
    changed_.NotifyAll();
  }

  void Stop() {
    stopping_.request_stop();
    base::MutexLock lock(mutex_);
    changed_.NotifyAll();
  }

  ports::Executor& executor_;
  const ParallelOptions options_;
  Build build_;

  // Used by the consumer's thread only. Holds an rvalue source; refers to an lvalue source.
  Source source_;
  Items items_;
  bool has_more_ = true;
  uint64_t started_ = 0;
  bool abort_reported_ = false;

  std::stop_source stopping_;
  base::Mutex mutex_;
  base::CondVar changed_;
  size_t building_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t built_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t returned_ ABSL_GUARDED_BY(mutex_) = 0;
  // Keyed by index of the item, or by order of completion.
  std::map<uint64_t, absl::StatusOr<Result>> ready_ ABSL_GUARDED_BY(mutex_);

  // Destroyed first: its destructor waits for a callback that runs on another thread.
  std::stop_callback<std::function<void()>> caller_stop_;
};

template <class Source, class Build>
ParallelLimit(ports::Executor&, Source&&, Build, ParallelOptions) -> ParallelLimit<Source, Build>;

}  // namespace callboard::flow

#endif  // CALLBOARD_LIBS_FLOW_PARALLEL_LIMIT_H_
