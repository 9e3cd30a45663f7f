#include "libs/director/matcher.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "libs/base/check.h"
#include "libs/core/task_state.h"

namespace callboard::director {

Demand MakeDemand(const Entry& entry, const TaskTable& tasks) {
  const core::TaskState& task = entry.task;
  Demand demand = {.lane = task.terms->lane,
                   .labels = task.terms->required_labels,
                   .features = core::RequiredFeatures(*task.terms)};
  if (!task.session_id.empty()) demand.session_agent = tasks.OwnerOfSession(task.session_id);
  return demand;
}

void Matcher::Add(Entry& entry, Demand demand) {
  const auto [found, is_new] = groups_.try_emplace(std::move(demand));
  Group& group = found->second;
  if (is_new) {
    group.demand = found->first;
    Link(group);
  }
  std::optional<uint64_t> head;
  if (!group.tasks.empty()) head = group.tasks.begin()->first;
  CHECK(entry.group == nullptr);
  const auto place = group.tasks.emplace_hint(group.tasks.end(), entry.task.sequence, &entry);
  CHECK(place->second == &entry);
  entry.group = &group;
  ready_.Insert(entry.task.sequence);
  if (group.tasks.begin()->second == &entry) MoveHead(group, head);
}

void Matcher::Remove(Entry& entry) {
  if (entry.group == nullptr) return;
  Group& group = *std::exchange(entry.group, nullptr);
  const uint64_t sequence = entry.task.sequence;
  const uint64_t head = group.tasks.begin()->first;
  CHECK_EQ(group.tasks.erase(sequence), 1u);
  ready_.Erase(sequence);
  if (sequence == head) MoveHead(group, head);
  if (group.tasks.empty()) {
    changed_.erase(std::remove(changed_.begin(), changed_.end(), &group), changed_.end());
    const Demand demand = group.demand;
    groups_.erase(demand);
  }
}

void Matcher::MoveHead(Group& group, std::optional<uint64_t> old_head) {
  for (Agent* agent : group.served_by) {
    AgentLane& lane = agent->lanes.at(group.demand.lane);
    if (old_head.has_value()) CHECK_EQ(lane.heads.erase(*old_head), 1u);
    if (!group.tasks.empty()) lane.heads.emplace(group.tasks.begin()->first, &group);
  }
  if (changed_.empty() || changed_.back() != &group) changed_.push_back(&group);
}

void Matcher::Link(Group& group) {
  group.served_by.clear();
  for (auto& [name, agent] : fleet_.agents()) {
    if (fleet_.Serves(agent, group.demand)) group.served_by.push_back(&agent);
  }
}

bool Matcher::IsServed(const Group& group) {
  return std::any_of(group.served_by.begin(), group.served_by.end(),
                     [](const Agent* agent) { return agent->keeps_sessions(); });
}

uint64_t Matcher::served() const {
  uint64_t served = ready_.size();
  for (const auto& [demand, group] : groups_) {
    if (!IsServed(group)) served -= group.tasks.size();
  }
  return served;
}

uint64_t Matcher::ServedBefore(uint64_t sequence) const {
  uint64_t served = ready_.CountBelow(sequence);
  for (const auto& [demand, group] : groups_) {
    if (IsServed(group)) continue;
    served -= static_cast<uint64_t>(
        std::distance(group.tasks.begin(), group.tasks.lower_bound(sequence)));
  }
  return served;
}

void Matcher::Relink() {
  for (auto& [name, agent] : fleet_.agents()) {
    for (auto& [lane_name, lane] : agent.lanes) lane.heads.clear();
  }
  for (auto& [demand, group] : groups_) {
    Link(group);
    MoveHead(group, std::nullopt);
  }
}

std::optional<Matcher::Match> Matcher::Next(Moment now) const {
  if (ready_.size() == 0) return std::nullopt;
  uint64_t first = 0;
  Group* group = nullptr;
  for (const auto& [name, agent] : fleet_.agents()) {
    for (const auto& [lane_name, lane] : agent.lanes) {
      if (lane.heads.empty() || !lane.has_free_slot()) continue;
      const auto& [sequence, candidate] = *lane.heads.begin();
      if (group != nullptr && sequence >= first) continue;
      // Checked last, because by now few agents are left to check.
      if (!fleet_.TakesTasks(agent, now)) break;
      first = sequence;
      group = candidate;
    }
  }
  if (group == nullptr) return std::nullopt;
  Entry* entry = group->tasks.begin()->second;
  Agent* chosen = nullptr;
  for (Agent* agent : group->served_by) {
    if (!agent->lanes.at(group->demand.lane).has_free_slot()) continue;
    if (!fleet_.TakesTasks(*agent, now)) continue;
    const bool failed_there = entry->task.history->failed_on.contains(agent->name);
    if (chosen == nullptr || !failed_there) chosen = agent;
    if (!failed_there) break;
  }
  CHECK(chosen != nullptr);
  return Match{entry, chosen};
}

std::vector<Group*> Matcher::TakeChangedGroups() { return std::exchange(changed_, {}); }

}  // namespace callboard::director
