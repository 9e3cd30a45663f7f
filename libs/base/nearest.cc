#include "libs/base/nearest.h"

#include <algorithm>
#include <utility>

namespace callboard::base {
namespace {

// Number of single-character edits from `a` to `b`.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string Nearest(absl::string_view name, const std::vector<std::string>& candidates) {
  // Further off than this, a suggestion is a guess.
  size_t nearest_distance = name.size() / 3 + 2;
  std::string nearest;
  for (const std::string& candidate : candidates) {
    // No distance is less than the difference in length. Looking at that first keeps the work small
    // for names without end, which may come from anybody.
    const auto [shorter, longer] = std::minmax({name.size(), candidate.size()});
    if (longer - shorter >= nearest_distance) continue;
    const size_t distance = EditDistance(name, candidate);
    if (distance < nearest_distance) {
      nearest_distance = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace callboard::base
