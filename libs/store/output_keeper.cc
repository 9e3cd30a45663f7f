#include "libs/store/output_keeper.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/base/log.h"
#include "libs/base/mutex.h"

namespace callboard::store {
namespace {

// Approximate size of a piece.
constexpr size_t kPieceBytes = 256 * 1024;
// Number of tasks that are remembered as complete.
constexpr size_t kCompleteMax = 4096;
// A completion does not wake up the thread, unless there are readers or this many completions wait.
constexpr size_t kCompleteWaitingMax = 1024;
// Number of tasks per FindForgotten call.
constexpr size_t kSweepBatch = 1000;

uint64_t BytesOf(const core::RunOutput& output) {
  uint64_t bytes = 0;
  for (const core::OutputChunk& chunk : output.chunks) bytes += chunk.data.size();
  return bytes;
}

absl::Status TooManyReaders() {
  return base::WithRetryAfter(base::WithReason(absl::ResourceExhaustedError(absl::StrCat(
                                                   "too many readers of output (",
                                                   OutputKeeper::kReadersMax, "); retry later")),
                                               "TOO_MANY_READERS"),
                              absl::Seconds(5));
}

}  // namespace

// The queue of commands for the keeper's thread. Thread-safe.
class OutputKeeper::Inbox {
 public:
  using Command = std::function<void(OutputKeeper&)>;
  struct Batch {
    std::vector<Command> commands = {};
    // Dispatches whose output was complete before or with these commands.
    std::vector<core::FenceToken> complete = {};
    bool stopping = false;
  };

  // Dropped if the keeper has stopped. The same applies to PostOutput().
  void Post(Command command) {
    base::MutexLock lock(mutex_);
    if (stopping_) return;
    commands_.push_back(std::move(command));
    changed_.NotifyAll();
  }

  void PostOutput(core::RunOutput output, std::function<void()> on_stored, uint64_t bytes_max) {
    base::MutexLock lock(mutex_);
    if (stopping_) return;
    uint64_t bytes = BytesOf(output);
    if (waiting_bytes_ + bytes > bytes_max) {
      for (core::OutputChunk& chunk : output.chunks) {
        chunk.dropped_bytes += chunk.data.size();
        chunk.data.clear();
      }
      bytes = 0;
    }
    waiting_bytes_ += bytes;
    commands_.push_back([this, bytes, output = std::move(output),
                         on_stored = std::move(on_stored)](OutputKeeper& keeper) {
      keeper.Write(output);
      on_stored();
      base::MutexLock lock(mutex_);
      waiting_bytes_ -= bytes;
    });
    changed_.NotifyAll();
  }

  void PostComplete(const core::FenceToken& token) {
    base::MutexLock lock(mutex_);
    complete_.push_back(token);
    if (readers_ > 0 || complete_.size() >= kCompleteWaitingMax) changed_.NotifyAll();
  }

  // Returns false when there are too many.
  bool AddReader() {
    base::MutexLock lock(mutex_);
    if (readers_ >= kReadersMax) return false;
    ++readers_;
    return true;
  }
  void RemoveReaders(size_t count) {
    base::MutexLock lock(mutex_);
    readers_ -= static_cast<int>(count);
  }

  void Stop() {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }

