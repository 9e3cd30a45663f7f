// What an agent remembers over its own restarts, as values.
#ifndef CALLBOARD_LIBS_AGENT_JOURNAL_H_
#define CALLBOARD_LIBS_AGENT_JOURNAL_H_

#include <map>
#include <set>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "libs/core/ids.h"
#include "libs/core/record.h"

namespace callboard::agent {

struct RunAccepted {
  core::FenceToken token;
};
// Kept until it is acknowledged.
struct ResultKept {
  core::FenceToken token;
  core::RunResult result;
};
struct RunForgotten {
  core::FenceToken token;
};
using JournalRecord = std::variant<RunAccepted, ResultKept, RunForgotten>;

// What a journal adds up to.
struct Journaled {
  // Accepted, and without a result.
  std::set<core::FenceToken> accepted = {};
  std::map<core::FenceToken, core::RunResult> results = {};

  void Apply(const JournalRecord& record);
  // The fewest records that add up to the same.
  std::vector<JournalRecord> Records() const;
};

// Where the records go. Called by one thread.
class Journal {
 public:
  virtual ~Journal() = default;

  // Writes the records, in their order. They survive the end of this process, not necessarily of
  // the machine: then nothing of what they tell runs, and the next life says so. An error when they
  // may not be there.
  virtual absl::Status Write(absl::Span<const JournalRecord> records) = 0;
};

}  // namespace callboard::agent

#endif  // CALLBOARD_LIBS_AGENT_JOURNAL_H_
