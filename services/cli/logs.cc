#include "services/cli/logs.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/base/text.h"
#include "libs/wire/json.h"
#include "services/cli/follow_stream.h"

namespace callboard::cli {
namespace {

using config::v1::CliConfig;

// Output on its way to two files, in the order in which it was written.
class LogWriter {
 public:
  LogWriter(std::FILE* out, std::FILE* err, bool as_json)
      : out_(out), err_(err), as_json_(as_json) {}

  absl::Status Write(const v1::TailTaskLogsResponse& message) {
    for (const v1::LogChunk& chunk : message.chunks()) WriteChunk(chunk);
    std::fflush(out_);
    std::fflush(err_);
    // Of all the writes, not only of these.
    if (std::ferror(out_) == 0 && std::ferror(err_) == 0) return absl::OkStatus();
    return absl::UnavailableError("cannot write to standard output");
  }

 private:
  void WriteChunk(const v1::LogChunk& chunk) {
    if (as_json_) {
      std::fprintf(out_, "%s\n", wire::ToJson(chunk).c_str());
      return;
    }
    if (chunk.dropped_bytes() > 0) {
      std::fprintf(To(err_), "... %llu bytes dropped ...\n",
                   static_cast<unsigned long long>(chunk.dropped_bytes()));
    }
    const bool is_error = chunk.stream() == v1::LogChunk::STREAM_STDERR;
    WriteOutput(chunk.data(), To(is_error ? err_ : out_),
                is_error ? unfinished_err_ : unfinished_out_);
  }

  // A file gets every byte as the task wrote it, a terminal nothing that it would obey. A character
  // may arrive in two chunks.
  static void WriteOutput(absl::string_view data, std::FILE* file, std::string& unfinished) {
    std::string shown;
    if (isatty(fileno(file)) == 1) {
      shown = absl::StrCat(unfinished, data);
      const size_t kept = shown.size() - base::Utf8Unfinished(shown);
      unfinished = shown.substr(kept);
      shown = base::EscapedLines(absl::string_view(shown).substr(0, kept));
      data = shown;
    }
    std::fwrite(data.data(), 1, data.size(), file);
  }

  // They may be the same terminal: what was written before is there before.
  std::FILE* To(std::FILE* file) {
    std::fflush(file == err_ ? out_ : err_);
    return file;
  }

  std::FILE* const out_;
  std::FILE* const err_;
  const bool as_json_;
  std::string unfinished_out_;
  std::string unfinished_err_;
};

}  // namespace

absl::Status ShowLogs(const CliConfig& config, const LogArguments& arguments, std::FILE* out,
                      std::FILE* err) {
  LogWriter writer(out, err, config.output() == CliConfig::OUTPUT_JSON);
  // Where the next stream goes on.
  v1::TailTaskLogsRequest request;
  request.set_queue_id(arguments.queue_id);
  request.set_dispatch(arguments.dispatch);
  request.set_follow(arguments.follow);
  Following<v1::TailTaskLogsResponse> following = {
      .open = [&request](
                  v1::QueueService::Stub& stub,
                  grpc::ClientContext& context) { return stub.TailTaskLogs(&context, request); },
      .take =
          [&request, &writer](const v1::TailTaskLogsResponse& message) {
            if (!message.chunks().empty()) {
              const v1::LogChunk& last = *message.chunks().rbegin();
              request.set_dispatch(last.dispatch());
              request.set_after_number(last.number());
            }
            return writer.Write(message);
          }};
  if (arguments.follow) {
    following.on_break = [err](const std::string& note) {
      std::fprintf(err, "callboard: %s\n", note.c_str());
    };
  }
  return FollowStream(config, following);
}

}  // namespace callboard::cli
