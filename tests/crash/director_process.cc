#include "tests/crash/director_process.h"

#include <signal.h>

#include <optional>

#include "absl/time/time.h"
#include "libs/base/check.h"
#include "libs/testing/running_server.h"

namespace callboard::crash {
namespace {

std::vector<std::string> Command(const std::filesystem::path& data_dir,
                                 const std::vector<std::string>& flags) {
  std::vector<std::string> command =
      test::ServerCommand("services/director/callboard-director", flags);
  command.push_back("--data_dir=" + data_dir.string());
  return command;
}

std::vector<std::string> CommandOnDisk(const Disk& disk, const std::vector<std::string>& flags) {
  std::vector<std::string> command = {"/usr/bin/env"};
  for (const std::string& variable : disk.environment()) command.push_back(variable);
  for (const std::string& word : Command(disk.data_dir(), flags)) command.push_back(word);
  return command;
}

}  // namespace

DirectorProcess::DirectorProcess(const std::filesystem::path& data_dir,
                                 const std::vector<std::string>& flags)
    : DirectorProcess(Command(data_dir, flags)) {}

DirectorProcess::DirectorProcess(const Disk& disk, const std::vector<std::string>& flags)
    : DirectorProcess(CommandOnDisk(disk, flags)) {}

DirectorProcess::DirectorProcess(const std::vector<std::string>& command) : process_(command) {
  const std::optional<std::string> line = process_.WaitForLineOrEnd("server=listening");
  if (!line.has_value()) return;
  address_ = test::FieldOf(*line, "grpc");
  http_port_ = test::PortOf(test::FieldOf(*line, "http"));
}

int DirectorProcess::WaitForEnd() {
  const std::optional<int> code = process_.WaitForExit(absl::Minutes(1));
  CHECK(code.has_value()) << process_.Output();
  return *code;
}

int DirectorProcess::Stop() {
  process_.Signal(SIGTERM);
  return WaitForEnd();
}

}  // namespace callboard::crash
