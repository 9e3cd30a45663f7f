#include "libs/agent/run_book.h"

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
namespace {

std::string TaskIdOf(const core::FenceToken& token) {
  return core::TaskIdText(token.queue_id, token.dispatch);
}

size_t BytesOf(const RunView& view, const KeptOutput& output) {
  return sizeof(view) + view.result->result.size() + view.result->error.size() + output.bytes();
}

absl::Status NotFound(const std::string& task_id) {
  return base::WithReason(
      absl::NotFoundError(absl::StrCat("this agent has no run ", base::Echoed(task_id),
                                       ", or it ended too long ago, or before the agent's start")),
      "TASK_NOT_FOUND", {{"task_id", task_id}});
}

absl::Status TooManyReaders() {
  return base::WithReason(absl::ResourceExhaustedError(absl::StrCat(
                              "too many read output (", RunBook::kReadersMax, "); retry later")),
                          "TOO_MANY_READERS",
                          {{"readers_max", absl::StrCat(RunBook::kReadersMax)}});
}

}  // namespace

void RunBook::OnBegun(const core::FenceToken& token, absl::Time at) {
  if (runs_.contains(token)) Forget(ShelfOf(token), token);
  runs_[token].view = {.token = token, .started_at = at};
}

void RunBook::OnStarted(const core::FenceToken& token, int64_t pid, absl::Time at) {
  RunView& view = Running(token).view;
  view.pid = pid;
  view.started_at = at;
}

void RunBook::OnOutput(const core::FenceToken& token, core::OutputChunk chunk) {
  Running(token).output.Append(std::move(chunk));
  WakeReaders(token);
}

void RunBook::OnEnded(const core::FenceToken& token, core::RunResult result, absl::Time at) {
  Run& run = Running(token);
  run.view.result = std::move(result);
  run.view.pid = 0;
  run.view.finished_at = at;
  WakeReaders(token);
  Shelf& shelf = ShelfOf(token);
  shelf.runs.push_back(token);
  shelf.bytes += BytesOf(run.view, run.output);
  while (shelf.runs.size() > shelf.runs_max || shelf.bytes > shelf.bytes_max) {
    Forget(shelf, core::FenceToken(shelf.runs.front()));
  }
}

RunBook::Shelf& RunBook::ShelfOf(const core::FenceToken& token) {
  return token.director_epoch == 0 ? direct_ : dispatched_;
}

void RunBook::Forget(Shelf& shelf, const core::FenceToken& token) {
  const auto run = runs_.find(token);
  CHECK(run->second.view.result.has_value()) << TaskIdOf(token);
  shelf.bytes -= BytesOf(run->second.view, run->second.output);
  runs_.erase(run);
  shelf.runs.erase(std::find(shelf.runs.begin(), shelf.runs.end(), token));
}

RunBook::Run& RunBook::Running(const core::FenceToken& token) {
  const auto run = runs_.find(token);
  CHECK(run != runs_.end() && !run->second.view.result.has_value()) << TaskIdOf(token);
  return run->second;
}

const RunBook::Run* RunBook::FindRun(const std::string& task_id) const {
  const auto name = core::ParseTaskId(task_id);
  if (!name.has_value()) return nullptr;
  // A director that lost its memory may have given the name again: the last counts.
  const auto behind =
      runs_.upper_bound({name->first, name->second, std::numeric_limits<uint64_t>::max()});
  if (behind == runs_.begin()) return nullptr;
  const auto& [token, run] = *std::prev(behind);
  return std::pair(token.queue_id, token.dispatch) == *name ? &run : nullptr;
}

absl::StatusOr<RunView> RunBook::Find(const std::string& task_id) const {
  const Run* run = FindRun(task_id);
  if (run == nullptr) return NotFound(task_id);
  return run->view;
}

// ---- Readers ------------------------------------------------------------------------------------

void RunBook::Read(ReaderId id, OutputQuery query, OutputReader reader) {
  if (readers_.size() >= kReadersMax) return reader.end(TooManyReaders());
  const Run* run = FindRun(query.task_id);
  if (run == nullptr) return reader.end(NotFound(query.task_id));
  const OutputPlace place = run->output.PlaceOf(query.after_number);
  ShowNext(readers_.try_emplace(id, Reading{std::move(query), std::move(reader), place}).first);
}

void RunBook::GoOn(ReaderId id) {
  const auto reading = readers_.find(id);
  if (reading != readers_.end()) ShowNext(reading);
}

void RunBook::WakeReaders(const core::FenceToken& token) {
  if (readers_.empty()) return;
  const std::string task_id = TaskIdOf(token);
  for (auto reading = readers_.begin(); reading != readers_.end();) {
    // One that has nothing more to wait for is gone afterwards.
    const auto next = std::next(reading);
    if (reading->second.waits && reading->second.query.task_id == task_id) ShowNext(reading);
    reading = next;
  }
}

void RunBook::ShowNext(std::map<ReaderId, Reading>::iterator reading) {
  const OutputQuery& query = reading->second.query;
  const auto end = [&](absl::Status status) {
    const OutputReader reader = std::move(reading->second.reader);
    readers_.erase(reading);
    reader.end(std::move(status));
  };
  const Run* run = FindRun(query.task_id);
  if (run == nullptr) return end(NotFound(query.task_id));
  std::vector<core::OutputChunk> chunks = run->output.After(reading->second.place, kPieceBytesMax);
  if (!chunks.empty()) {
    reading->second.waits = false;
    reading->second.reader.show({run->view.token, std::move(chunks)});
  } else if (query.follow && !run->view.result.has_value()) {
    reading->second.waits = true;
  } else {
    end(absl::OkStatus());
  }
}

}  // namespace callboard::agent
