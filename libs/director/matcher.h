#ifndef CALLBOARD_LIBS_DIRECTOR_MATCHER_H_
#define CALLBOARD_LIBS_DIRECTOR_MATCHER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "libs/core/ranked_set.h"
#include "libs/director/book.h"
#include "libs/director/fleet.h"
#include "libs/director/moment.h"

namespace callboard::director {

// The ready tasks that any agent serves alike.
struct Group {
  Demand demand;
  // In line order; never empty.
  absl::btree_map<uint64_t, Entry*> tasks = {};
  // In the order of their names.
  std::vector<Agent*> served_by = {};
  // Why its first task could not start when that was last looked at.
  std::string denied = {};
};

// Brings ready tasks and free slots together: of all the tasks that some free slot serves, the one
// with the lowest sequence number, to the first agent by name. What no slot serves is passed over
// at no cost, because each lane of each agent knows the first task of each group it serves.
//
// Not thread-safe.
class Matcher {
 public:
  explicit Matcher(Fleet& fleet) : fleet_(fleet) {}
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  // REQUIRES: not in.
  void Add(Entry& entry, Demand demand);
  // Does nothing when it is not in. REQUIRES: its sequence number is the one it had in Add().
  void Remove(Entry& entry);

  // An agent came, went or changed what it serves.
  void Relink();

  struct Match {
    Entry* entry;
    Agent* agent;
  };
  // Prefers an agent that the task has not failed on.
  std::optional<Match> Next(Moment now) const;

  uint64_t ready() const { return ready_.size(); }
  // Ready tasks that some agent takes once it has a free slot.
  uint64_t served() const;
  // Of these, the ones ahead. Costs as much as there are ready tasks ahead that nobody serves.
  uint64_t ServedBefore(uint64_t sequence) const;
  static bool IsServed(const Entry& entry) {
    return entry.group != nullptr && IsServed(*entry.group);
  }
  static bool IsReady(const Entry& entry) { return entry.group != nullptr; }

  // Groups whose first task, or whose agents, changed since the last call, in no order that depends
  // on anything but what happened.
  std::vector<Group*> TakeChanged();

 private:
  // Whether an agent serves it that is neither draining nor set aside.
  static bool IsServed(const Group& group);
  void Link(Group& group);
  // Tells the lanes that serve the group that its first task was `was`.
  void MoveHead(Group& group, std::optional<uint64_t> was);

  Fleet& fleet_;
  std::map<Demand, Group> groups_;
  core::RankedSet ready_;
  std::vector<Group*> changed_;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_MATCHER_H_
