#ifndef CALLBOARD_LIBS_FLOW_RUN_WITH_QUEUE_H_
#define CALLBOARD_LIBS_FLOW_RUN_WITH_QUEUE_H_

#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/flow/queue_run.h"

namespace callboard::flow::internal {

// Iterates over the items of a run. `Source` is a container or another range, or a function that
// returns the next item as an optional, empty after the last. It outlives the ItemSource.
//
// Workers see an `Item`. A `StoredItem` is what is kept until then: a reference if the range keeps
// its items anyway, otherwise the item.
template <class Source>
class ItemSource {
  using Iterator = decltype(std::begin(std::declval<Source&>()));
  using Reference = decltype(*std::declval<Iterator&>());
  static constexpr bool kHasStableItems =
      std::forward_iterator<Iterator> && std::is_lvalue_reference_v<Reference>;

 public:
  using Item = std::remove_cvref_t<Reference>;
  using StoredItem = std::conditional_t<kHasStableItems, std::reference_wrapper<const Item>, Item>;
  // Whether Next() never blocks.
  static constexpr bool kNeverBlocks = kHasStableItems;

  explicit ItemSource(Source& range) : next_(std::begin(range)), end_(std::end(range)) {}

  std::optional<StoredItem> Next() {
    if (next_ == end_) return std::nullopt;
    std::optional<StoredItem> item(*next_);
    ++next_;
    return item;
  }

 private:
  Iterator next_;
  decltype(std::end(std::declval<Source&>())) end_;
};

template <class Source>
requires std::is_invocable_v<Source&>
class ItemSource<Source> {
 public:
  using Item = typename std::invoke_result_t<Source&>::value_type;
  using StoredItem = Item;
  static constexpr bool kNeverBlocks = false;

  explicit ItemSource(Source& next) : next_(next) {}

  std::optional<StoredItem> Next() { return next_(); }

 private:
  Source& next_;
};

}  // namespace callboard::flow::internal

namespace callboard::flow {

// The outcome of a run, with the results of the workers in the order of the input, empty where an
// item failed or did not run. If the source is a function, `results` covers the items that were
// taken from it.
template <class Result>
struct RunResults : RunReport {
  std::vector<std::optional<Result>> results = {};
};
template <>
struct RunResults<void> : RunReport {};

// Callbacks of a run. Called for one item at a time, on the threads of the workers. Either may be
// null. If a callback returns an error or throws, the item has failed.
template <class Item, class Result>
struct RunCallbacks {
  // Called for each item that succeeded.
  std::function<absl::Status(const Item&, const Result&, const ItemContext&)> on_result = {};
  // Called once for each item that failed, after its last attempt.
  std::function<absl::Status(const Item&, const absl::Status&, const ItemContext&)> on_error = {};
};
template <class Item>
struct RunCallbacks<Item, void> {
  std::function<absl::Status(const Item&, const ItemContext&)> on_result = {};
  std::function<absl::Status(const Item&, const absl::Status&, const ItemContext&)> on_error = {};
};

namespace internal {

template <class Returned>
struct UnwrapResult;
template <>
struct UnwrapResult<absl::Status> {
  using Type = void;
};
template <class Value>
struct UnwrapResult<absl::StatusOr<Value>> {
  using Type = Value;
};

template <class Source, class Worker>
using WorkerResult =
    typename UnwrapResult<std::invoke_result_t<Worker&, const typename ItemSource<Source>::Item&,
                                               const ItemContext&>>::Type;

// The state that the items of a run share. Outlives them.
template <class Item, class Result, class Worker>
struct TypedRun {
  Worker& worker;
  const RunCallbacks<Item, Result>& callbacks;
  // Used by one item at a time.
  RunResults<Result>& outcome;
};

template <class StoredItem, class Item, class Result, class Worker>
class TypedItemWork final : public ItemWork {
 public:
  TypedItemWork(StoredItem item, const TypedRun<Item, Result, Worker>& typed_run)
      : item_(std::forward<StoredItem>(item)), run_(typed_run) {}

