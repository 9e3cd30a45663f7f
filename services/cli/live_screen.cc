#include "services/cli/live_screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <tuple>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/wire/time.h"
#include "services/cli/board_text.h"
#include "services/cli/peer_call.h"

namespace callboard::cli {
namespace {

// At least, and at most, so often is it drawn.
constexpr absl::Duration kPeriod = absl::Seconds(1);
constexpr absl::Duration kPause = absl::Milliseconds(100);

// No cursor, and long lines are cut; and back.
constexpr char kHidden[] = "\x1b[?25l\x1b[?7l";
constexpr char kRestored[] = "\x1b[?7h\x1b[?25h";

// All at once, so that no half of it is seen, and whoever ends the process finds the terminal as it
// was.
void Write(const std::string& frame) {
  const std::string text = absl::StrCat(kHidden, frame, kRestored);
  std::ignore = write(STDOUT_FILENO, text.data(), text.size());
}

config::v1::CliConfig Within(absl::Duration limit, config::v1::CliConfig config) {
  *config.mutable_timeout() = wire::ToProto(limit);
  return config;
}

}  // namespace

bool CanDraw(const std::map<std::string, std::string>& environment) {
  const auto term = environment.find("TERM");
  return isatty(STDOUT_FILENO) == 1 && term != environment.end() && !term->second.empty() &&
         term->second != "dumb";
}

LiveScreen::LiveScreen(const config::v1::CliConfig& config, TaskBoard board, bool has_colour)
    : config_(Within(kPeriod, config)),
      has_colour_(has_colour),
      board_(std::move(board)),
      drawer_([this] { DrawUntilOver(); }) {}

LiveScreen::~LiveScreen() {
  {
    base::MutexLock lock(mutex_);
    is_over_ = true;
    changed_.NotifyAll();
  }
  drawer_.join();
}

void LiveScreen::Take(const v1::WatchTasksResponse& message) {
  base::MutexLock lock(mutex_);
  board_.Take(message);
  has_begun_ = true;
  is_changed_ = true;
  changed_.NotifyAll();
}

v1::WatchTasksRequest LiveScreen::Request() {
  base::MutexLock lock(mutex_);
  return board_.Request();
}

absl::Status LiveScreen::Verdict() {
  base::MutexLock lock(mutex_);
  return board_.Verdict();
}

void LiveScreen::DrawUntilOver() {
  for (bool is_over = false; !is_over;) {
    {
      base::MutexLock lock(mutex_);
      changed_.WaitFor(mutex_, kPeriod, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return is_changed_ || is_over_;
      });
      is_over = is_over_;
      is_changed_ = false;
    }
    const absl::StatusOr<v1::QueueStatus> status =
        CallDirector(config_, &v1::QueueService::Stub::GetQueueStatus, v1::GetQueueStatusRequest());
    base::MutexLock lock(mutex_);
    if (status.ok()) status_ = *status;
    note_ = std::string(status.status().message());
    if (has_begun_) Draw();
    changed_.WaitFor(mutex_, kPause,
                     [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return is_over_; });
  }
}

void LiveScreen::Draw() {
  winsize window = {};
  ioctl(STDOUT_FILENO, TIOCGWINSZ, &window);
  // A terminal that does not know its size is taken for one of the usual size.
  Frame frame = {.has_colour = has_colour_, .now = clock_.WallNow()};
  if (window.ws_col > 0) frame.columns = window.ws_col;
  if (window.ws_row > 0) frame.rows = window.ws_row;
  // What became of the old lines in a window of another size is not known: on an empty screen then.
  const bool is_resized = columns_ != 0 && (columns_ != frame.columns || rows_ != frame.rows);
  std::string text = is_resized   ? "\x1b[2J\x1b[H"
                     : lines_ > 0 ? absl::StrCat("\x1b[", lines_, "A")
                                  : "";
  const std::vector<std::string> lines = BoardLines(board_, status_, note_, frame);
  for (const std::string& line : lines) absl::StrAppend(&text, line, "\x1b[K\n");
  Write(text + "\x1b[J");
  lines_ = lines.size();
  columns_ = frame.columns;
  rows_ = frame.rows;
}

}  // namespace callboard::cli
