#ifndef CALLBOARD_LIBS_DIRECTOR_MATCHER_H_
#define CALLBOARD_LIBS_DIRECTOR_MATCHER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "libs/core/ranked_set.h"
#include "libs/director/fleet.h"
#include "libs/director/task_table.h"

namespace callboard::director {

// Ready tasks with equal demands, which therefore the same agents serve.
struct Group {
  Demand demand;
  // In queue order; never empty.
  absl::btree_map<uint64_t, Entry*> tasks = {};
  // Agents that serve the group, by name.
  std::vector<Agent*> served_by = {};
  // Reason why the first task could not start, as of the last check.
  std::string denied = {};
};

// Returns the demand of a task; `tasks` has the task.
Demand MakeDemand(const Entry& entry, const TaskTable& tasks);

// Matches ready tasks with free slots: of all tasks that some free slot serves, the one with the
// lowest sequence number goes to the first agent by name. Tasks that no slot serves cost nothing,
// because each lane of each agent indexes the first task of each group that it serves.
//
// Not thread-safe.
class Matcher {
 public:
  explicit Matcher(Fleet& fleet) : fleet_(fleet) {}
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  // REQUIRES: `entry` was not added.
  void Add(Entry& entry, Demand demand);
  // Does nothing when `entry` was not added. REQUIRES: its sequence number has not changed since
  // Add().
  void Remove(Entry& entry);

  // Recomputes which agents serve which group. Call it when an agent comes, goes or changes what it
  // serves.
  void Relink();

  struct Match {
    Entry* entry;
    Agent* agent;
  };
  // Returns the next match. Prefers an agent that the task has not failed on.
  std::optional<Match> Next(Moment now) const;

  uint64_t ready() const { return ready_.size(); }
  // Number of ready tasks that some agent takes once it has a free slot.
  uint64_t served() const;
  // The number of these with a smaller sequence number. Costs O(ready tasks ahead that no agent
  // serves).
  uint64_t ServedBefore(uint64_t sequence) const;
  static bool IsServed(const Entry& entry) {
    return entry.group != nullptr && IsServed(*entry.group);
  }
  static bool IsReady(const Entry& entry) { return entry.group != nullptr; }

  // Returns the groups whose first task or whose agents changed since the last call. The order is
  // deterministic.
  std::vector<Group*> TakeChangedGroups();

 private:
  // Returns whether an agent serves the group that is neither draining nor cordoned.
  static bool IsServed(const Group& group);
  void Link(Group& group);
  // Updates the lanes that serve the group after its first task changed from `old_head`.
  void MoveHead(Group& group, std::optional<uint64_t> old_head);

  Fleet& fleet_;
  std::map<Demand, Group> groups_;
  core::RankedSet ready_;
  std::vector<Group*> changed_;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_MATCHER_H_
