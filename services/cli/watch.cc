#include "services/cli/watch.h"

#include <cstdio>
#include <map>

#include "absl/strings/str_cat.h"
#include "libs/base/status_macros.h"
#include "libs/config/settings.h"
#include "libs/wire/json.h"
#include "services/cli/board_text.h"
#include "services/cli/follow_stream.h"
#include "services/cli/live_screen.h"
#include "services/cli/task_board.h"

namespace callboard::cli {
namespace {

using config::v1::CliConfig;
using Watching = Following<v1::WatchTasksResponse>;

// A submit is one change, of which people need to be told once.
bool IsToldBefore(const v1::WatchTasksResponse::Change& change) {
  return change.event().kind() == v1::TaskEvent::KIND_SUBMITTED;
}

absl::Status WriteLines(const std::vector<v1::WatchTasksResponse::Change>& news, bool as_json) {
  for (const v1::WatchTasksResponse::Change& change : news) {
    if (!as_json && IsToldBefore(change)) continue;
    std::puts((as_json ? wire::ToJson(change) : ChangeLine(change)).c_str());
  }
  std::fflush(stdout);
  return std::ferror(stdout) == 0 ? absl::OkStatus()
                                  : absl::UnavailableError("cannot write to standard output");
}

absl::Status WatchInLines(const CliConfig& config, TaskBoard board) {
  const bool as_json = config.output() == CliConfig::OUTPUT_JSON;
  RETURN_IF_ERROR(FollowStream(
      config, Watching{.open =
                           [&board](v1::QueueService::Stub& stub, grpc::ClientContext& context) {
                             return stub.WatchTasks(&context, board.Request());
                           },
                       .take =
                           [&board, as_json](const v1::WatchTasksResponse& message) {
                             return WriteLines(board.Take(message), as_json);
                           },
                       .on_break =
                           [](const std::string& note) {
                             std::fprintf(stderr, "callboard: %s\n", note.c_str());
                           }}));
  return board.Verdict();
}

absl::Status WatchOnScreen(const CliConfig& config, TaskBoard board, bool has_colour) {
  LiveScreen screen(config, std::move(board), has_colour);
  RETURN_IF_ERROR(FollowStream(
      config, Watching{.open =
                           [&screen](v1::QueueService::Stub& stub, grpc::ClientContext& context) {
                             return stub.WatchTasks(&context, screen.Request());
                           },
                       .take =
                           [&screen](const v1::WatchTasksResponse& message) {
                             screen.Take(message);
                             return absl::OkStatus();
                           },
                       // The screen finds out itself.
                       .on_break = [](const std::string&) {}}));
  return screen.Verdict();
}

}  // namespace

absl::Status WatchTasks(const CliConfig& config, const std::vector<std::string>& queue_ids) {
  const std::map<std::string, std::string> environment = config::ProcessEnvironment();
  if (config.output() == CliConfig::OUTPUT_JSON || !CanDraw(environment)) {
    return WatchInLines(config, TaskBoard(queue_ids));
  }
  const auto no_colour = environment.find("NO_COLOR");
  return WatchOnScreen(config, TaskBoard(queue_ids),
                       no_colour == environment.end() || no_colour->second.empty());
}

}  // namespace callboard::cli