  // Waits for work, for `wait` at most.
  Batch Take(absl::Duration wait) {
    base::MutexLock lock(mutex_);
    const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !commands_.empty() || stopping_ ||
             complete_.size() >= (readers_ > 0 ? 1 : kCompleteWaitingMax);
    };
    if (wait == absl::InfiniteDuration()) {
      while (!has_work()) changed_.Wait(mutex_);
    } else {
      changed_.WaitFor(mutex_, std::max(wait, absl::ZeroDuration()), has_work);
    }
    return {std::exchange(commands_, {}), std::exchange(complete_, {}), stopping_};
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<Command> commands_ ABSL_GUARDED_BY(mutex_);
  std::vector<core::FenceToken> complete_ ABSL_GUARDED_BY(mutex_);
  uint64_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int readers_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::StatusOr<std::unique_ptr<OutputKeeper>> OutputKeeper::Start(
    const OutputKeeperOptions& options, const ports::Clock& clock, FindForgotten find_forgotten) {
  ASSIGN_OR_RETURN(OutputFiles files, OutputFiles::Open(options.folder, options.limits));
  return std::unique_ptr<OutputKeeper>(
      new OutputKeeper(options, clock, std::move(files), std::move(find_forgotten)));
}

OutputKeeper::OutputKeeper(const OutputKeeperOptions& options, const ports::Clock& clock,
                           OutputFiles files, FindForgotten find_forgotten)
    : options_(options),
      clock_(clock),
      find_forgotten_(std::move(find_forgotten)),
      inbox_(std::make_shared<Inbox>()),
      files_(std::move(files)),
      thread_([this] { Run(); }) {}

OutputKeeper::~OutputKeeper() { Stop(); }

void OutputKeeper::Stop() {
  inbox_->Stop();
  if (thread_.joinable()) thread_.join();
}

void OutputKeeper::Store(core::RunOutput output, std::function<void()> on_stored) {
  const core::FenceToken token = output.token;
  const bool is_last = output.is_last;
  if (!output.chunks.empty()) {
    inbox_->PostOutput(std::move(output), std::move(on_stored), options_.waiting_bytes_max);
  }
  if (is_last) inbox_->PostComplete(token);
}

absl::StatusOr<std::shared_ptr<OutputReader>> OutputKeeper::Read(const ReadRequest& request,
                                                                 OnRead on_read) {
  if (!inbox_->AddReader()) return TooManyReaders();
  std::shared_ptr<OutputReader> reader(new OutputReader(inbox_, request, std::move(on_read)));
  inbox_->Post(
      [reader](OutputKeeper& keeper) { keeper.readers_[reader->request_.task].push_back(reader); });
  return reader;
}

void OutputReader::RequestNext() {
  inbox_->Post([self = shared_from_this()](OutputKeeper& keeper) {
    self->next_requested_ = true;
    keeper.MarkChanged(self->request_.task);
  });
}

void OutputReader::OnTaskEnded(core::DispatchNumber dispatch, absl::Duration ago) {
  inbox_->Post([self = shared_from_this(), dispatch, ago](OutputKeeper& keeper) {
    const absl::Duration give_up_at = keeper.clock_.MonotonicNow() + keeper.options_.linger - ago;
    self->ending_ = {dispatch, give_up_at};
    keeper.deadlines_.emplace(give_up_at, self->request_.task);
    keeper.MarkChanged(self->request_.task);
  });
}

void OutputReader::Stop() {
  inbox_->Post([self = shared_from_this()](OutputKeeper& keeper) { keeper.RemoveReader(*self); });
}

void OutputKeeper::Run() {
  bool stopping = false;
  while (!stopping) {
    const absl::Duration wait = deadlines_.empty()
                                    ? absl::InfiniteDuration()
                                    : deadlines_.begin()->first - clock_.MonotonicNow();
    Inbox::Batch batch = inbox_->Take(wait);
    stopping = batch.stopping;
    for (const Inbox::Command& command : batch.commands) command(*this);
    // After the commands, because the output that it completes was posted before it.
    for (const core::FenceToken& token : batch.complete) MarkComplete(token);
    const absl::Duration now = clock_.MonotonicNow();
    for (; !deadlines_.empty() && deadlines_.begin()->first <= now;
         deadlines_.erase(deadlines_.begin())) {
      MarkChanged(deadlines_.begin()->second);
    }
    for (const core::QueueId& task : std::exchange(changed_tasks_, {})) {
      const auto readers = readers_.find(task);
      if (readers == readers_.end()) continue;
      // Iterates over a copy, because Serve() may remove readers.
      for (const auto& reader : std::vector(readers->second)) Serve(reader, now);
    }
    SweepIfDue(now);
  }
}

void OutputKeeper::Write(const core::RunOutput& output) {
  if (const absl::Status status = files_.Append(output); !status.ok()) {
    base::LogWarning("output", "dropped",
                     {{"queue_id", core::ToString(output.token.queue_id)},
                      {"error", status.message()},
                      {"next", "the task continues; its readers see how many bytes are missing"}});
  }
  MarkChanged(output.token.queue_id);
}

void OutputKeeper::MarkComplete(const core::FenceToken& token) {
  if (complete_.insert_or_assign(token.queue_id, token.dispatch).second) {
    complete_in_order_.push_back(token.queue_id);
  }
  if (complete_in_order_.size() > kCompleteMax) {
    complete_.erase(complete_in_order_.front());
    complete_in_order_.pop_front();
  }
  MarkChanged(token.queue_id);
}

bool OutputKeeper::IsComplete(const OutputReader& reader, absl::Duration now) const {
  if (!reader.ending_.has_value()) return !reader.request_.follow;
  if (reader.ending_->dispatch == core::DispatchNumber()) return true;
  if (now >= reader.ending_->give_up_at) return true;
  const auto complete = complete_.find(reader.request_.task);
  return complete != complete_.end() && complete->second >= reader.ending_->dispatch;
}

void OutputKeeper::Serve(const std::shared_ptr<OutputReader>& reader, absl::Duration now) {
  if (!reader->next_requested_) return;
  ReadRequest& request = reader->request_;
  absl::StatusOr<OutputPiece> piece = files_.Read(request.task, request.after, kPieceBytes);
  if (!piece.ok()) {
    RemoveReader(*reader);
    return reader->on_read_(piece.status());
  }
  request.after = piece->end;
  ReadResult result = {std::move(piece->items)};
  if (request.last_dispatch.has_value()) {
    result.is_last = std::erase_if(result.items, [&](const OutputPiece::Item& item) {
                       return item.dispatch > *request.last_dispatch;
                     }) > 0;
  }
  for (const OutputPiece::Item& item : result.items) {
    reader->read_bytes_ += item.chunk.data.size();
  }
  // A reader that does not follow ends here, even if the task keeps writing.
  const uint64_t stored_max = options_.limits.head_bytes + 2 * options_.limits.tail_file_bytes;
  if (!request.follow && reader->read_bytes_ >= stored_max) result.is_last = true;
  if (result.items.empty() && !result.is_last) {
    if (!IsComplete(*reader, now)) return;
    result.is_last = true;
  }
  reader->next_requested_ = false;
  if (result.is_last) RemoveReader(*reader);
  reader->on_read_(std::move(result));
}

void OutputKeeper::RemoveReader(const OutputReader& reader) {
  const auto readers = readers_.find(reader.request_.task);
  if (readers == readers_.end()) return;
  const size_t removed =
      std::erase_if(readers->second, [&](const auto& other) { return other.get() == &reader; });
  inbox_->RemoveReaders(removed);
  if (readers->second.empty()) readers_.erase(readers);
}

void OutputKeeper::SweepIfDue(absl::Duration now) {
  const bool is_due = files_.task_count() >= tasks_at_sweep_ + options_.sweep_tasks ||
                      now >= swept_at_ + options_.sweep_every;
  if (!is_due) return;
  swept_at_ = now;
  const Tasks tasks = files_.Tasks();
  tasks_at_sweep_ = tasks.size();
  for (size_t first = 0; first < tasks.size(); first += kSweepBatch) {
    const size_t last = std::min(first + kSweepBatch, tasks.size());
    find_forgotten_(Tasks(tasks.begin() + static_cast<ptrdiff_t>(first),
                          tasks.begin() + static_cast<ptrdiff_t>(last)),
                    [inbox = inbox_](const Tasks& forgotten) {
                      inbox->Post([forgotten](OutputKeeper& keeper) {
                        for (const core::QueueId& task : forgotten) keeper.files_.Remove(task);
                        keeper.tasks_at_sweep_ = keeper.files_.task_count();
                      });
                    });
  }
}

}  // namespace callboard::store
