// Converts the messages of a Session between callboard.v1 and libs/core. Incoming messages are
// validated here and nowhere else; errors are INVALID_ARGUMENT and name the invalid field. Also
// queues the items that one end has to send.

#ifndef CALLBOARD_LIBS_WIRE_SESSION_H_
#define CALLBOARD_LIBS_WIRE_SESSION_H_

#include <cstddef>
#include <deque>
#include <utility>

#include "absl/status/statusor.h"
#include "callboard/v1/agent.pb.h"
#include "libs/core/record.h"
#include "libs/core/session.h"

namespace callboard::wire {

// Return core::UnknownItem, not an error, for an item that this version does not know.
v1::SessionRequest::Item ToProto(const core::DirectorMessage& message);
absl::StatusOr<core::DirectorMessage> FromProto(const v1::SessionRequest::Item& proto);

v1::SessionResponse::Item ToProto(const core::AgentMessage& message);
absl::StatusOr<core::AgentMessage> FromProto(const v1::SessionResponse::Item& proto);

// Adds the lanes to a proto message with a field `lanes`.
template <class Message>
void WriteLanes(const core::LaneLoads& lanes, Message& message) {
  for (const auto& [name, load] : lanes) {
    v1::Lane& lane = *message.add_lanes();
    lane.set_name(name);
    lane.set_slots(load.slots);
    lane.set_busy(load.used);
  }
}

v1::LogChunk ToProto(const core::OutputChunk& chunk, core::DispatchNumber dispatch);
core::OutputChunk FromProto(const v1::LogChunk& proto);

// Maximum size of a message of a Session, below the limit of gRPC.
inline constexpr size_t kSessionMessageBytesMax = 3 * 1024 * 1024;

// The queue of items that one end of a Session has to send. Puts many items into one message.
// Output has the lowest priority, because users and leases depend on the other items. `Message` is
// SessionRequest or SessionResponse.
//
// Not thread-safe. The queue itself is not bounded: acknowledgements bound the output, and the
// slots of the agent bound the other items.
template <class Message>
class OutgoingItems {
 public:
  using Item = typename Message::Item;

  void Add(Item item) { control_.push_back(std::move(item)); }
  void AddOutput(Item item) { output_.push_back(std::move(item)); }

  bool empty() const { return control_.empty() && output_.empty(); }

  // Removes and returns the next message. Items are in the order in which they were added, output
  // last. REQUIRES: !empty().
  Message TakeMessage() {
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

  // Removes all items and returns them, without output.
  std::deque<Item> TakeRest() {
    output_.clear();
    return std::exchange(control_, {});
  }

 private:
  std::deque<Item> control_;
  std::deque<Item> output_;
};

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_SESSION_H_
