// The launcher process, its connection to the agent, and the encoding of their messages.

#ifndef CALLBOARD_LIBS_RUNNER_LAUNCHER_H_
#define CALLBOARD_LIBS_RUNNER_LAUNCHER_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/files.h"

namespace callboard::runner {

// Encodes values for messages between processes of the same binary. Both sides know the order of
// the fields, and the bytes are never stored.
class FieldWriter {
 public:
  void WriteNumber(int64_t number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  void WriteText(absl::string_view text) {
    WriteNumber(static_cast<int64_t>(text.size()));
    bytes_.append(text.data(), text.size());
  }
  void WriteTexts(const std::vector<std::string>& texts) {
    WriteNumber(static_cast<int64_t>(texts.size()));
    for (const std::string& text : texts) WriteText(text);
  }
  // Writes a duration in nanoseconds. Infinity, and any duration above 292 years, is written as
  // INT64_MAX.
  void WriteDuration(absl::Duration duration) { WriteNumber(absl::ToInt64Nanoseconds(duration)); }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads the fields that a FieldWriter wrote. Once bytes are missing, returns zeros and empty
// values; see complete().
class FieldReader {
 public:
  explicit FieldReader(absl::string_view bytes) : rest_(bytes) {}

  int64_t ReadNumber() {
    int64_t number = 0;
    if (const absl::string_view bytes = Consume(sizeof(number)); !bytes.empty()) {
      std::memcpy(&number, bytes.data(), sizeof(number));
    }
    return number;
  }
  std::string ReadText() { return std::string(Consume(static_cast<uint64_t>(ReadNumber()))); }
  std::vector<std::string> ReadTexts() {
    std::vector<std::string> texts;
    for (int64_t left = ReadNumber(); left > 0 && !truncated_; --left) texts.push_back(ReadText());
    return texts;
  }
  absl::Duration ReadDuration() {
    const int64_t nanoseconds = ReadNumber();
    return nanoseconds == INT64_MAX ? absl::InfiniteDuration() : absl::Nanoseconds(nanoseconds);
  }

  // Whether all fields were present and no bytes are left.
  bool complete() const { return !truncated_ && rest_.empty(); }

 private:
  absl::string_view Consume(uint64_t size) {
    if (size > rest_.size()) {
      truncated_ = true;
      rest_ = {};
    }
    const absl::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  absl::string_view rest_;
  bool truncated_ = false;
};

// The launcher is a second process of this program that forks a supervisor for each run. The agent
// has threads and must not fork, and executing the program for each run costs many milliseconds.
//
// The launcher is single-threaded and inherits only two descriptors from the agent:
//
//   kLauncherSocket  A SOCK_SEQPACKET socket. The agent sends
//                      - the number of a run with kRunDescriptors descriptors: fork a supervisor
//                      - kLauncherReady without descriptors: a ping
//                    The launcher sends a LauncherMessage when
//                      - it is ready, and in reply to a ping (run = kLauncherReady)
//                      - it has forked a supervisor
//                      - a supervisor died before it sent its report, or could not be forked, and
//                        all processes of its run are gone (supervisor = 0)
//   kLauncherLock    A lock file. It stays open while the launcher or a supervisor lives; tasks do
//                    not inherit it.
//
// The launcher is a subreaper: it adopts the processes that a dead supervisor leaves behind, and
// kills them. When the agent is gone, the launcher waits for its supervisors to end, kills those
// that take too long, and exits.
//
// The launcher ignores SIGTERM, SIGINT and SIGHUP, and these signals do not end supervisors either:
// the agent decides when they end.
inline constexpr absl::string_view kLauncherName = "callboard-launcher";
inline constexpr absl::string_view kLauncherArgument = "--callboard-launch-supervisors";
// Takes the place of a run's number in messages that are not about a run.
inline constexpr uint64_t kLauncherReady = 0;
struct LauncherMessage {
  uint64_t run = kLauncherReady;
  // Process id of the supervisor; 0 when it is dead.
  int64_t supervisor = 0;
};
inline constexpr int kLauncherSocket = 3;
inline constexpr int kLauncherLock = 4;
// The descriptors of a run: the control socket, standard output, standard error, and the plan.
inline constexpr int kRunDescriptors = 4;

// Runs the launcher if this process was started as one. `main` must call this first. Returns the
// exit code when the agent of the launcher is gone. Returns null immediately in any other process.
std::optional<int> MaybeRunLauncher(int argc, char** argv);

// The agent's connection to its launcher. Not thread-safe.
class LauncherLink {
 public:
  // Starts a launcher and waits until it is ready. `environment` is the whole environment of the
  // launcher, as name=value. Returns FAILED_PRECONDITION when the launcher does not become ready,
  // which usually means that `main` does not call MaybeRunLauncher().
  static absl::StatusOr<LauncherLink> Start(const base::Descriptor& lock,
                                            const std::vector<std::string>& environment);
  LauncherLink(LauncherLink&&) = default;
  LauncherLink& operator=(LauncherLink&&) = delete;
  // Waits for the launcher, which waits for its supervisors. Kills them all when that takes too
  // long.
  ~LauncherLink();

  // Sends a run to the launcher. Returns false when its queue is full; try again when the
  // descriptor is writable.
  bool Launch(uint64_t run, const std::array<base::Descriptor, kRunDescriptors>& descriptors);

  // Sends a ping. The launcher replies with a message about kLauncherReady.
  void SendPing();
  // Returns the messages that have arrived, or null when the launcher is dead.
  std::optional<std::vector<LauncherMessage>> ReceiveMessages();
  // Kills the launcher and its descendants, except the supervisors in `spared` and their
  // descendants, which continue without a launcher.
  void Kill(const std::set<pid_t>& spared);

  int descriptor() const { return socket_.get(); }
  pid_t pid() const { return pid_; }

 private:
  LauncherLink(base::Descriptor socket, pid_t pid) : socket_(std::move(socket)), pid_(pid) {}

  base::Descriptor socket_;
  pid_t pid_;
};

}  // namespace callboard::runner

#endif  // CALLBOARD_LIBS_RUNNER_LAUNCHER_H_
