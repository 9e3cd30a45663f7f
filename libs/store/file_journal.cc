#include "libs/store/file_journal.h"

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
#include "libs/base/error.h"
#include "libs/core/hash.h"
#include "libs/ports/event_store.h"
#include "libs/wire/task.h"

namespace callboard::store {
namespace {

using storage::v1::JournalEntry;

// Free space in a new file, in addition to as many bytes as its entries take. Keeps rewrites rare.
constexpr size_t kFreeBytesMin = 1024 * 1024;

// Version of the entries. Only this version can be read.
constexpr uint32_t kJournalFormat = 1;

absl::Status FileError(const std::string& path, int error = errno) {
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", strerror(error)));
}

void Unmap(absl::Span<char> mapping) {
  if (!mapping.empty()) munmap(mapping.data(), mapping.size());
}

JournalEntry NewEntry(JournalEntry::Kind kind, const core::FenceToken& token) {
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
      return NewEntry(JournalEntry::KIND_ACCEPTED, run.token);
    }
    JournalEntry operator()(const agent::ResultStored& stored) const {
      JournalEntry entry = NewEntry(JournalEntry::KIND_RESULT, stored.token);
      wire::WriteResult(stored.result, *entry.mutable_run());
      return entry;
    }
    JournalEntry operator()(const agent::RunForgotten& run) const {
      return NewEntry(JournalEntry::KIND_FORGOTTEN, run.token);
    }
  };
  return std::visit(Step{}, record);
}

// Returns nullopt when no known version of the agent writes such an entry.
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
      absl::StatusOr<core::RunResult> result = wire::ReadResult(entry.run());
      if (!result.ok()) return {};
      return agent::ResultStored{token, *std::move(result)};
    }
    default:
      return {};
  }
}

void AppendEntry(const agent::JournalRecord& record, std::string& buffer) {
  core::AppendFrame(ToEntry(record).SerializeAsString(), buffer);
}

void AppendFormat(std::string& buffer) {
  JournalEntry entry;
  entry.set_kind(JournalEntry::KIND_FORMAT);
  entry.set_format(kJournalFormat);
  core::AppendFrame(entry.SerializeAsString(), buffer);
}

absl::Status RefusedError(const std::string& path, absl::string_view why) {
  return base::WithReason(absl::FailedPreconditionError(absl::StrCat(path, why)),
                          ports::kStoreRefused);
}

// Reads up to the first incomplete entry. A complete entry that cannot be understood was written by
// another version. That is an error, because ignoring it would also lose the entries after it.
absl::StatusOr<agent::JournalState> Read(const std::string& path, absl::string_view text) {
  agent::JournalState state;
  bool has_format = false;
  while (const auto piece = core::ConsumeFrame(text)) {
    JournalEntry entry;
    const bool is_parsed = entry.ParseFromArray(piece->data(), static_cast<int>(piece->size()));
    if (!std::exchange(has_format, true)) {
      const bool is_format = is_parsed && entry.kind() == JournalEntry::KIND_FORMAT;
      if (is_format && entry.format() == kJournalFormat) continue;
      return RefusedError(
          path,
          absl::StrCat(" was written by another version (this one reads format ", kJournalFormat,
                       "); run that version until its tasks have ended, or move the file "
                       "away: the director then treats these tasks as lost"));
    }
    const std::optional<agent::JournalRecord> record = is_parsed ? FromEntry(entry) : std::nullopt;
    if (!record.has_value()) {
      return RefusedError(
          path, " has an entry that this version does not know; run the version that wrote it");
    }
    state.Apply(*record);
  }
  return state;
}

}  // namespace

absl::StatusOr<FileJournal::OpenResult> FileJournal::Open(const std::string& path) {
  const std::string lock_path = path + ".lock";
  base::Descriptor lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!lock.is_open()) return FileError(lock_path);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        path,
        " is in use by another agent with the same data_dir; give each agent its own data_dir"));
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  ASSIGN_OR_RETURN(agent::JournalState state, Read(path, text));
  OpenResult opened = {.journal = nullptr, .state = std::move(state)};
  opened.journal.reset(new FileJournal(path, std::move(lock), opened.state));
  RETURN_IF_ERROR(opened.journal->Rewrite());
  return opened;
}

FileJournal::~FileJournal() {
  Unmap(mapping_);
  // If this fails, the unused space at the end contains no entry, as after a crash.
  if (file_.is_open()) std::ignore = ftruncate(file_.get(), static_cast<off_t>(size_bytes_));
}

absl::Status FileJournal::Rewrite() {
  const std::string staged = path_ + ".new";
  base::Descriptor file(
      open(staged.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.is_open()) return FileError(staged);
  buffer_.clear();
  AppendFormat(buffer_);
  for (const agent::JournalRecord& record : state_.Records()) AppendEntry(record, buffer_);
  if (!base::WriteAll(file, buffer_)) return FileError(staged);
  const size_t bytes = kFreeBytesMin + 2 * buffer_.size();
  // Without reserved disk space, writing to a mapped page would crash the process on a full disk.
  if (const int error = posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)); error != 0) {
    return FileError(staged, error);
  }
  if (std::rename(staged.c_str(), path_.c_str()) != 0) return FileError(staged);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return FileError(path_);
  Unmap(std::exchange(mapping_, {static_cast<char*>(memory), bytes}));
  file_ = std::move(file);
  size_bytes_ = buffer_.size();
  return absl::OkStatus();
}

absl::Status FileJournal::Write(absl::Span<const agent::JournalRecord> records) {
  buffer_.clear();
  for (const agent::JournalRecord& record : records) {
    state_.Apply(record);
    AppendEntry(record, buffer_);
  }
  if (buffer_.size() > mapping_.size() - size_bytes_) return Rewrite();
  std::memcpy(mapping_.data() + size_bytes_, buffer_.data(), buffer_.size());
  size_bytes_ += buffer_.size();
  return absl::OkStatus();
}

}  // namespace callboard::store