  absl::Status RunWorker(const ItemContext& context) override {
    const Item& item = item_;
    if constexpr (std::is_void_v<Result>) {
      return run_.worker(item, context);
    } else {
      absl::StatusOr<Result> result = run_.worker(item, context);
      if (!result.ok()) return result.status();
      result_ = *std::move(result);
      return absl::OkStatus();
    }
  }

  absl::Status OnResult(const ItemContext& context) override {
    const auto& on_result = run_.callbacks.on_result;
    if constexpr (std::is_void_v<Result>) {
      return on_result ? on_result(item_, context) : absl::OkStatus();
    } else {
      if (on_result) {
        if (absl::Status status = on_result(item_, *result_, context); !status.ok()) return status;
      }
      std::vector<std::optional<Result>>& results = run_.outcome.results;
      if (results.size() <= index) results.resize(index + 1);
      results[index] = std::move(result_);
      return absl::OkStatus();
    }
  }

  absl::Status OnError(const absl::Status& error, const ItemContext& context) override {
    const auto& on_error = run_.callbacks.on_error;
    return on_error ? on_error(item_, error, context) : absl::OkStatus();
  }

 private:
  struct NoResult {};

  const StoredItem item_;
  const TypedRun<Item, Result, Worker>& run_;
  std::conditional_t<std::is_void_v<Result>, NoResult, std::optional<Result>> result_;
};

}  // namespace internal

// Calls `worker(item, context)` for every item of `source`, in `lane`. Returns when no call is in
// progress and none will follow.
//
//   RunResults<Digest> digests = RunWithQueue(
//       io, files, [](const std::string& file, const ItemContext& context) { return Hash(file); },
//       {.on_failure = OnFailure::kContinue, .retries = 2, .stop = stop});
//
// `source` is a range, or a function that returns an optional. No more items exist at a time than
// the lane may hold, in flight, pending or in backoff. A function may block until it has its next
// item. Meanwhile it holds no place, but retries and the end of the run wait for it, so it should
// observe the same stop token. If the source throws, the run ends with that error. A worker returns
// absl::StatusOr<Result>, or absl::Status if there is no result; an exception becomes an error.
//
// A stop request ends the run as a failure does with OnFailure::kStop, also with kContinue. An item
// whose worker then returns an AbortError() has not failed.
//
// REQUIRES: not called from a job of the lane's Flow.
template <class Source, class Worker>
RunResults<internal::WorkerResult<Source, Worker>> RunWithQueue(
    Lane& lane, Source&& source, Worker worker, const RunOptions& options = {},
    const RunCallbacks<typename internal::ItemSource<std::remove_reference_t<Source>>::Item,
                       internal::WorkerResult<Source, Worker>>& callbacks = {}) {
  using Items = internal::ItemSource<std::remove_reference_t<Source>>;
  using Item = typename Items::Item;
  using StoredItem = typename Items::StoredItem;
  using Result = internal::WorkerResult<Source, Worker>;
  RunResults<Result> outcome;
  const internal::TypedRun<Item, Result, Worker> typed_run = {worker, callbacks, outcome};
  Items items(source);
  size_t pulled = 0;
  const auto next = [&]() -> std::unique_ptr<internal::ItemWork> {
    std::optional<StoredItem> item = items.Next();
    if (!item.has_value()) return nullptr;
    ++pulled;
    return std::make_unique<internal::TypedItemWork<StoredItem, Item, Result, Worker>>(
        *std::move(item), typed_run);
  };
  internal::QueueRun run(
      lane, options,
      {.reads_ahead = Items::kNeverBlocks,
       .has_on_result = !std::is_void_v<Result> || callbacks.on_result != nullptr});
  static_cast<RunReport&>(outcome) = run.Run(next);
  if constexpr (!std::is_void_v<Result>) {
    if constexpr (Items::kNeverBlocks) pulled = std::distance(std::begin(source), std::end(source));
    outcome.results.resize(pulled);
  }
  return outcome;
}

}  // namespace callboard::flow

#endif  // CALLBOARD_LIBS_FLOW_RUN_WITH_QUEUE_H_
