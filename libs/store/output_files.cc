#include "libs/store/output_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "callboard/storage/v1/output.pb.h"
#include "libs/base/error.h"
#include "libs/base/files.h"
#include "libs/core/hash.h"
#include "libs/core/ids.h"

namespace callboard::store {
namespace {

using storage::v1::OutputEntry;

// Number of the file with the beginning.
constexpr uint64_t kHead = 0;
// Number of files that keep the end.
constexpr size_t kTails = 2;

struct FileName {
  core::QueueId task;
  uint64_t number = 0;
};

// Returns nullopt for a file that OutputFiles does not write.
std::optional<FileName> ParseName(const std::string& name) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(name, absl::MaxSplits('.', 1));
  const std::optional<core::Ulid> ulid = core::Ulid::Parse(parts.first);
  uint64_t number = 0;
  if (!ulid.has_value() || !absl::SimpleAtoi(parts.second, &number)) return std::nullopt;
  return FileName{core::QueueId(*ulid), number};
}

absl::Status FileError(absl::string_view action, const std::filesystem::path& path) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", action, " ", path.string(), ": ", strerror(errno)));
}

absl::StatusOr<std::string> ReadFrom(const std::filesystem::path& path, uint64_t offset,
                                     uint64_t size) {
  std::string text(size - std::min(offset, size), '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.seekg(static_cast<std::streamoff>(offset)) ||
      (!file.read(text.data(), static_cast<std::streamsize>(text.size())) && !file.eof())) {
    return FileError("read", path);
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

// Removes the first entry from `text` and returns it, or nullopt if it is incomplete.
std::optional<OutputEntry> ConsumeEntry(absl::string_view& text) {
  const std::optional<absl::string_view> piece = core::ConsumeFrame(text);
  OutputEntry entry;
  if (!piece.has_value() || !entry.ParseFromArray(piece->data(), static_cast<int>(piece->size()))) {
    return std::nullopt;
  }
  return entry;
}

uint64_t BytesThrough(const OutputEntry& entry) {
  return entry.bytes_before() + entry.dropped_bytes() + entry.data().size();
}

bool IsAfter(uint64_t dispatch, uint64_t number, const OutputPosition& position) {
  return std::tuple(dispatch, number) > std::tuple(position.dispatch.value(), position.number);
}

// Moves `position` from the start of an entry to its end.
void Advance(const OutputEntry& entry, size_t bytes, OutputPosition& position) {
  position.offset += bytes;
  if (IsAfter(entry.dispatch(), entry.number(), position)) {
    position.dispatch = core::DispatchNumber(entry.dispatch());
    position.number = entry.number();
  }
  position.bytes = BytesThrough(entry);
}

OutputPiece::Item ItemFrom(OutputEntry entry, uint64_t bytes_seen) {
  return {core::DispatchNumber(entry.dispatch()),
          {.number = entry.number(),
           .stream = entry.is_stderr() ? core::OutputStream::kStderr : core::OutputStream::kStdout,
           .data = std::move(*entry.mutable_data()),
           .at = absl::FromUnixNanos(entry.at_nanos()),
           .dropped_bytes = entry.dropped_bytes() + entry.bytes_before() - bytes_seen}};
}

}  // namespace

absl::StatusOr<OutputFiles> OutputFiles::Open(const std::filesystem::path& folder,
                                              const OutputLimits& limits) {
  RETURN_IF_ERROR(base::MakePrivateFolder(folder));
  OutputFiles files(folder, limits);
  RETURN_IF_ERROR(files.ScanFolder());
  return files;
}

absl::Status OutputFiles::ScanFolder() {
  std::error_code error;
  std::map<core::QueueId, std::filesystem::file_time_type> written;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const std::optional<FileName> name = ParseName(entry.path().filename().string());
    if (!name.has_value()) continue;
    const uint64_t size = entry.file_size(error);
    if (error) break;
    total_bytes_ += size;
    FindOrAdd(name->task).files[name->number] = size;
    auto& newest = written[name->task];
    newest = std::max(newest, entry.last_write_time(error));
  }
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("cannot read the folder ", folder_.string(), ": ", error.message()));
  }
  std::vector<std::pair<std::filesystem::file_time_type, core::QueueId>> order;
  for (const auto& [task, at] : written) order.emplace_back(at, task);
  std::sort(order.begin(), order.end());
  for (const auto& [at, task] : order) MarkWritten(task, tasks_[task]);
  RemoveUntilWithinTotal();
  return absl::OkStatus();
}

