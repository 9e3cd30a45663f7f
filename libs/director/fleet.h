#ifndef CALLBOARD_LIBS_DIRECTOR_FLEET_H_
#define CALLBOARD_LIBS_DIRECTOR_FLEET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/core/dispatch_rules.h"
#include "libs/core/ids.h"
#include "libs/core/queue.h"
#include "libs/core/session.h"
#include "libs/core/task.h"
#include "libs/ports/environment.h"

namespace callboard::director {

using ports::Moment;

// Requirements of a task on its agent. Tasks with equal demands are served by the same agents.
struct Demand {
  std::string lane = {};
  std::map<std::string, std::string> labels = {};
  // Session features that the agent has to announce.
  std::set<std::string> features = {};
  // The agent that owns the task's session; empty when the task has none.
  std::string session_agent = {};

  friend auto operator<=>(const Demand&, const Demand&) = default;
};

struct Group;

// A group of slots of an agent: the number of tasks that it runs at a time in this lane.
struct AgentLane {
  uint32_t slots = 0;
  // Slots in use according to the agent, and according to the director. Either number may be ahead
  // of the other.
  uint32_t reported = 0;
  uint32_t held = 0;
  // The agent answered busy, so the lane counts as full. DirectorEngine::HandleBusy() has the rule.
  bool answered_busy = false;
  // Busy answers without an accepted start in between.
  uint32_t busy_in_a_row = 0;
  bool heartbeat_since_busy = false;
  // The ready groups that the lane serves, by the sequence number of their first task.
  absl::btree_map<uint64_t, Group*> heads = {};

  bool has_free_slot() const { return !answered_busy && slots > std::max(reported, held); }
};

// A period in which an agent gets no tasks: 5 s · 2^(failures - 1), at most 2 min.
struct Suspicion {
  // Failures in a row.
  uint32_t failures = 0;
  absl::Duration until = -absl::InfiniteDuration();

  void AddFailure(absl::Duration now) { until = now + core::UnreachableBackoff(++failures); }
};

struct Agent {
  std::string name;
  std::string instance_id = {};
  std::string url = {};
  std::map<std::string, std::string> labels = {};
  std::set<std::string> features = {};
  std::map<std::string, AgentLane> lanes = {};
  // 0 without a Session.
  core::AgentSessionId session = {};
  // Whether it has opened a Session since the director started.
  bool has_opened = false;
  // The latest agent time that was received, and when the agent was last seen.
  absl::Duration agent_time = {};
  absl::Duration last_seen_at = -absl::InfiniteDuration();
  // It takes no more tasks: `draining` by request of an operator, `leaving` by its own report.
  bool draining = false;
  bool leaving = false;
  // Excluded from dispatch because it is broken.
  bool cordoned = false;
  // For people: the reason for the drain or the cordon.
  std::string mark_why = {};
  // Counts Sessions that closed and starts that could not be written. A new Session ends the
  // suspicion; a heartbeat resets the number of failures.
  Suspicion unreachable = {};
  // Counts starts whose lease ended without an answer. Neither a new Session nor a heartbeat ends
  // this suspicion: an agent that reopens its Session and never answers would get task after task.
  Suspicion unanswered = {};
  // For people: why its last Session ended or could not be opened; empty while it has one.
  std::string unreachable_why = {};
  // Sessions of this instance that ended because a message was too large.
  uint32_t oversized_sessions = 0;
  // Tasks that failed because of the agent since its last success.
  std::set<core::QueueId> failed_tasks = {};
  // Tasks whose current dispatch it may be running, as far as the director knows.
  absl::btree_set<core::QueueId> holds = {};

