#include "libs/agent/journal.h"

namespace callboard::agent {

void Journaled::Apply(const JournalRecord& record) {
  struct Step {
    void operator()(const RunAccepted& run) const { journaled.accepted.insert(run.token); }
    void operator()(const ResultKept& kept) const {
      journaled.accepted.erase(kept.token);
      journaled.results[kept.token] = kept.result;
    }
    void operator()(const RunForgotten& run) const {
      journaled.accepted.erase(run.token);
      journaled.results.erase(run.token);
    }
    Journaled& journaled;
  };
  std::visit(Step{*this}, record);
}

std::vector<JournalRecord> Journaled::Records() const {
  std::vector<JournalRecord> records;
  for (const core::FenceToken& token : accepted) records.emplace_back(RunAccepted{token});
  for (const auto& [token, result] : results) records.emplace_back(ResultKept{token, result});
  return records;
}

}  // namespace callboard::agent
