#ifndef CALLBOARD_LIBS_DIRECTOR_FLEET_H_
#define CALLBOARD_LIBS_DIRECTOR_FLEET_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/core/backoff.h"
#include "libs/core/ids.h"
#include "libs/core/queue.h"
#include "libs/core/session.h"
#include "libs/core/task.h"
#include "libs/director/moment.h"

namespace callboard::director {

// What a task wants of an agent. Tasks with equal demands are served alike.
struct Demand {
  std::string lane = {};
  std::map<std::string, std::string> labels = {};
  // Features of the Session that the agent has to announce.
  std::set<std::string> features = {};
  // The agent that has the task's session; empty when it has none.
  std::string session_agent = {};

  friend auto operator<=>(const Demand&, const Demand&) = default;
};

struct Group;

// A number of tasks that an agent runs at a time.
struct Lane {
  uint32_t slots = 0;
  // Taken, as the agent says and as we know. Either may be ahead of the other.
  uint32_t reported = 0;
  uint32_t held = 0;
  // It answered 409: taken to be full until it reports again.
  bool refused = false;
  // 409s in a row. From the third on only a report that comes with a heartbeat ends `refused`: an
  // agent that says busy and reports a free slot in one breath must not be asked in a loop.
  uint32_t refusals = 0;
  bool heartbeat_since_refusal = false;
  // The ready groups that it serves, by the sequence number of their first task.
  absl::btree_map<uint64_t, Group*> heads = {};

  bool has_free_slot() const { return !refused && slots > std::max(reported, held); }
};

// A time in which an agent gets no tasks: 5 s · 2^(failures - 1), at most 2 min.
struct Suspicion {
  // In a row.
  uint32_t failures = 0;
  absl::Duration until = -absl::InfiniteDuration();

  void AddFailure(absl::Duration now) { until = now + core::SuspicionAfter(++failures); }
};

struct Agent {
  std::string name;
  std::string instance_id = {};
  std::string url = {};
  std::map<std::string, std::string> labels = {};
  std::set<std::string> features = {};
  std::map<std::string, Lane> lanes = {};
  // 0 while it has none.
  core::SessionId session = {};
  // Whether it had one since the director began.
  bool has_opened = false;
  // Its newest own time, and when that was heard.
  absl::Duration agent_time = {};
  absl::Duration heard_at = -absl::InfiniteDuration();
  // Takes no more tasks: because somebody asked for it, or because it said so.
  bool draining = false;
  bool leaving = false;
  // Set aside as broken.
  bool cordoned = false;
  // Why it is drained or cordoned, for people.
  std::string mark_why = {};
  // Sessions that broke and starts that could not be written. A new Session ends the suspicion, a
  // heartbeat its doubling.
  Suspicion unreachable = {};
  // Starts whose lease ended without an answer. Neither a Session nor a heartbeat ends it: an agent
  // that reopens its Session and answers nothing would get task after task.
  Suspicion unanswered = {};
  // Why its last Session ended or could not be opened, for people; empty while it has one.
  std::string unreachable_why = {};
  // Sessions of this life that ended because a message was too large.
  uint32_t oversized_sessions = 0;
  // The tasks that failed for its sake since the last one that did not.
  std::set<core::QueueId> failed_tasks = {};
  // The dispatches it may be running, in the director's eyes.
  absl::btree_set<core::QueueId> holds = {};

  bool is_connected() const { return session != core::SessionId(); }
  absl::Duration suspect_until() const { return std::max(unreachable.until, unanswered.until); }
  // Whether time alone makes it forgotten.
  bool is_forgettable() const { return !is_connected() && holds.empty() && !draining && !cordoned; }
  // Whether all that is known of it is that it announced itself.
  bool is_unreached() const { return instance_id.empty() && is_forgettable(); }
  // How long it is known after it was last heard of.
  absl::Duration memory() const { return is_unreached() ? absl::Minutes(1) : absl::Hours(1); }
  // Whether the tasks of its sessions wait for it.
  bool keeps_sessions() const { return is_connected() && !draining && !leaving && !cordoned; }
};

// The agents, in the order of their names, and who may take what.
//
// Not thread-safe. Pointers stay valid until their agent is forgotten.
class Fleet {
 public:
  explicit Fleet(const core::LeaseOptions& lease) : lease_(lease) {}
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  const std::map<std::string, Agent>& agents() const { return agents_; }
  std::map<std::string, Agent>& agents() { return agents_; }

  // The agent of that name, made when there is none.
  Agent& Get(const std::string& name);
  // Null when there is none.
  Agent* Find(const std::string& name);
  // Null for a Session that has ended or was replaced.
  Agent* FindBySession(core::SessionId session);

  void OpenSession(Agent& agent, core::SessionId session, Moment now);
  void EndSession(Agent& agent);

  // The agent has, or no longer has, a dispatch of the task on a slot of the lane.
  void Hold(const std::string& agent, core::QueueId task, const std::string& lane);
  void Release(const std::string& agent, core::QueueId task, const std::string& lane);

  // Whether the agent is one for such tasks, busy or not.
  bool Serves(const Agent& agent, const Demand& demand) const;
  // Whether it is to be given anything now.
  bool TakesTasks(const Agent& agent, Moment now) const;
  // Why it takes no such task now, for people; empty when it does.
  std::string WhyNot(const Agent& agent, const Demand& demand, Moment now) const;

  // Why none of these, which serve it, takes a task now.
  std::string WhyNobody(const std::vector<Agent*>& agents, Moment now) const;

  // Slots of all agents that are connected.
  uint32_t SlotsInAll() const;

  // Forgets agents that were last heard of too long ago, hold nothing and are not set aside: that
  // they are is remembered.
  void ForgetSilent(Moment now);

 private:
  // Whether it has the lane, the labels and the features.
  bool IsAble(const Agent& agent, const Demand& demand) const;
  // Why it takes nothing at all now; empty when it does. One that is silent would have to refuse a
  // start, because of the time it carries.
  absl::string_view WhyIdle(const Agent& agent, Moment now) const;

  const core::LeaseOptions lease_;
  std::map<std::string, Agent> agents_;
  absl::flat_hash_map<core::SessionId, Agent*> by_session_;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_FLEET_H_
