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
#include "libs/flow/item_source.h"
#include "libs/flow/queue_run.h"

namespace callboard::flow {

// How a run went, and what the workers returned: results in the order of the input, empty where an
// item failed or did not run. Of a source that is a function, only of what was taken from it.
template <class Result>
struct RunResults : RunReport {
  std::vector<std::optional<Result>> results = {};
};
template <>
struct RunResults<void> : RunReport {};

// Called for one item at a time, in the threads of the workers; either may be null. An error that
// one returns, or an exception, is the item's failure.
template <class Item, class Result>
struct RunCallbacks {
  // For items that succeeded.
  std::function<absl::Status(const Item&, const Result&, const ItemContext&)> on_result = {};
  // Once for each item that failed, after its last attempt.
  std::function<absl::Status(const Item&, const absl::Status&, const ItemContext&)> on_error = {};
};
template <class Item>
struct RunCallbacks<Item, void> {
  std::function<absl::Status(const Item&, const ItemContext&)> on_result = {};
  std::function<absl::Status(const Item&, const absl::Status&, const ItemContext&)> on_error = {};
};

namespace internal {

template <class Returned>
struct ResultOf;
template <>
struct ResultOf<absl::Status> {
  using Type = void;
};
template <class Value>
struct ResultOf<absl::StatusOr<Value>> {
  using Type = Value;
};

template <class Source, class Worker>
using WorkerResult =
    typename ResultOf<std::invoke_result_t<Worker&, const typename ItemSource<Source>::Item&,
                                           const ItemContext&>>::Type;

// What the items of a run have in common.
template <class Item, class Result, class Worker>
struct RunParts {
  Worker& worker;
  const RunCallbacks<Item, Result>& callbacks;
  // Touched by one item at a time.
  RunResults<Result>& outcome;
};

template <class Held, class Item, class Result, class Worker>
class TypedItemWork final : public ItemWork {
 public:
  TypedItemWork(Held item, const RunParts<Item, Result, Worker>& parts)
      : item_(std::forward<Held>(item)), parts_(parts) {}

  absl::Status Try(const ItemContext& context) override {
    const Item& item = item_;
    if constexpr (std::is_void_v<Result>) {
      return parts_.worker(item, context);
    } else {
      absl::StatusOr<Result> result = parts_.worker(item, context);
      if (!result.ok()) return result.status();
      result_ = *std::move(result);
      return absl::OkStatus();
    }
  }

  absl::Status OnResult(const ItemContext& context) override {
    const auto& on_result = parts_.callbacks.on_result;
    if constexpr (std::is_void_v<Result>) {
      return on_result ? on_result(item_, context) : absl::OkStatus();
    } else {
      if (on_result) {
        if (absl::Status told = on_result(item_, *result_, context); !told.ok()) return told;
      }
      std::vector<std::optional<Result>>& results = parts_.outcome.results;
      if (results.size() <= index) results.resize(index + 1);
      results[index] = std::move(result_);
      return absl::OkStatus();
    }
  }

  absl::Status OnError(const absl::Status& error, const ItemContext& context) override {
    const auto& on_error = parts_.callbacks.on_error;
    return on_error ? on_error(item_, error, context) : absl::OkStatus();
  }

 private:
  struct Nothing {};

  const Held item_;
  const RunParts<Item, Result, Worker>& parts_;
  std::conditional_t<std::is_void_v<Result>, Nothing, std::optional<Result>> result_;
};

}  // namespace internal

// Calls `worker(item, context)` for every item of `source`, in `lane`, and returns when no call is
// under way or will come.
//
//   RunResults<Digest> digests = RunWithQueue(
//       io, files, [](const std::string& file, const ItemContext& context) { return Hash(file); },
//       {.on_failure = OnFailure::kGoOn, .retries = 2, .stop = stop});
//
// `source` is a range, or a function that returns an optional. However long it is, no more items
// exist at a time than the lane may hold, in flight, pending or in their backoff. A function may
// wait for its next item: meanwhile it holds no place, but retries and the end of the run wait for
// it, so that it should heed the same stop token. A source that throws ends the run with that
// error. A worker returns absl::StatusOr<Result>, or absl::Status when there is no result; what it
// throws is an error too.
//
// A stop request ends the run as a failure does under OnFailure::kStop, whatever `on_failure` is;
// an item whose worker then returns an AbortError() has not failed.
//
// REQUIRES: not called from work of the lane's Flow.
template <class Source, class Worker>
RunResults<internal::WorkerResult<Source, Worker>> RunWithQueue(
    Lane& lane, Source&& source, Worker worker, const RunOptions& options = {},
    const RunCallbacks<typename internal::ItemSource<std::remove_reference_t<Source>>::Item,
                       internal::WorkerResult<Source, Worker>>& callbacks = {}) {
  using Items = internal::ItemSource<std::remove_reference_t<Source>>;
  using Item = typename Items::Item;
  using Held = typename Items::Held;
  using Result = internal::WorkerResult<Source, Worker>;
  RunResults<Result> outcome;
  const internal::RunParts<Item, Result, Worker> parts = {worker, callbacks, outcome};
  Items items(source);
  size_t pulled = 0;
  const auto next = [&]() -> std::unique_ptr<internal::ItemWork> {
    std::optional<Held> item = items.Next();
    if (!item.has_value()) return nullptr;
    ++pulled;
    return std::make_unique<internal::TypedItemWork<Held, Item, Result, Worker>>(*std::move(item),
                                                                                 parts);
  };
  internal::QueueRun run(
      lane, options,
      {.reads_ahead = Items::kNeverWaits,
       .has_on_result = !std::is_void_v<Result> || callbacks.on_result != nullptr});
  static_cast<RunReport&>(outcome) = run.Run(next);
  if constexpr (!std::is_void_v<Result>) {
    if constexpr (Items::kNeverWaits) pulled = std::distance(std::begin(source), std::end(source));
    outcome.results.resize(pulled);
  }
  return outcome;
}

}  // namespace callboard::flow

#endif  // CALLBOARD_LIBS_FLOW_RUN_WITH_QUEUE_H_
