#ifndef CALLBOARD_LIBS_FLOW_ITEM_SOURCE_H_
#define CALLBOARD_LIBS_FLOW_ITEM_SOURCE_H_

#include <functional>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>

namespace callboard::flow::internal {

// Where items come from, one at a time: a container or another range, which outlives the source,
// or a function that returns the next as an optional, empty after the last.
//
// `Item` is what workers see; `Held` what is kept of it: a reference where the range has the item
// anyway, else the item.
template <class Source>
class ItemSource {
  using Iterator = decltype(std::begin(std::declval<Source&>()));
  using Reference = decltype(*std::declval<Iterator&>());
  static constexpr bool kStays =
      std::forward_iterator<Iterator> && std::is_lvalue_reference_v<Reference>;

 public:
  using Item = std::remove_cvref_t<Reference>;
  using Held = std::conditional_t<kStays, std::reference_wrapper<const Item>, Item>;
  // Whether the next item is there without waiting for anybody.
  static constexpr bool kNeverWaits = kStays;

  explicit ItemSource(Source& range) : next_(std::begin(range)), end_(std::end(range)) {}

  std::optional<Held> Next() {
    if (next_ == end_) return std::nullopt;
    std::optional<Held> item(*next_);
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
  using Held = Item;
  static constexpr bool kNeverWaits = false;

  explicit ItemSource(Source& next) : next_(next) {}

  std::optional<Held> Next() { return next_(); }

 private:
  Source& next_;
};

}  // namespace callboard::flow::internal

#endif  // CALLBOARD_LIBS_FLOW_ITEM_SOURCE_H_
