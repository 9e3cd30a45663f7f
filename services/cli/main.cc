#include "libs/runner/launcher.h"
#include "services/cli/command_line.h"

int main(int argc, char** argv) {
  // `callboard dev` runs agents.
  if (const auto code = callboard::runner::MaybeRunLauncher(argc, argv)) return *code;
  return callboard::cli::RunCommandLine(std::span<const char* const>(argv, argc).subspan(1));
}
