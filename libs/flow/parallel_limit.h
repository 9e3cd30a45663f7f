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
#include "libs/base/mutex.h"
#include "libs/base/status_macros.h"
#include "libs/flow/abort.h"
#include "libs/flow/item_source.h"
#include "libs/flow/queue_run.h"
#include "libs/ports/executor.h"

namespace callboard::flow {

enum class Order { kAsTheyCome, kAsGiven };

struct ParallelOptions {
  // How many results may exist at a time: being built, built, or in the consumer's hands.
  size_t limit = 1;
  Order order = Order::kAsTheyCome;
  std::stop_token stop = {};
};

// Builds a result from each item of a source, several at a time, and hands them out one by one. An
// item is taken from the source, and what is heavy built, only once there is room for the result.
//
//   ParallelLimit images(executor, files, decode, {.limit = 8});
//   while (std::optional<absl::StatusOr<Image>> image = images.Next()) { ... }
//
// `build(item, stop)` returns absl::StatusOr<Result>; what it throws is an error too. An item that
// fails does not end the others: who has enough of it lets the ParallelLimit end, which requests
// `stop`, waits for what is under way and takes nothing more.
//
// For one thread, which is none of the executor's. `executor` outlives it, and so does a `source`
// that has a name.
template <class Source, class Build>
class ParallelLimit {
  using Items = internal::ItemSource<std::remove_reference_t<Source>>;
  using Item = typename Items::Item;
  using Held = typename Items::Held;

 public:
  using Result = typename std::invoke_result_t<Build&, const Item&, std::stop_token>::value_type;

  // REQUIRES: options.limit > 0.
  ParallelLimit(ports::Executor& executor, Source&& source, Build build, ParallelOptions options)
      : executor_(executor),
        options_(std::move(options)),
        build_(std::move(build)),
        source_(std::forward<Source>(source)),
        items_(source_),
        stopped_by_caller_(options_.stop, [this] { Stop(); }) {
    CHECK_GT(options_.limit, 0u);
  }
  ~ParallelLimit() {
    Stop();
    base::MutexLock lock(mutex_);
    while (building_ > 0) executor_.Wait(mutex_, changed_, absl::InfiniteDuration());
  }
  ParallelLimit(const ParallelLimit&) = delete;
  ParallelLimit& operator=(const ParallelLimit&) = delete;

  // Waits for the next result, or error of an item; nothing after the last. Once it was stopped:
  // AbortError(), then nothing. The result of the last call no longer counts.
  std::optional<absl::StatusOr<Result>> Next() {
    StartMore();
    base::MutexLock lock(mutex_);
    while (!stopping_.stop_requested()) {
      if (const auto first = ready_.begin();
          first != ready_.end() &&
          (options_.order == Order::kAsTheyCome || first->first == handed_out_)) {
        ++handed_out_;
        return std::move(ready_.extract(first).mapped());
      }
      if (building_ == 0) return std::nullopt;
      executor_.Wait(mutex_, changed_, absl::InfiniteDuration());
    }
    if (std::exchange(told_, true)) return std::nullopt;
    return AbortError();
  }

 private:
  void StartMore() {
    while (more_ && !stopping_.stop_requested() && HasRoom()) {
      std::optional<Held> item = items_.Next();
      if (!item.has_value()) {
        more_ = false;
        return;
      }
      auto held = std::make_unique<Held>(*std::move(item));
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

  // When it is over, the ParallelLimit may be gone.
  void BuildOne(uint64_t index, std::unique_ptr<Held> item) {
    std::optional<absl::StatusOr<Result>> result;
    const absl::Status status = internal::Guarded([&] {
      RETURN_IF_ERROR(CheckNotAborted(stopping_.get_token()));
      const Item& built_from = *item;
      result.emplace(build_(built_from, stopping_.get_token()));
      return absl::OkStatus();
    });
    if (!result.has_value()) result.emplace(status);
    item.reset();
    base::MutexLock lock(mutex_);
    ready_.emplace(options_.order == Order::kAsGiven ? index : built_++, *std::move(result));
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

  // Of the consumer's thread. A source that would be gone is kept here, another one is referred to.
  Source source_;
  Items items_;
  bool more_ = true;
  uint64_t started_ = 0;
  bool told_ = false;

  std::stop_source stopping_;
  base::Mutex mutex_;
  base::CondVar changed_;
  size_t building_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t built_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t handed_out_ ABSL_GUARDED_BY(mutex_) = 0;
  // By index, or by the order in which they came.
  std::map<uint64_t, absl::StatusOr<Result>> ready_ ABSL_GUARDED_BY(mutex_);

  // Ends first: it may be under way in another thread.
  std::stop_callback<std::function<void()>> stopped_by_caller_;
};

template <class Source, class Build>
ParallelLimit(ports::Executor&, Source&&, Build, ParallelOptions) -> ParallelLimit<Source, Build>;

}  // namespace callboard::flow

#endif  // CALLBOARD_LIBS_FLOW_PARALLEL_LIMIT_H_