  bool is_connected() const { return session != core::AgentSessionId(); }
  absl::Duration suspect_until() const { return std::max(unreachable.until, unanswered.until); }
  // Whether the agent is forgotten after some time without contact.
  bool is_forgettable() const { return !is_connected() && holds.empty() && !draining && !cordoned; }
  // Whether the agent has announced itself, and nothing else is known of it.
  bool is_unreached() const { return instance_id.empty() && is_forgettable(); }
  // How long the agent is kept after it was last seen.
  absl::Duration retention() const { return is_unreached() ? absl::Minutes(1) : absl::Hours(1); }
  // Whether tasks of its sessions wait for it.
  bool keeps_sessions() const { return is_connected() && !draining && !leaving && !cordoned; }
};

// All known agents by name, and the rules that decide which agent may take which task.
//
// Not thread-safe. Pointers stay valid until their agent is forgotten.
class Fleet {
 public:
  explicit Fleet(const core::LeaseOptions& lease) : lease_(lease) {}
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  const std::map<std::string, Agent>& agents() const { return agents_; }
  std::map<std::string, Agent>& agents() { return agents_; }

  // Returns the agent of that name; adds it if there is none.
  Agent& Get(const std::string& name);
  // Returns null when there is none.
  Agent* Find(const std::string& name);
  // Returns null for a Session that has ended or was replaced.
  Agent* FindBySession(core::AgentSessionId session);

  void OpenSession(Agent& agent, core::AgentSessionId session, Moment now);
  void EndSession(Agent& agent);

  // Records that the agent has a dispatch of the task in a slot of the lane; Release() ends that.
  void Hold(const std::string& agent, core::QueueId task, const std::string& lane);
  void Release(const std::string& agent, core::QueueId task, const std::string& lane);

  // Returns whether the agent serves tasks with this demand, with or without a free slot.
  bool Serves(const Agent& agent, const Demand& demand) const;
  // Returns whether the agent may get tasks at `now`.
  bool TakesTasks(const Agent& agent, Moment now) const;
  // Returns, for people, why the agent cannot take a task with this demand now; empty when it can.
  std::string WhyNot(const Agent& agent, const Demand& demand, Moment now) const;

  // Returns, for people, why none of `agents`, which all serve the task, takes it now.
  std::string WhyNoAgent(const std::vector<Agent*>& agents, Moment now) const;

  // Slots of all connected agents.
  uint32_t TotalSlots() const;

  // Forgets agents that were last seen too long ago and hold no task. Drained and cordoned agents
  // are kept.
  void ForgetSilent(Moment now);

 private:
  // Returns whether the agent has the lane, the labels and the features.
  bool MeetsDemand(const Agent& agent, const Demand& demand) const;
  // Returns why the agent cannot take any task now; empty when it can. An agent that was silent for
  // too long is excluded: it would reject a start, because the lease of the start counts from an
  // old agent time.
  absl::string_view WhyUnavailable(const Agent& agent, Moment now) const;

  const core::LeaseOptions lease_;
  std::map<std::string, Agent> agents_;
  absl::flat_hash_map<core::AgentSessionId, Agent*> by_session_;
};

enum class AgentState { kIdle, kBusy, kDraining, kCordoned, kSuspect, kUnreachable };

// A snapshot of an agent, as users see it.
struct AgentView {
  std::string name = {};
  // grpc://host:port; empty until the agent announces itself or opens a Session.
  std::string url = {};
  std::string instance_id = {};
  AgentState state = AgentState::kIdle;
  // For people: the reason why the agent gets no tasks; empty when it does.
  std::string why = {};
  std::map<std::string, std::string> labels = {};
  core::LaneLoads lanes = {};
  // Absent when the agent was not seen since the director started.
  std::optional<absl::Time> last_seen_at = {};
  std::optional<absl::Time> suspect_until = {};
  std::vector<core::QueueId> running = {};
};

// Returns the view of `agent` at `now`. A drain, a cordon and a suspicion take precedence over a
// lost connection, because they outlive it.
AgentView ViewOf(const Agent& agent, const core::LeaseOptions& lease, Moment now);

// Lists agents by name, starting after `after`.
struct AgentQuery {
  std::string after = {};
  size_t page_size = 50;
};
struct AgentPage {
  std::vector<AgentView> agents = {};
  bool has_more = false;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_FLEET_H_
