// What spans and their attributes are called: OpenTelemetry's conventions for messaging, RPC and
// processes as of one version, and our own names where those have none. All in one place, so that a
// later version of the conventions is one change.
#ifndef CALLBOARD_LIBS_PORTS_SPAN_NAMES_H_
#define CALLBOARD_LIBS_PORTS_SPAN_NAMES_H_

namespace callboard::ports::span_names {

inline constexpr char kSchemaUrl[] = "https://opentelemetry.io/schemas/1.29.0";

// ---- Spans. Those of calls have the name of the method ----

// A try of the scheduler to submit the task of a job that is due.
inline constexpr char kFire[] = "scheduler.fire";
// The submit of a task that nobody submitted but an operator who wants it tried again.
inline constexpr char kRedrive[] = "queue.redrive";
// One stay in line, the first with the time at the door.
inline constexpr char kWait[] = "queue.wait";
// A cancel of a task, or of a submit that waited for a place.
inline constexpr char kCancel[] = "queue.cancel";
// From the moment that a task is given to an agent until that is over, one way or another.
inline constexpr char kDispatch[] = "dispatch";
inline constexpr char kRun[] = "agent.run";
// From SIGTERM until nothing of the run is left.
inline constexpr char kKillGrace[] = "agent.kill_grace";
// A server has opened its ports.
inline constexpr char kServerStart[] = "server.start";

// ---- Events ----

inline constexpr char kWaiting[] = "waiting";
inline constexpr char kPending[] = "pending";
inline constexpr char kAccepted[] = "accepted";

// ---- Attributes: conventions ----

inline constexpr char kMessagingSystem[] = "messaging.system";
inline constexpr char kMessagingSystemValue[] = "callboard";
inline constexpr char kMessageId[] = "messaging.message.id";
inline constexpr char kOperation[] = "messaging.operation.name";
inline constexpr char kOperationType[] = "messaging.operation.type";
inline constexpr char kTypeCreate[] = "create";
inline constexpr char kTypeSend[] = "send";
inline constexpr char kTypeProcess[] = "process";
// A director has one queue.
inline constexpr char kDestination[] = "messaging.destination.name";
inline constexpr char kDestinationValue[] = "queue";
inline constexpr char kRpcSystem[] = "rpc.system";
inline constexpr char kRpcSystemValue[] = "grpc";
inline constexpr char kRpcService[] = "rpc.service";
inline constexpr char kRpcMethod[] = "rpc.method";
inline constexpr char kRpcStatusCode[] = "rpc.grpc.status_code";
inline constexpr char kServerAddress[] = "server.address";
inline constexpr char kServerPort[] = "server.port";
inline constexpr char kExitCode[] = "process.exit.code";
// Of a span that failed, why, out of a set that is closed: never what an error says.
inline constexpr char kErrorType[] = "error.type";

// ---- Attributes: our own ----

inline constexpr char kTaskId[] = "callboard.task.id";
inline constexpr char kTaskState[] = "callboard.task.state";
inline constexpr char kTaskReason[] = "callboard.task.reason";
inline constexpr char kRedriveOf[] = "callboard.task.redrive_of";
inline constexpr char kJob[] = "callboard.job.name";
inline constexpr char kAgent[] = "callboard.agent.name";
inline constexpr char kDispatchNumber[] = "callboard.dispatch.number";
inline constexpr char kAttempt[] = "callboard.dispatch.attempt";
// How it was answered: accepted, busy, rejected, failed, cancelled.
inline constexpr char kOutcome[] = "callboard.dispatch.outcome";
// Where the task was: waiting, queued, dispatching, in_flight.
inline constexpr char kCancelPhase[] = "callboard.cancel.phase";
inline constexpr char kRunEnd[] = "callboard.run.end";
inline constexpr char kSignal[] = "callboard.run.signal";

}  // namespace callboard::ports::span_names

#endif  // CALLBOARD_LIBS_PORTS_SPAN_NAMES_H_
