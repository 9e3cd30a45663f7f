#ifndef CALLBOARD_LIBS_WIRE_OUTGOING_ITEMS_H_
#define CALLBOARD_LIBS_WIRE_OUTGOING_ITEMS_H_

#include <cstddef>
#include <deque>
#include <utility>

namespace callboard::wire {

// A message of a Session grows no further than this: below what gRPC takes.
inline constexpr size_t kSessionMessageBytesMax = 3 * 1024 * 1024;

// What one end of a Session has yet to say. Many items go out in one message; output comes after
// everything else, which people and leases wait for. `Message` is SessionRequest or
// SessionResponse.
//
// Not thread-safe. Not bounded by itself: output is bounded by acknowledgements, and the rest by
// what the other end has slots for.
template <class Message>
class OutgoingItems {
 public:
  using Item = typename Message::Item;

  void Add(Item item) { control_.push_back(std::move(item)); }
  void AddOutput(Item item) { output_.push_back(std::move(item)); }

  bool empty() const { return control_.empty() && output_.empty(); }

  // The next message: in the order in which items were added. REQUIRES: !empty().
  Message Take() {
    Message message;
    size_t bytes = 0;
    for (std::deque<Item>* items : {&control_, &output_}) {
      while (!items->empty()) {
        bytes += items->front().ByteSizeLong();
        if (message.items_size() > 0 && bytes > kSessionMessageBytesMax) return message;
        *message.add_items() = std::move(items->front());
        items->pop_front();
      }
    }
    return message;
  }

  // What was never taken, but for output.
  std::deque<Item> TakeRest() {
    output_.clear();
    return std::exchange(control_, {});
  }

 private:
  std::deque<Item> control_;
  std::deque<Item> output_;
};

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_OUTGOING_ITEMS_H_
