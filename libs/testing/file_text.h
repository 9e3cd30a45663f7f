#ifndef CALLBOARD_LIBS_TESTING_FILE_TEXT_H_
#define CALLBOARD_LIBS_TESTING_FILE_TEXT_H_

#include <fstream>
#include <sstream>
#include <string>

namespace callboard::test {

// What the file at `path` holds; empty when there is none.
inline std::string FileText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_FILE_TEXT_H_