std::filesystem::path OutputFiles::PathOf(core::QueueId task, uint64_t file) const {
  return folder_ / absl::StrCat(task.value().ToString(), ".", file);
}

absl::StatusOr<OutputPosition> OutputFiles::FindEnd(core::QueueId task, TaskOutput& stored) {
  OutputPosition end;
  // It is in the last file, unless that contains no complete entry.
  for (auto file = stored.files.rbegin(); file != stored.files.rend() && end.number == 0; ++file) {
    const std::filesystem::path path = PathOf(task, file->first);
    ASSIGN_OR_RETURN(const std::string text, ReadFrom(path, 0, file->second));
    absl::string_view rest = text;
    while (true) {
      const size_t before = rest.size();
      const std::optional<OutputEntry> entry = ConsumeEntry(rest);
      if (!entry.has_value()) break;
      Advance(*entry, before - rest.size(), end);
    }
    if (rest.empty()) continue;
    std::error_code error;
    std::filesystem::resize_file(path, text.size() - rest.size(), error);
    if (error) return FileError("cut", path);
    total_bytes_ -= rest.size();
    file->second -= rest.size();
  }
  return end;
}

absl::Status OutputFiles::Append(const core::RunOutput& output) {
  const core::QueueId task = output.token.queue_id;
  TaskOutput& stored = FindOrAdd(task);
  MarkWritten(task, stored);
  if (!stored.end.has_value()) {
    ASSIGN_OR_RETURN(stored.end, FindEnd(task, stored));
  }
  absl::Status status;
  for (const core::OutputChunk& chunk : output.chunks) {
    if (!IsAfter(output.token.dispatch.value(), chunk.number, *stored.end)) continue;
    status.Update(AppendChunk(task, stored, output.token.dispatch, chunk));
  }
  RemoveUntilWithinTotal();
  return status;
}

absl::Status OutputFiles::AppendChunk(core::QueueId task, TaskOutput& stored,
                                      core::DispatchNumber dispatch,
                                      const core::OutputChunk& chunk) {
  OutputEntry entry;
  entry.set_dispatch(dispatch.value());
  entry.set_number(chunk.number);
  entry.set_is_stderr(chunk.stream == core::OutputStream::kStderr);
  entry.set_data(chunk.data);
  entry.set_at_nanos(absl::ToUnixNanos(chunk.at));
  entry.set_dropped_bytes(chunk.dropped_bytes);
  entry.set_bytes_before(stored.end->bytes);
  std::string text;
  core::AppendFrame(entry.SerializeAsString(), text);
  Advance(entry, text.size(), *stored.end);
  return Write(task, stored, text);
}

absl::Status OutputFiles::Write(core::QueueId task, TaskOutput& stored, const std::string& text) {
  if (stored.files.empty()) stored.files[kHead] = 0;
  uint64_t number = stored.files.rbegin()->first;
  uint64_t size = stored.files.rbegin()->second;
  const uint64_t size_max = number == kHead ? limits_.head_bytes : limits_.tail_file_bytes;
  if (size > 0 && size + text.size() > size_max) {
    stored.files[++number] = size = 0;
    // The first file is the head.
    while (stored.files.size() > 1 + kTails) {
      RemoveFile(task, stored, std::next(stored.files.begin())->first);
    }
  }
  const std::filesystem::path path = PathOf(task, number);
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) {
    const absl::Status failed = FileError("write", path);
    std::error_code error;
    std::filesystem::resize_file(path, size, error);
    // The next entry must not follow a partial one.
    if (error) stored.files[number + 1] = 0;
    return failed;
  }
  stored.files[number] += text.size();
  total_bytes_ += text.size();
  return absl::OkStatus();
}

