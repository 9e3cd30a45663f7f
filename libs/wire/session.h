// What director and agent say in a Session, between callboard.v1 and libs/core. What comes in is
// checked here, once: an error is INVALID_ARGUMENT and names what is wrong.
#ifndef CALLBOARD_LIBS_WIRE_SESSION_H_
#define CALLBOARD_LIBS_WIRE_SESSION_H_

#include "absl/status/statusor.h"
#include "callboard/v1/agent.pb.h"
#include "libs/core/record.h"
#include "libs/core/session.h"

namespace callboard::wire {

// An item that this version does not know is core::UnknownItem, no error.
v1::SessionRequest::Item ToProto(const core::DirectorWord& word);
absl::StatusOr<core::DirectorWord> FromProto(const v1::SessionRequest::Item& proto);

v1::SessionResponse::Item ToProto(const core::AgentWord& word);
absl::StatusOr<core::AgentWord> FromProto(const v1::SessionResponse::Item& proto);

// Adds the lanes to a message that has `lanes`.
template <class Message>
void WriteLanes(const core::LaneLoads& lanes, Message& message) {
  for (const auto& [name, load] : lanes) {
    v1::Lane& lane = *message.add_lanes();
    lane.set_name(name);
    lane.set_slots(load.slots);
    lane.set_busy(load.used);
  }
}

// How a run ended. `proto` says what else there is to say of it.
void WriteResult(const core::RunResult& result, v1::AgentRun& proto);
absl::StatusOr<core::RunResult> ReadResult(const v1::AgentRun& proto);

v1::LogChunk ToProto(const core::OutputChunk& chunk, core::DispatchNumber dispatch);
core::OutputChunk FromProto(const v1::LogChunk& proto);

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_SESSION_H_
