#ifndef CALLBOARD_LIBS_DIRECTOR_FLEET_H_
#define CALLBOARD_LIBS_DIRECTOR_FLEET_H_

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

struct Agent {
  std::string name;
  std::string instance_id = {};
  std::string url = {};
  std::map<std::string, std::string> labels = {};
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
  // Times in a row that it could not be reached, and until when it is left alone for that.
  uint32_t unreachable = 0;
  absl::Duration suspect_until = -absl::InfiniteDuration();
  // The tasks that failed for its sake since the last one that did not.
  std::set<core::QueueId> failed_tasks = {};
  // The dispatches it may be running, in the director's eyes.
  absl::btree_set<core::QueueId> holds = {};

  bool is_connected() const { return session != core::SessionId(); }
  // Whether time alone makes it forgotten.
  bool is_forgettable() const { return !is_connected() && holds.empty() && !draining && !cordoned; }
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

  // Forgets agents that were last heard of so long ago, hold nothing and are not set aside: that
  // they are is remembered.
  void ForgetSilent(absl::Duration before);

 private:
  // Whether it has the lane and the labels.
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
