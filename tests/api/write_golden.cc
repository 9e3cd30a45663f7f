#include <fstream>
#include <iostream>

#include "tests/api/golden.h"

// Writes the golden files into the folder that is the one argument.
int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "run: bazel run //tests/api:write_golden -- \"$PWD/tests/api/golden\"\n";
    return 2;
  }
  for (const auto& [name, examples] : callboard::ApiExamples()) {
    std::ofstream file(std::string(argv[1]) + "/" + name);
    if (!(file << callboard::GoldenText(examples)).flush()) {
      std::cerr << "cannot write " << name << " in " << argv[1] << "\n";
      return 1;
    }
  }
  return 0;
}
