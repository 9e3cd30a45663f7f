#include "libs/wire/session.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/core/limits.h"
#include "libs/wire/enums.h"
#include "libs/wire/fields.h"
#include "libs/wire/spec.h"
#include "libs/wire/status.h"
#include "libs/wire/task.h"
#include "libs/wire/time.h"

namespace callboard::wire {
namespace {

using core::FenceToken;
using core::RunResult;
using Request = v1::SessionRequest;
using Response = v1::SessionResponse;

constexpr EnumPair<core::OutputStream, v1::LogChunk::Stream> kStreams[] = {
    {core::OutputStream::kStdout, v1::LogChunk::STREAM_STDOUT},
    {core::OutputStream::kStderr, v1::LogChunk::STREAM_STDERR},
};

absl::Status FieldError(absl::string_view field, absl::string_view problem) {
  FieldChecks checks;
  checks.AddViolation(field, problem);
  return checks.status();
}

absl::StatusOr<absl::Duration> ReadDuration(absl::string_view field,
                                            const google::protobuf::Duration& proto) {
  const std::optional<absl::Duration> duration = FromProto(proto);
  if (!duration.has_value() || *duration < absl::ZeroDuration()) {
    return FieldError(field, "is not a valid duration");
  }
  return *duration;
}

template <class Protos>
absl::StatusOr<std::vector<FenceToken>> ReadTokens(const Protos& protos) {
  std::vector<FenceToken> tokens;
  tokens.reserve(protos.size());
  for (const v1::FenceToken& proto : protos) {
    ASSIGN_OR_RETURN(const FenceToken token, FromProto(proto));
    tokens.push_back(token);
  }
  return tokens;
}

template <class Protos>
core::LaneLoads ReadLanes(const Protos& protos) {
  core::LaneLoads lanes;
  for (const v1::Lane& lane : protos) lanes[lane.name()] = {lane.slots(), lane.busy()};
  return lanes;
}

template <class Protos>
absl::StatusOr<std::set<std::string>> ReadFeatures(absl::string_view field, const Protos& protos) {
  const bool fits = protos.size() <= core::kFeaturesMax &&
                    std::all_of(protos.begin(), protos.end(), [](const std::string& feature) {
                      return feature.size() <= core::kNameBytesMax;
                    });
  if (!fits) {
    return FieldError(
        field, absl::StrCat("has more than ", core::kFeaturesMax, " names, or one of more than ",
                            core::kNameBytesMax, " bytes"));
  }
  return std::set<std::string>(protos.begin(), protos.end());
}

void WriteEnded(const core::RunEnded& ended, Response::Result& proto) {
  *proto.mutable_token() = ToProto(ended.token);
  v1::AgentRun& run = *proto.mutable_run();
  run.set_task_id(core::TaskIdText(ended.token.queue_id, ended.token.dispatch));
  WriteResult(ended.result, run);
}

// Reads a run that ended in a state of a later version: as a failure that says so.
absl::StatusOr<RunResult> ReadUnknownEnd(v1::AgentRun run) {
  if (run.error().empty()) {
    run.set_error(absl::StrCat("the run ended in a state that this version does not know (",
                               run.state(), ")"));
  }
  run.set_state(v1::AgentRun::STATE_FAILED);
  return ReadResult(run);
}

absl::StatusOr<core::RunEnded> ReadEnded(const Response::Result& proto) {
  ASSIGN_OR_RETURN(const FenceToken token, FromProto(proto.token()));
  const bool is_known = v1::AgentRun::State_IsValid(proto.run().state());
  ASSIGN_OR_RETURN(RunResult result,
                   is_known ? ReadResult(proto.run()) : ReadUnknownEnd(proto.run()));
  return core::RunEnded{token, std::move(result)};
}

// ---- Messages of the director -------------------------------------------------------------------

struct DirectorWriter {
  void operator()(const core::SessionTerms& terms) const {
    Request::Open& open = *item.mutable_open();
    open.set_director_epoch(terms.director_epoch);
    *open.mutable_heartbeat() = ToProto(terms.lease.heartbeat);
    *open.mutable_self_fence() = ToProto(terms.lease.self_fence);
    *open.mutable_kill_grace() = ToProto(terms.lease.kill_grace);
    *open.mutable_redispatch_after() = ToProto(terms.lease.redispatch_after);
    open.set_protocol_version(terms.version);
    for (const std::string& feature : terms.features) open.add_features(feature);
  }
  void operator()(const core::StartRun& start) const {
    *item.mutable_start()->mutable_token() = ToProto(start.token);
    *item.mutable_start()->mutable_agent_time() = ToProto(start.agent_time);
    // The bytes become the field `spec` when the item is serialized, without being parsed here.
    Request::Start& proto = *item.mutable_start();
    proto.GetReflection()->MutableUnknownFields(&proto)->AddLengthDelimited(
        Request::Start::kSpecFieldNumber, *start.spec);
    if (start.trace != core::SpanContext()) {
      item.mutable_start()->set_traceparent(core::FormatTraceparent(start.trace));
    }
  }
  void operator()(const core::CancelRun& cancel) const {
    *item.mutable_cancel()->mutable_token() = ToProto(cancel.token);
  }
  void operator()(const core::ResultAck& acknowledged) const {
    *item.mutable_result_ack()->mutable_token() = ToProto(acknowledged.token);
  }
  void operator()(const core::FenceOff& outdated) const {
    *item.mutable_fence()->mutable_token() = ToProto(outdated.token);
  }
  void operator()(const core::GoingAway& away) const {
    *item.mutable_going_away()->mutable_lease_extension() = ToProto(away.extension);
  }
  void operator()(const core::HeartbeatAck& acknowledged) const {
    *item.mutable_heartbeat_ack()->mutable_agent_time() = ToProto(acknowledged.agent_time);
  }
  void operator()(const core::OutputAck& acknowledged) const {
    *item.mutable_log_ack()->mutable_token() = ToProto(acknowledged.token);
    item.mutable_log_ack()->set_number(acknowledged.number);
  }
  void operator()(const core::UnknownItem&) const {}
  Request::Item& item;
};

absl::StatusOr<core::DirectorMessage> ReadOpen(const Request::Open& proto) {
  if (proto.director_epoch() == 0) return FieldError("open.director_epoch", "is required");
  core::SessionTerms terms = {.director_epoch = proto.director_epoch()};
  ASSIGN_OR_RETURN(terms.lease.heartbeat, ReadDuration("open.heartbeat", proto.heartbeat()));
  ASSIGN_OR_RETURN(terms.lease.self_fence, ReadDuration("open.self_fence", proto.self_fence()));
  ASSIGN_OR_RETURN(terms.lease.kill_grace, ReadDuration("open.kill_grace", proto.kill_grace()));
  ASSIGN_OR_RETURN(terms.lease.redispatch_after,
                   ReadDuration("open.redispatch_after", proto.redispatch_after()));
  if (terms.lease.heartbeat == absl::ZeroDuration())
    return FieldError("open.heartbeat", "is required");
  terms.version = proto.protocol_version();
  ASSIGN_OR_RETURN(terms.features, ReadFeatures("open.features", proto.features()));
  return terms;
}

absl::StatusOr<core::DirectorMessage> ReadStart(const Request::Start& proto) {
  core::StartRun start;
  ASSIGN_OR_RETURN(start.token, FromProto(proto.token()));
  ASSIGN_OR_RETURN(start.agent_time, ReadDuration("start.agent_time", proto.agent_time()));
  // An invalid traceparent means that the run is not traced.
  start.trace = core::ParseTraceparent(proto.traceparent()).value_or(core::SpanContext());
  if (!proto.has_spec()) return FieldError("start.spec", "is required");
  start.run = std::make_shared<const core::RunSpec>(ReadRunSpec(proto.spec()));
  return start;
}

// ---- Messages of the agent ----------------------------------------------------------------------

struct AgentWriter {
  void operator()(const core::SessionOpened& opened) const {
    Response::Opened& proto = *item.mutable_opened();
    proto.set_name(opened.name);
    proto.set_instance_id(opened.instance_id);
    proto.set_agent_url(opened.url);
    proto.mutable_labels()->insert(opened.labels.begin(), opened.labels.end());
    WriteLanes(opened.lanes, proto);
    proto.set_draining(opened.leaving);
    *proto.mutable_agent_time() = ToProto(opened.agent_time);
    for (const FenceToken& token : opened.running) *proto.add_running() = ToProto(token);
    for (const FenceToken& token : opened.lost) *proto.add_lost() = ToProto(token);
    for (const FenceToken& token : opened.ended) *proto.add_ended() = ToProto(token);
    proto.set_protocol_version(opened.version);
    for (const std::string& feature : opened.features) proto.add_features(feature);
  }
  void operator()(const core::StartAnswer& answered) const {
    *item.mutable_start_answer()->mutable_token() = ToProto(answered.token);
    if (!answered.answer.ok()) {
      *item.mutable_start_answer()->mutable_refused() = ToProto(answered.answer);
    }
  }
  void operator()(const core::RunEnded& ended) const { WriteEnded(ended, *item.mutable_result()); }
  void operator()(const core::Heartbeat& heartbeat) const {
    *item.mutable_heartbeat()->mutable_agent_time() = ToProto(heartbeat.agent_time);
    for (const FenceToken& token : heartbeat.running) {
      *item.mutable_heartbeat()->add_running() = ToProto(token);
    }
  }
  void operator()(const core::LoadReport& load) const {
    WriteLanes(load.lanes, *item.mutable_load());
    item.mutable_load()->set_draining(load.leaving);
  }
  void operator()(const core::RunOutput& written) const {
    *item.mutable_logs()->mutable_token() = ToProto(written.token);
    for (const core::OutputChunk& chunk : written.chunks) {
      *item.mutable_logs()->add_chunks() = ToProto(chunk, written.token.dispatch);
    }
    item.mutable_logs()->set_last(written.is_last);
  }
  void operator()(const core::UnknownItem&) const {}
  Response::Item& item;
};

absl::StatusOr<core::AgentMessage> ReadOpened(const Response::Opened& proto) {
  core::SessionOpened opened = {.name = proto.name(),
                                .instance_id = proto.instance_id(),
                                .url = proto.agent_url(),
                                .labels = {proto.labels().begin(), proto.labels().end()},
                                .lanes = ReadLanes(proto.lanes()),
                                .leaving = proto.draining()};
  ASSIGN_OR_RETURN(opened.agent_time, ReadDuration("opened.agent_time", proto.agent_time()));
  ASSIGN_OR_RETURN(opened.running, ReadTokens(proto.running()));
  ASSIGN_OR_RETURN(opened.lost, ReadTokens(proto.lost()));
  ASSIGN_OR_RETURN(opened.ended, ReadTokens(proto.ended()));
  opened.version = proto.protocol_version();
  ASSIGN_OR_RETURN(opened.features, ReadFeatures("opened.features", proto.features()));
  return opened;
}

absl::StatusOr<core::AgentMessage> ReadLogs(const Response::Logs& proto) {
  core::RunOutput written;
  ASSIGN_OR_RETURN(written.token, FromProto(proto.token()));
  for (const v1::LogChunk& chunk : proto.chunks()) written.chunks.push_back(FromProto(chunk));
  written.is_last = proto.last();
  return written;
}

}  // namespace

v1::SessionRequest::Item ToProto(const core::DirectorMessage& message) {
  Request::Item item;
  std::visit(DirectorWriter{item}, message);
  return item;
}

absl::StatusOr<core::DirectorMessage> FromProto(const v1::SessionRequest::Item& proto) {
  switch (proto.kind_case()) {
    case Request::Item::kOpen:
      return ReadOpen(proto.open());
    case Request::Item::kStart:
      return ReadStart(proto.start());
    case Request::Item::kCancel: {
      ASSIGN_OR_RETURN(const FenceToken token, FromProto(proto.cancel().token()));
      return core::CancelRun{token};
    }
    case Request::Item::kResultAck: {
      ASSIGN_OR_RETURN(const FenceToken token, FromProto(proto.result_ack().token()));
      return core::ResultAck{token};
    }
    case Request::Item::kFence: {
      ASSIGN_OR_RETURN(const FenceToken token, FromProto(proto.fence().token()));
      return core::FenceOff{token};
    }
    case Request::Item::kHeartbeatAck: {
      ASSIGN_OR_RETURN(const absl::Duration time, ReadDuration("heartbeat_ack.agent_time",
                                                               proto.heartbeat_ack().agent_time()));
      return core::HeartbeatAck{time};
    }
    case Request::Item::kLogAck: {
      ASSIGN_OR_RETURN(const FenceToken token, FromProto(proto.log_ack().token()));
      return core::OutputAck{token, proto.log_ack().number()};
    }
    case Request::Item::kGoingAway: {
      ASSIGN_OR_RETURN(
          const absl::Duration extension,
          ReadDuration("going_away.lease_extension", proto.going_away().lease_extension()));
      return core::GoingAway{extension};
    }
    case Request::Item::KIND_NOT_SET:
      break;
  }
  return core::UnknownItem();
}

v1::SessionResponse::Item ToProto(const core::AgentMessage& message) {
  Response::Item item;
  std::visit(AgentWriter{item}, message);
  return item;
}

absl::StatusOr<core::AgentMessage> FromProto(const v1::SessionResponse::Item& proto) {
  switch (proto.kind_case()) {
    case Response::Item::kOpened:
      return ReadOpened(proto.opened());
    case Response::Item::kStartAnswer: {
      ASSIGN_OR_RETURN(const FenceToken token, FromProto(proto.start_answer().token()));
      return core::StartAnswer{token, FromProto(proto.start_answer().refused())};
    }
    case Response::Item::kResult: {
      ASSIGN_OR_RETURN(core::RunEnded ended, ReadEnded(proto.result()));
      return ended;
    }
    case Response::Item::kHeartbeat: {
      core::Heartbeat heartbeat;
      ASSIGN_OR_RETURN(heartbeat.agent_time,
                       ReadDuration("heartbeat.agent_time", proto.heartbeat().agent_time()));
      ASSIGN_OR_RETURN(heartbeat.running, ReadTokens(proto.heartbeat().running()));
      return heartbeat;
    }
    case Response::Item::kLoad:
      return core::LoadReport{ReadLanes(proto.load().lanes()), proto.load().draining()};
    case Response::Item::kLogs:
      return ReadLogs(proto.logs());
    case Response::Item::KIND_NOT_SET:
      break;
  }
  return core::UnknownItem();
}

v1::LogChunk ToProto(const core::OutputChunk& chunk, core::DispatchNumber dispatch) {
  v1::LogChunk proto;
  proto.set_dispatch(dispatch.value());
  proto.set_number(chunk.number);
  proto.set_stream(ToProto(kStreams, chunk.stream));
  proto.set_data(chunk.data);
  *proto.mutable_at() = ToProto(chunk.at);
  proto.set_dropped_bytes(chunk.dropped_bytes);
  return proto;
}

core::OutputChunk FromProto(const v1::LogChunk& proto) {
  return {.number = proto.number(),
          .stream = FromProto(kStreams, proto.stream()).value_or(core::OutputStream::kStdout),
          .data = proto.data(),
          .at = FromProto(proto.at()).value_or(absl::UnixEpoch()),
          .dropped_bytes = proto.dropped_bytes()};
}

}  // namespace callboard::wire
