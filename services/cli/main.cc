#include "services/cli/command_line.h"

int main(int argc, char** argv) {
  return callboard::cli::RunCommandLine(std::span<const char* const>(argv, argc).subspan(1));
}