void OutputFiles::SkipRemovedFiles(const TaskOutput& stored, OutputPosition& position) {
  const auto file = stored.files.lower_bound(position.file);
  if (file == stored.files.end() || file->first == position.file) return;
  position.file = file->first;
  position.offset = 0;
}

absl::StatusOr<OutputPiece> OutputFiles::Read(core::QueueId task, const OutputPosition& position,
                                              size_t bytes_max) const {
  OutputPiece piece = {.end = position};
  const auto stored = tasks_.find(task);
  if (stored == tasks_.end()) return piece;
  OutputPosition& here = piece.end;
  if (here.generation != stored->second.generation) {
    here.generation = stored->second.generation;
    here.file = here.offset = here.bytes = 0;
  }
  size_t bytes = 0;
  while (bytes < bytes_max) {
    SkipRemovedFiles(stored->second, here);
    const auto file = stored->second.files.find(here.file);
    if (file == stored->second.files.end()) break;
    std::string text;
    // A file that was never written may not exist.
    if (here.offset < file->second) {
      ASSIGN_OR_RETURN(text, ReadFrom(PathOf(task, here.file), here.offset, file->second));
    }
    absl::string_view rest = text;
    while (bytes < bytes_max) {
      const size_t before = rest.size();
      std::optional<OutputEntry> entry = ConsumeEntry(rest);
      if (!entry.has_value()) break;
      const bool is_new = IsAfter(entry->dispatch(), entry->number(), here);
      const uint64_t bytes_seen = here.bytes;
      Advance(*entry, before - rest.size(), here);
      if (!is_new) continue;
      piece.items.push_back(ItemFrom(*std::move(entry), bytes_seen));
      bytes += piece.items.back().chunk.data.size();
    }
    if (bytes >= bytes_max || std::next(file) == stored->second.files.end()) break;
    here.file = std::next(file)->first;
    here.offset = 0;
  }
  return piece;
}

void OutputFiles::RemoveFile(core::QueueId task, TaskOutput& stored, uint64_t file) {
  std::error_code error;
  std::filesystem::remove(PathOf(task, file), error);
  total_bytes_ -= stored.files[file];
  stored.files.erase(file);
}

void OutputFiles::Remove(core::QueueId task) {
  const auto stored = tasks_.find(task);
  if (stored == tasks_.end()) return;
  while (!stored->second.files.empty()) {
    RemoveFile(task, stored->second, stored->second.files.begin()->first);
  }
  by_last_write_.erase(stored->second.last_write);
  tasks_.erase(stored);
}

std::vector<core::QueueId> OutputFiles::Tasks() const {
  std::vector<core::QueueId> tasks;
  for (const auto& [task, stored] : tasks_) tasks.push_back(task);
  return tasks;
}

OutputFiles::TaskOutput& OutputFiles::FindOrAdd(core::QueueId task) {
  const auto [stored, is_new] = tasks_.try_emplace(task);
  if (is_new) stored->second.generation = ++last_generation_;
  return stored->second;
}

void OutputFiles::MarkWritten(core::QueueId task, TaskOutput& stored) {
  by_last_write_.erase(stored.last_write);
  stored.last_write = ++last_write_;
  by_last_write_[stored.last_write] = task;
}

void OutputFiles::RemoveUntilWithinTotal() {
  while (total_bytes_ > limits_.total_bytes && by_last_write_.size() > 1) {
    Remove(by_last_write_.begin()->second);
  }
}

}  // namespace callboard::store
