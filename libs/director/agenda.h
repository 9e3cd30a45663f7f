#ifndef CALLBOARD_LIBS_DIRECTOR_AGENDA_H_
#define CALLBOARD_LIBS_DIRECTOR_AGENDA_H_

#include <optional>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "libs/core/ids.h"

namespace callboard::director {

// Which task is to be looked at when; each at most once. `When` is a point on one of the clocks.
template <class When>
class Agenda {
 public:
  // In place of what was set before; nothing means never.
  void Set(core::QueueId task, std::optional<When> when) {
    const auto found = when_.find(task);
    if (found != when_.end()) {
      if (when == found->second) return;
      order_.erase({found->second, task});
      if (!when.has_value()) {
        when_.erase(found);
        return;
      }
      found->second = *when;
    } else if (when.has_value()) {
      when_.emplace(task, *when);
    }
    if (when.has_value()) order_.emplace(*when, task);
  }

  // The earliest; nothing when there is none.
  std::optional<When> Next() const {
    if (order_.empty()) return std::nullopt;
    return order_.begin()->first;
  }

  // Takes the earliest task that is due at `now` off the agenda.
  std::optional<core::QueueId> TakeDue(When now) {
    if (order_.empty() || now < order_.begin()->first) return std::nullopt;
    const core::QueueId task = order_.begin()->second;
    order_.erase(order_.begin());
    when_.erase(task);
    return task;
  }

 private:
  absl::btree_set<std::pair<When, core::QueueId>> order_;
  absl::flat_hash_map<core::QueueId, When> when_;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_AGENDA_H_
