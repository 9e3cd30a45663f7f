#include "libs/agent/run_table.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/text.h"

namespace callboard::agent {

void JournalState::Apply(const JournalRecord& record) {
  struct Step {
    void operator()(const RunAccepted& run) const { journaled.accepted.insert(run.token); }
    void operator()(const ResultStored& kept) const {
      journaled.accepted.erase(kept.token);
      journaled.results[kept.token] = kept.result;
    }
    void operator()(const RunForgotten& run) const {
      journaled.accepted.erase(run.token);
      journaled.results.erase(run.token);
    }
    JournalState& journaled;
  };
  std::visit(Step{*this}, record);
}

std::vector<JournalRecord> JournalState::Records() const {
  std::vector<JournalRecord> records;
  for (const core::FenceToken& token : accepted) records.emplace_back(RunAccepted{token});
  for (const auto& [token, result] : results) records.emplace_back(ResultStored{token, result});
  return records;
}

using core::OutputChunk;

OutputPosition KeptOutput::EndOf(const KeptChunk& kept) {
  const OutputChunk& chunk = kept.chunk;
  return {chunk.number, kept.bytes_before + chunk.dropped_bytes + chunk.data.size()};
}

template <class Chunks>
auto KeptOutput::FirstAfter(const Chunks& chunks, uint64_t number) {
  return std::partition_point(chunks.begin(), chunks.end(), [number](const KeptChunk& kept) {
    return kept.chunk.number <= number;
  });
}

void KeptOutput::Append(OutputChunk chunk) {
  KeptChunk kept = {std::move(chunk), run_bytes_};
  run_bytes_ = EndOf(kept).bytes;
  const size_t bytes = BytesOf(kept);
  if (tail_.empty() && head_bytes_ + bytes <= kHeadBytesMax) {
    head_bytes_ += bytes;
    head_.push_back(std::move(kept));
    return;
  }
  tail_bytes_ += bytes;
  tail_.push_back(std::move(kept));
  while (tail_bytes_ > kBytesMax - kHeadBytesMax) {
    tail_bytes_ -= BytesOf(tail_.front());
    tail_.pop_front();
  }
}

OutputPosition KeptOutput::PositionOf(uint64_t number) const {
  OutputPosition position = {.number = number};
  if (const auto next = FirstAfter(tail_, number); next != tail_.begin()) {
    position.bytes = EndOf(*std::prev(next)).bytes;
  } else if (const auto first = FirstAfter(head_, number); first != head_.begin()) {
    position.bytes = EndOf(*std::prev(first)).bytes;
  }
  return position;
}

std::vector<OutputChunk> KeptOutput::ReadAfter(OutputPosition& position, size_t bytes_max) const {
  std::vector<OutputChunk> chunks;
  size_t bytes = 0;
  const auto take = [&](const auto& all) {
    for (auto kept = FirstAfter(all, position.number); kept != all.end(); ++kept) {
      bytes += BytesOf(*kept);
      if (!chunks.empty() && bytes > bytes_max) return;
      chunks.push_back(kept->chunk);
      // The position may belong to an earlier run with the same task id.
      chunks.back().dropped_bytes += std::max(kept->bytes_before, position.bytes) - position.bytes;
      position = EndOf(*kept);
    }
  };
  take(head_);
  if (bytes <= bytes_max) take(tail_);
  return chunks;
}

namespace {

std::string TaskIdOf(const core::FenceToken& token) {
  return core::TaskIdText(token.queue_id, token.dispatch);
}

size_t BytesOf(const RunView& view, const KeptOutput& output) {
  return sizeof(view) + view.result->result.size() + view.result->error.size() + output.bytes();
}

absl::Status NotFound(const std::string& task_id) {
  return base::WithReason(
      absl::NotFoundError(
          absl::StrCat("this agent has no run ", base::EscapeForError(task_id),
                       ": it is unknown, or it ended too long ago or before the agent started")),
      "TASK_NOT_FOUND", {{"task_id", task_id}});
}

absl::Status TooManyReaders() {
  return base::WithReason(
      absl::ResourceExhaustedError(
          absl::StrCat("too many readers of output (", RunTable::kReadersMax, "); retry later")),
      "TOO_MANY_READERS", {{"readers_max", absl::StrCat(RunTable::kReadersMax)}});
}

}  // namespace

void RunTable::OnAccepted(const core::FenceToken& token, absl::Time at) {
  if (runs_.contains(token)) Remove(EndedRunsFor(token), token);
  runs_[token].view = {.token = token, .started_at = at};
}

void RunTable::OnStarted(const core::FenceToken& token, int64_t pid, absl::Time at) {
  RunView& view = GetRunning(token).view;
  view.pid = pid;
  view.started_at = at;
}

void RunTable::OnOutput(const core::FenceToken& token, core::OutputChunk chunk) {
  GetRunning(token).output.Append(std::move(chunk));
  WakeReaders(token);
}

void RunTable::OnEnded(const core::FenceToken& token, core::RunResult result, absl::Time at) {
  Run& run = GetRunning(token);
  run.view.result = std::move(result);
  run.view.pid = 0;
  run.view.finished_at = at;
  WakeReaders(token);
  EndedRuns& ended = EndedRunsFor(token);
  ended.runs.push_back(token);
  ended.bytes += BytesOf(run.view, run.output);
  while (ended.runs.size() > ended.runs_max || ended.bytes > ended.bytes_max) {
    Remove(ended, core::FenceToken(ended.runs.front()));
  }
}

RunTable::EndedRuns& RunTable::EndedRunsFor(const core::FenceToken& token) {
  return token.director_epoch == 0 ? direct_ : dispatched_;
}

void RunTable::Remove(EndedRuns& ended, const core::FenceToken& token) {
  const auto run = runs_.find(token);
  CHECK(run->second.view.result.has_value()) << TaskIdOf(token);
  ended.bytes -= BytesOf(run->second.view, run->second.output);
  runs_.erase(run);
  ended.runs.erase(std::find(ended.runs.begin(), ended.runs.end(), token));
}

RunTable::Run& RunTable::GetRunning(const core::FenceToken& token) {
  const auto run = runs_.find(token);
  CHECK(run != runs_.end() && !run->second.view.result.has_value()) << TaskIdOf(token);
  return run->second;
}

const RunTable::Run* RunTable::FindRun(const std::string& task_id) const {
  const auto name = core::ParseTaskId(task_id);
  if (!name.has_value()) return nullptr;
  // A director that lost its store may have used the same task id again: the latest run counts.
  const auto after =
      runs_.upper_bound({name->first, name->second, std::numeric_limits<uint64_t>::max()});
  if (after == runs_.begin()) return nullptr;
  const auto& [token, run] = *std::prev(after);
  return std::pair(token.queue_id, token.dispatch) == *name ? &run : nullptr;
}

absl::StatusOr<RunView> RunTable::Find(const std::string& task_id) const {
  const Run* run = FindRun(task_id);
  if (run == nullptr) return NotFound(task_id);
  return run->view;
}

// ---- Readers ------------------------------------------------------------------------------------

void RunTable::StartReading(ReaderId id, OutputQuery query, OutputCallbacks callbacks) {
  if (readers_.size() >= kReadersMax) return callbacks.on_end(TooManyReaders());
  const Run* run = FindRun(query.task_id);
  if (run == nullptr) return callbacks.on_end(NotFound(query.task_id));
  const OutputPosition position = run->output.PositionOf(query.after_number);
  SendNext(readers_.try_emplace(id, ReaderState{std::move(query), std::move(callbacks), position})
               .first);
}

void RunTable::ReadNext(ReaderId id) {
  const auto state = readers_.find(id);
  if (state != readers_.end()) SendNext(state);
}

void RunTable::WakeReaders(const core::FenceToken& token) {
  if (readers_.empty()) return;
  const std::string task_id = TaskIdOf(token);
  for (auto state = readers_.begin(); state != readers_.end();) {
    // SendNext() may remove the reader.
    const auto next = std::next(state);
    if (state->second.waiting && state->second.query.task_id == task_id) SendNext(state);
    state = next;
  }
}

void RunTable::SendNext(std::map<ReaderId, ReaderState>::iterator state) {
  const OutputQuery& query = state->second.query;
  const auto end = [&](absl::Status status) {
    const OutputCallbacks callbacks = std::move(state->second.callbacks);
    readers_.erase(state);
    callbacks.on_end(std::move(status));
  };
  const Run* run = FindRun(query.task_id);
  if (run == nullptr) return end(NotFound(query.task_id));
  std::vector<core::OutputChunk> chunks =
      run->output.ReadAfter(state->second.position, kPieceBytesMax);
  if (!chunks.empty()) {
    state->second.waiting = false;
    state->second.callbacks.on_output({run->view.token, std::move(chunks)});
  } else if (query.follow && !run->view.result.has_value()) {
    state->second.waiting = true;
  } else {
    end(absl::OkStatus());
  }
}

}  // namespace callboard::agent
