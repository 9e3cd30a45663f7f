#ifndef CALLBOARD_TESTS_CRASH_DIRECTOR_PROCESS_H_
#define CALLBOARD_TESTS_CRASH_DIRECTOR_PROCESS_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "libs/testing/process.h"
#include "tests/crash/disk.h"

namespace callboard::crash {

// A director process on free ports.
class DirectorProcess {
 public:
  // Returns once it listens or has ended.
  explicit DirectorProcess(const std::filesystem::path& data_dir,
                           const std::vector<std::string>& flags = {});
  // Starts a director with its data on a faulty disk.
  DirectorProcess(const Disk& disk, const std::vector<std::string>& flags);

  bool is_listening() const { return !address_.empty(); }
  // REQUIRES: is_listening().
  const std::string& address() const { return address_; }
  uint16_t http_port() const { return http_port_; }
  test::Process& process() { return process_; }

  // Waits until it ends; returns the exit code as Process does.
  int WaitForEnd();
  // Sends SIGTERM and returns the exit code.
  int Stop();

 private:
  explicit DirectorProcess(const std::vector<std::string>& command);

  test::Process process_;
  std::string address_;
  uint16_t http_port_ = 0;
};

}  // namespace callboard::crash

#endif  // CALLBOARD_TESTS_CRASH_DIRECTOR_PROCESS_H_
