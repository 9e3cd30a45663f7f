#include "libs/adapters/output_files/output_files.h"

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
#include "libs/base/private_folder.h"
#include "libs/base/status_macros.h"
#include "libs/core/framed.h"
#include "libs/core/ulid.h"

namespace callboard::adapters {
namespace {

using storage::v1::OutputEntry;

// The file with the beginning.
constexpr uint64_t kHead = 0;
// The files with the end.
constexpr size_t kTails = 2;

struct FileName {
  core::QueueId task;
  uint64_t number = 0;
};

// Nothing for what this does not write.
std::optional<FileName> ParseName(const std::string& name) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(name, absl::MaxSplits('.', 1));
  const std::optional<core::Ulid> ulid = core::Ulid::Parse(parts.first);
  uint64_t number = 0;
  if (!ulid.has_value() || !absl::SimpleAtoi(parts.second, &number)) return std::nullopt;
  return FileName{core::QueueId(*ulid), number};
}

absl::Status FileError(absl::string_view doing, const std::filesystem::path& path) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", doing, " ", path.string(), ": ", strerror(errno)));
}

absl::StatusOr<std::string> ReadBehind(const std::filesystem::path& path, uint64_t offset,
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

// Takes the first entry off `text`; nothing when that is not whole.
std::optional<OutputEntry> TakeEntry(absl::string_view& text) {
  const std::optional<absl::string_view> piece = core::TakeFramed(text);
  OutputEntry entry;
  if (!piece.has_value() || !entry.ParseFromArray(piece->data(), static_cast<int>(piece->size()))) {
    return std::nullopt;
  }
  return entry;
}

uint64_t BytesBehind(const OutputEntry& entry) {
  return entry.bytes_before() + entry.dropped_bytes() + entry.data().size();
}

bool IsBehind(uint64_t dispatch, uint64_t number, const OutputPlace& place) {
  return std::tuple(dispatch, number) > std::tuple(place.dispatch.value(), place.number);
}

// Goes behind an entry that begins at the place.
void Pass(const OutputEntry& entry, size_t bytes, OutputPlace& place) {
  place.offset += bytes;
  if (IsBehind(entry.dispatch(), entry.number(), place)) {
    place.dispatch = core::DispatchNumber(entry.dispatch());
    place.number = entry.number();
  }
  place.bytes = BytesBehind(entry);
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
  RETURN_IF_ERROR(files.Survey());
  return files;
}

absl::Status OutputFiles::Survey() {
  std::error_code error;
  std::map<core::QueueId, std::filesystem::file_time_type> written;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const std::optional<FileName> name = ParseName(entry.path().filename().string());
    if (!name.has_value()) continue;
    const uint64_t size = entry.file_size(error);
    if (error) break;
    total_bytes_ += size;
    Keep(name->task).files[name->number] = size;
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
  for (const auto& [at, task] : order) Touch(task, kept_[task]);
  MakeRoom();
  return absl::OkStatus();
}

std::filesystem::path OutputFiles::PathOf(core::QueueId task, uint64_t file) const {
  return folder_ / absl::StrCat(task.value().ToString(), ".", file);
}

absl::StatusOr<OutputPlace> OutputFiles::FindEnd(core::QueueId task, Kept& kept) {
  OutputPlace end;
  // The last file has it, unless nothing in it is whole.
  for (auto file = kept.files.rbegin(); file != kept.files.rend() && end.number == 0; ++file) {
    const std::filesystem::path path = PathOf(task, file->first);
    ASSIGN_OR_RETURN(const std::string text, ReadBehind(path, 0, file->second));
    absl::string_view rest = text;
    while (true) {
      const size_t before = rest.size();
      const std::optional<OutputEntry> entry = TakeEntry(rest);
      if (!entry.has_value()) break;
      Pass(*entry, before - rest.size(), end);
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

absl::Status OutputFiles::Append(const core::OutputWritten& output) {
  const core::QueueId task = output.token.queue_id;
  Kept& kept = Keep(task);
  Touch(task, kept);
  if (!kept.end.has_value()) {
    ASSIGN_OR_RETURN(kept.end, FindEnd(task, kept));
  }
  absl::Status status;
  for (const core::OutputChunk& chunk : output.chunks) {
    if (!IsBehind(output.token.dispatch.value(), chunk.number, *kept.end)) continue;
    status.Update(AppendChunk(task, kept, output.token.dispatch, chunk));
  }
  MakeRoom();
  return status;
}

absl::Status OutputFiles::AppendChunk(core::QueueId task, Kept& kept, core::DispatchNumber dispatch,
                                      const core::OutputChunk& chunk) {
  OutputEntry entry;
  entry.set_dispatch(dispatch.value());
  entry.set_number(chunk.number);
  entry.set_is_stderr(chunk.stream == core::OutputStream::kStderr);
  entry.set_data(chunk.data);
  entry.set_at_nanos(absl::ToUnixNanos(chunk.at));
  entry.set_dropped_bytes(chunk.dropped_bytes);
  entry.set_bytes_before(kept.end->bytes);
  std::string text;
  core::AppendFramed(entry.SerializeAsString(), text);
  Pass(entry, text.size(), *kept.end);
  return Write(task, kept, text);
}

absl::Status OutputFiles::Write(core::QueueId task, Kept& kept, const std::string& text) {
  if (kept.files.empty()) kept.files[kHead] = 0;
  uint64_t number = kept.files.rbegin()->first;
  uint64_t size = kept.files.rbegin()->second;
  const uint64_t size_max = number == kHead ? limits_.head_bytes : limits_.tail_file_bytes;
  if (size > 0 && size + text.size() > size_max) {
    kept.files[++number] = size = 0;
    // The first of them is the head.
    while (kept.files.size() > 1 + kTails) {
      RemoveFile(task, kept, std::next(kept.files.begin())->first);
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
    // What comes next must not stand behind half a piece.
    if (error) kept.files[number + 1] = 0;
    return failed;
  }
  kept.files[number] += text.size();
  total_bytes_ += text.size();
  return absl::OkStatus();
}

void OutputFiles::SkipToWhatIsKept(const Kept& kept, OutputPlace& place) {
  const auto file = kept.files.lower_bound(place.file);
  if (file == kept.files.end() || file->first == place.file) return;
  place.file = file->first;
  place.offset = 0;
}

absl::StatusOr<OutputPiece> OutputFiles::Read(core::QueueId task, const OutputPlace& place,
                                              size_t bytes_max) const {
  OutputPiece piece = {.place = place};
  const auto kept = kept_.find(task);
  if (kept == kept_.end()) return piece;
  OutputPlace& here = piece.place;
  if (here.life != kept->second.life) {
    here.life = kept->second.life;
    here.file = here.offset = here.bytes = 0;
  }
  size_t bytes = 0;
  while (bytes < bytes_max) {
    SkipToWhatIsKept(kept->second, here);
    const auto file = kept->second.files.find(here.file);
    if (file == kept->second.files.end()) break;
    std::string text;
    // One that was never written may not be there.
    if (here.offset < file->second) {
      ASSIGN_OR_RETURN(text, ReadBehind(PathOf(task, here.file), here.offset, file->second));
    }
    absl::string_view rest = text;
    while (bytes < bytes_max) {
      const size_t before = rest.size();
      std::optional<OutputEntry> entry = TakeEntry(rest);
      if (!entry.has_value()) break;
      const bool is_new = IsBehind(entry->dispatch(), entry->number(), here);
      const uint64_t bytes_seen = here.bytes;
      Pass(*entry, before - rest.size(), here);
      if (!is_new) continue;
      piece.items.push_back(ItemFrom(*std::move(entry), bytes_seen));
      bytes += piece.items.back().chunk.data.size();
    }
    if (bytes >= bytes_max || std::next(file) == kept->second.files.end()) break;
    here.file = std::next(file)->first;
    here.offset = 0;
  }
  return piece;
}

void OutputFiles::RemoveFile(core::QueueId task, Kept& kept, uint64_t file) {
  std::error_code error;
  std::filesystem::remove(PathOf(task, file), error);
  total_bytes_ -= kept.files[file];
  kept.files.erase(file);
}

void OutputFiles::Remove(core::QueueId task) {
  const auto kept = kept_.find(task);
  if (kept == kept_.end()) return;
  while (!kept->second.files.empty()) {
    RemoveFile(task, kept->second, kept->second.files.begin()->first);
  }
  by_turn_.erase(kept->second.turn);
  kept_.erase(kept);
}

std::vector<core::QueueId> OutputFiles::Tasks() const {
  std::vector<core::QueueId> tasks;
  for (const auto& [task, kept] : kept_) tasks.push_back(task);
  return tasks;
}

OutputFiles::Kept& OutputFiles::Keep(core::QueueId task) {
  const auto [kept, is_new] = kept_.try_emplace(task);
  if (is_new) kept->second.life = ++last_life_;
  return kept->second;
}

void OutputFiles::Touch(core::QueueId task, Kept& kept) {
  by_turn_.erase(kept.turn);
  kept.turn = ++last_turn_;
  by_turn_[kept.turn] = task;
}

void OutputFiles::MakeRoom() {
  while (total_bytes_ > limits_.total_bytes && by_turn_.size() > 1) {
    Remove(by_turn_.begin()->second);
  }
}

}  // namespace callboard::adapters
