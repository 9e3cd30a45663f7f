#include "libs/adapters/file_journal/file_journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "callboard/storage/v1/journal.pb.h"
#include "libs/base/status_macros.h"
#include "libs/base/text.h"
#include "libs/core/framed.h"

namespace callboard::adapters {
namespace {

using storage::v1::JournalEntry;

// Room for entries to come, beside as much again as there are: so writing it all anew is seldom.
constexpr size_t kRoomBytesMin = 1024 * 1024;

absl::Status FileError(const std::string& path, int error = errno) {
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", strerror(error)));
}

void Unmap(absl::Span<char> room) {
  if (!room.empty()) munmap(room.data(), room.size());
}

JournalEntry EntryOf(JournalEntry::Kind kind, const core::FenceToken& token) {
  JournalEntry entry;
  entry.set_kind(kind);
  entry.set_queue_id_high(token.queue_id.value().high());
  entry.set_queue_id_low(token.queue_id.value().low());
  entry.set_dispatch(token.dispatch.value());
  entry.set_director_epoch(token.director_epoch);
  return entry;
}

JournalEntry ToEntry(const agent::JournalRecord& record) {
  struct Step {
    JournalEntry operator()(const agent::RunAccepted& run) const {
      return EntryOf(JournalEntry::KIND_ACCEPTED, run.token);
    }
    JournalEntry operator()(const agent::ResultKept& kept) const {
      JournalEntry entry = EntryOf(JournalEntry::KIND_RESULT, kept.token);
      storage::v1::JournalResult& result = *entry.mutable_result();
      result.set_end(static_cast<uint32_t>(kept.result.end));
      if (kept.result.exit_code.has_value()) result.set_exit_code(*kept.result.exit_code);
      result.set_signal(kept.result.signal);
      result.set_result(kept.result.result);
      result.set_result_truncated(kept.result.result_truncated);
      result.set_error(kept.result.error);
      return entry;
    }
    JournalEntry operator()(const agent::RunForgotten& run) const {
      return EntryOf(JournalEntry::KIND_FORGOTTEN, run.token);
    }
  };
  return std::visit(Step{}, record);
}

// Nothing when no agent can have written it.
std::optional<agent::JournalRecord> FromEntry(const JournalEntry& entry) {
  const core::FenceToken token = {
      core::QueueId(core::Ulid(entry.queue_id_high(), entry.queue_id_low())),
      core::DispatchNumber(entry.dispatch()), entry.director_epoch()};
  switch (entry.kind()) {
    case JournalEntry::KIND_ACCEPTED:
      return agent::RunAccepted{token};
    case JournalEntry::KIND_FORGOTTEN:
      return agent::RunForgotten{token};
    case JournalEntry::KIND_RESULT: {
      const storage::v1::JournalResult& proto = entry.result();
      if (proto.end() > static_cast<uint32_t>(core::RunResult::End::kNotStarted)) return {};
      core::RunResult result = {.end = static_cast<core::RunResult::End>(proto.end()),
                                .signal = base::ValidUtf8(proto.signal()),
                                .result = proto.result(),
                                .result_truncated = proto.result_truncated(),
                                .error = base::ValidUtf8(proto.error())};
      if (proto.has_exit_code()) result.exit_code = proto.exit_code();
      return agent::ResultKept{token, std::move(result)};
    }
    default:
      return {};
  }
}

void Append(const agent::JournalRecord& record, std::string& buffer) {
  core::AppendFramed(ToEntry(record).SerializeAsString(), buffer);
}

// Up to the first entry that is not whole. One that is, and means nothing, is of another version:
// what comes after it must not be lost with it.
absl::StatusOr<agent::Journaled> Read(const std::string& path, absl::string_view text) {
  agent::Journaled journaled;
  while (const auto piece = core::TakeFramed(text)) {
    JournalEntry entry;
    std::optional<agent::JournalRecord> record;
    if (entry.ParseFromArray(piece->data(), static_cast<int>(piece->size()))) {
      record = FromEntry(entry);
    }
    if (!record.has_value()) {
      return absl::FailedPreconditionError(absl::StrCat(
          path, " has an entry that this version does not know: run the version that wrote it"));
    }
    journaled.Apply(*record);
  }
  return journaled;
}

}  // namespace

absl::StatusOr<FileJournal::Opened> FileJournal::Open(const std::string& path) {
  const std::string lock_path = path + ".lock";
  base::Descriptor lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!lock.is_open()) return FileError(lock_path);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " is in use: another agent runs on the same data_dir; give each its own"));
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  ASSIGN_OR_RETURN(agent::Journaled journaled, Read(path, text));
  Opened opened = {.journal = nullptr, .journaled = std::move(journaled)};
  opened.journal.reset(new FileJournal(path, std::move(lock), opened.journaled));
  RETURN_IF_ERROR(opened.journal->WriteAnew());
  return opened;
}

FileJournal::~FileJournal() {
  Unmap(room_);
  // What is left over if this fails holds no entry, as after a crash.
  if (file_.is_open()) std::ignore = ftruncate(file_.get(), static_cast<off_t>(size_bytes_));
}

absl::Status FileJournal::WriteAnew() {
  const std::string staged = path_ + ".new";
  base::Descriptor file(
      open(staged.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.is_open()) return FileError(staged);
  buffer_.clear();
  for (const agent::JournalRecord& record : journaled_.Records()) Append(record, buffer_);
  if (!base::WriteAll(file, buffer_)) return FileError(staged);
  const size_t bytes = kRoomBytesMin + 2 * buffer_.size();
  // A page that had no room on the disk would end the process when it is written to.
  if (const int error = posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)); error != 0) {
    return FileError(staged, error);
  }
  if (std::rename(staged.c_str(), path_.c_str()) != 0) return FileError(staged);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return FileError(path_);
  Unmap(std::exchange(room_, {static_cast<char*>(memory), bytes}));
  file_ = std::move(file);
  size_bytes_ = buffer_.size();
  return absl::OkStatus();
}

absl::Status FileJournal::Write(absl::Span<const agent::JournalRecord> records) {
  buffer_.clear();
  for (const agent::JournalRecord& record : records) {
    journaled_.Apply(record);
    Append(record, buffer_);
  }
  if (buffer_.size() > room_.size() - size_bytes_) return WriteAnew();
  std::memcpy(room_.data() + size_bytes_, buffer_.data(), buffer_.size());
  size_bytes_ += buffer_.size();
  return absl::OkStatus();
}

}  // namespace callboard::adapters
