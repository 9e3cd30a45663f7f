#include "libs/adapters/output_files/output_keeper.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/base/log.h"
#include "libs/base/mutex.h"
#include "libs/base/status_macros.h"

namespace callboard::adapters {
namespace {

// What is shown at a time, about.
constexpr size_t kPieceBytes = 256 * 1024;
// What is remembered to be complete.
constexpr size_t kCompleteMax = 4096;
// What is known to be complete wakes nobody up, unless somebody reads or it is so much.
constexpr size_t kCompleteUnseenMax = 1024;
// Tasks that are asked for at a time.
constexpr size_t kSweptAtATime = 1000;

uint64_t BytesOf(const core::OutputWritten& output) {
  uint64_t bytes = 0;
  for (const core::OutputChunk& chunk : output.chunks) bytes += chunk.data.size();
  return bytes;
}

absl::Status TooManyReaders() {
  return base::WithRetryAfter(
      base::WithReason(absl::ResourceExhaustedError(
                           absl::StrCat("too many read output (", OutputKeeper::kReadersMax, ")")),
                       "TOO_MANY_READERS"),
      absl::Seconds(5));
}

}  // namespace

// What is to be done on the keeper's thread. Thread-safe.
class OutputKeeper::Inbox {
 public:
  using Command = std::function<void(OutputKeeper&)>;
  struct Taken {
    std::vector<Command> commands = {};
    // What was complete before them, or with them.
    std::vector<core::FenceToken> complete = {};
    bool is_over = false;
  };

  // Dropped at the end of the keeper, as what follows is.
  void Post(Command command) {
    base::MutexLock lock(mutex_);
    if (stopping_) return;
    commands_.push_back(std::move(command));
    changed_.NotifyAll();
  }

  void PostOutput(core::OutputWritten output, std::function<void()> kept, uint64_t bytes_max) {
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
    commands_.push_back(
        [this, bytes, output = std::move(output), kept = std::move(kept)](OutputKeeper& keeper) {
          keeper.Write(output);
          kept();
          base::MutexLock lock(mutex_);
          waiting_bytes_ -= bytes;
        });
    changed_.NotifyAll();
  }

  void PostComplete(const core::FenceToken& token) {
    base::MutexLock lock(mutex_);
    complete_.push_back(token);
    if (readers_ > 0 || complete_.size() >= kCompleteUnseenMax) changed_.NotifyAll();
  }

  // False when there are too many.
  bool AddReader() {
    base::MutexLock lock(mutex_);
    if (readers_ >= kReadersMax) return false;
    ++readers_;
    return true;
  }
  void DropReaders(size_t count) {
    base::MutexLock lock(mutex_);
    readers_ -= static_cast<int>(count);
  }

  void Stop() {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }

