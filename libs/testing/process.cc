#include "libs/testing/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/check.h"

extern char** environ;

namespace callboard::test {

Process::Process(const std::vector<std::string>& arguments) {
  int ends[2];
  CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  CHECK_EQ(posix_spawn_file_actions_init(&actions), 0);
  CHECK_EQ(posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO), 0);
  CHECK_EQ(posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO), 0);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  CHECK_EQ(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0) << argv[0];
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  output_fd_ = ends[0];
  CHECK_GE(fcntl(output_fd_, F_SETFL, O_NONBLOCK), 0);
  CHECK_EQ(pipe2(stop_.data(), O_CLOEXEC), 0);
  reader_ = std::thread([this] { ReadAll(); });
}

Process::~Process() {
  if (!exit_code_.has_value()) {
    Signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(stop_[1]);
  reader_.join();
  close(stop_[0]);
  close(output_fd_);
}

void Process::ReadAll() {
  pollfd sources[] = {{.fd = output_fd_, .events = POLLIN, .revents = 0},
                      {.fd = stop_[0], .events = POLLIN, .revents = 0}};
  while (true) {
    poll(sources, 2, /*timeout=*/-1);
    base::MutexLock lock(mutex_);
    ReadSome();
    if (at_end_ || sources[1].revents != 0) return;
  }
}

void Process::ReadSome() {
  char chunk[4096];
  ssize_t count = 0;
  while ((count = read(output_fd_, chunk, sizeof(chunk))) > 0) {
    output_.append(chunk, static_cast<size_t>(count));
  }
  at_end_ = count == 0;
  changed_.NotifyAll();
}

std::string Process::WaitForLine(absl::string_view text) {
  std::optional<std::string> line = WaitForLineOrEnd(text);
  CHECK(line.has_value()) << "the program ended without a line that contains '" << text << "':\n"
                          << Output();
  return *std::move(line);
}

std::optional<std::string> Process::WaitForLineOrEnd(absl::string_view text) {
  base::MutexLock lock(mutex_);
  while (true) {
    for (size_t end; (end = output_.find('\n', searched_)) != std::string::npos;) {
      const std::string line = output_.substr(searched_, end - searched_);
      searched_ = end + 1;
      if (absl::StrContains(line, text)) return line;
    }
    if (at_end_) return std::nullopt;
    changed_.Wait(mutex_);
  }
}

void Process::Signal(int number) { CHECK_EQ(kill(pid_, number), 0); }

std::optional<int> Process::WaitForExit(absl::Duration deadline) {
  if (exit_code_.has_value()) return exit_code_;
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  CHECK_GE(pidfd, 0);
  pollfd ended = {.fd = pidfd, .events = POLLIN, .revents = 0};
  const int ready = poll(&ended, 1, static_cast<int>(absl::ToInt64Milliseconds(deadline)));
  close(pidfd);
  if (ready != 1) return std::nullopt;
  int status = 0;
  CHECK_EQ(waitpid(pid_, &status, 0), pid_);
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return exit_code_;
}

std::string Process::Output() {
  base::MutexLock lock(mutex_);
  ReadSome();
  while (exit_code_.has_value() && !at_end_) changed_.Wait(mutex_);
  return output_;
}

ProcessResult RunToEnd(const std::vector<std::string>& arguments) {
  Process process(arguments);
  const std::optional<int> exit_code = process.WaitForExit(absl::Minutes(1));
  return {exit_code, process.Output()};
}

std::string FieldOf(absl::string_view line, absl::string_view key) {
  const std::string name = absl::StrCat(" ", key, "=");
  const size_t begin = line.find(name);
  CHECK(begin != absl::string_view::npos) << line;
  const absl::string_view rest = line.substr(begin + name.size());
  return std::string(rest.substr(0, rest.find(' ')));
}

std::string BuiltBinary(absl::string_view path) {
  // Bazel runs tests in the folder that holds their data.
  char folder[4096];
  CHECK(getcwd(folder, sizeof(folder)) != nullptr);
  return absl::StrCat(folder, "/", path);
}

}  // namespace callboard::test