  // Waits for something to do, so long at most.
  Taken Take(absl::Duration wait) {
    base::MutexLock lock(mutex_);
    const auto is_due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !commands_.empty() || stopping_ ||
             complete_.size() >= (readers_ > 0 ? 1 : kCompleteUnseenMax);
    };
    if (wait == absl::InfiniteDuration()) {
      while (!is_due()) changed_.Wait(mutex_);
    } else {
      changed_.WaitFor(mutex_, std::max(wait, absl::ZeroDuration()), is_due);
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

absl::StatusOr<std::unique_ptr<OutputKeeper>> OutputKeeper::Start(const KeeperOptions& options,
                                                                  const ports::Clock& clock,
                                                                  FindForgotten find_forgotten) {
  ASSIGN_OR_RETURN(OutputFiles files, OutputFiles::Open(options.folder, options.limits));
  return std::unique_ptr<OutputKeeper>(
      new OutputKeeper(options, clock, std::move(files), std::move(find_forgotten)));
}

OutputKeeper::OutputKeeper(const KeeperOptions& options, const ports::Clock& clock,
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

void OutputKeeper::Keep(core::OutputWritten output, std::function<void()> kept) {
  const core::FenceToken token = output.token;
  const bool is_last = output.is_last;
  if (!output.chunks.empty()) {
    inbox_->PostOutput(std::move(output), std::move(kept), options_.waiting_bytes_max);
  }
  if (is_last) inbox_->PostComplete(token);
}

absl::StatusOr<std::shared_ptr<OutputReader>> OutputKeeper::Read(const Wanted& wanted, Show show) {
  if (!inbox_->AddReader()) return TooManyReaders();
  std::shared_ptr<OutputReader> reader(new OutputReader(inbox_, wanted, std::move(show)));
  inbox_->Post(
      [reader](OutputKeeper& keeper) { keeper.readers_[reader->wanted_.task].push_back(reader); });
  return reader;
}

void OutputReader::Next() {
  inbox_->Post([self = shared_from_this()](OutputKeeper& keeper) {
    self->wants_next_ = true;
    keeper.Touch(self->wanted_.task);
  });
}

void OutputReader::OnTaskEnded(core::DispatchNumber dispatch, absl::Duration ago) {
  inbox_->Post([self = shared_from_this(), dispatch, ago](OutputKeeper& keeper) {
    const absl::Duration give_up_at = keeper.clock_.MonotonicNow() + keeper.options_.linger - ago;
    self->ending_ = {dispatch, give_up_at};
    keeper.due_.emplace(give_up_at, self->wanted_.task);
    keeper.Touch(self->wanted_.task);
  });
}

void OutputReader::Leave() {
  inbox_->Post([self = shared_from_this()](OutputKeeper& keeper) { keeper.Drop(*self); });
}

void OutputKeeper::Run() {
  bool is_over = false;
  while (!is_over) {
    const absl::Duration wait =
        due_.empty() ? absl::InfiniteDuration() : due_.begin()->first - clock_.MonotonicNow();
    Inbox::Taken taken = inbox_->Take(wait);
    is_over = taken.is_over;
    for (const Inbox::Command& command : taken.commands) command(*this);
    // Not before: what it completes was posted before it.
    for (const core::FenceToken& token : taken.complete) NoteComplete(token);
    const absl::Duration now = clock_.MonotonicNow();
    for (; !due_.empty() && due_.begin()->first <= now; due_.erase(due_.begin())) {
      Touch(due_.begin()->second);
    }
    for (const core::QueueId& task : std::exchange(touched_, {})) {
      const auto readers = readers_.find(task);
      if (readers == readers_.end()) continue;
      // A copy: those who have seen all leave.
      for (const auto& reader : std::vector(readers->second)) Serve(reader, now);
    }
    SweepIfDue(now);
  }
}

void OutputKeeper::Write(const core::OutputWritten& output) {
  if (const absl::Status status = files_.Append(output); !status.ok()) {
    base::LogWarning("output", "dropped",
                     {{"queue_id", core::ToString(output.token.queue_id)},
                      {"error", status.message()},
                      {"next", "the task goes on; its readers are told"}});
  }
  Touch(output.token.queue_id);
}

void OutputKeeper::NoteComplete(const core::FenceToken& token) {
  if (complete_.insert_or_assign(token.queue_id, token.dispatch).second) {
    complete_in_order_.push_back(token.queue_id);
  }
  if (complete_in_order_.size() > kCompleteMax) {
    complete_.erase(complete_in_order_.front());
    complete_in_order_.pop_front();
  }
  Touch(token.queue_id);
}

bool OutputKeeper::IsAll(const OutputReader& reader, absl::Duration now) const {
  if (!reader.ending_.has_value()) return !reader.wanted_.follow;
  if (reader.ending_->dispatch == core::DispatchNumber()) return true;
  if (now >= reader.ending_->give_up_at) return true;
  const auto complete = complete_.find(reader.wanted_.task);
  return complete != complete_.end() && complete->second >= reader.ending_->dispatch;
}

void OutputKeeper::Serve(const std::shared_ptr<OutputReader>& reader, absl::Duration now) {
  if (!reader->wants_next_) return;
  Wanted& wanted = reader->wanted_;
  absl::StatusOr<OutputPiece> piece = files_.Read(wanted.task, wanted.behind, kPieceBytes);
  if (!piece.ok()) {
    Drop(*reader);
    return reader->show_(piece.status());
  }
  wanted.behind = piece->place;
  Shown shown = {std::move(piece->items)};
  if (wanted.last_dispatch.has_value()) {
    shown.is_last = std::erase_if(shown.items, [&](const OutputPiece::Item& item) {
                      return item.dispatch > *wanted.last_dispatch;
                    }) > 0;
  }
  for (const OutputPiece::Item& item : shown.items) {
    reader->shown_bytes_ += item.chunk.data.size();
  }
  // One who does not follow is not shown for ever what a task writes meanwhile.
  const uint64_t kept_max = options_.limits.head_bytes + 2 * options_.limits.tail_file_bytes;
  if (!wanted.follow && reader->shown_bytes_ >= kept_max) shown.is_last = true;
  if (shown.items.empty() && !shown.is_last) {
    if (!IsAll(*reader, now)) return;
    shown.is_last = true;
  }
  reader->wants_next_ = false;
  if (shown.is_last) Drop(*reader);
  reader->show_(std::move(shown));
}

void OutputKeeper::Drop(const OutputReader& reader) {
  const auto readers = readers_.find(reader.wanted_.task);
  if (readers == readers_.end()) return;
  const size_t dropped =
      std::erase_if(readers->second, [&](const auto& other) { return other.get() == &reader; });
  inbox_->DropReaders(dropped);
  if (readers->second.empty()) readers_.erase(readers);
}

void OutputKeeper::SweepIfDue(absl::Duration now) {
  const bool is_due = files_.size() >= tasks_at_sweep_ + options_.sweep_tasks ||
                      now >= swept_at_ + options_.sweep_every;
  if (!is_due) return;
  swept_at_ = now;
  const Tasks tasks = files_.Tasks();
  tasks_at_sweep_ = tasks.size();
  for (size_t first = 0; first < tasks.size(); first += kSweptAtATime) {
    const size_t last = std::min(first + kSweptAtATime, tasks.size());
    find_forgotten_(Tasks(tasks.begin() + static_cast<ptrdiff_t>(first),
                          tasks.begin() + static_cast<ptrdiff_t>(last)),
                    [inbox = inbox_](const Tasks& forgotten) {
                      inbox->Post([forgotten](OutputKeeper& keeper) {
                        for (const core::QueueId& task : forgotten) keeper.files_.Remove(task);
                        keeper.tasks_at_sweep_ = keeper.files_.size();
                      });
                    });
  }
}

}  // namespace callboard::adapters
