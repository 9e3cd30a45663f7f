#ifndef CALLBOARD_LIBS_TESTING_NEW_FOLDER_H_
#define CALLBOARD_LIBS_TESTING_NEW_FOLDER_H_

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>

namespace callboard::test {

// An empty folder that no other call returns. Thread-safe.
inline std::filesystem::path NewFolder() {
  static std::atomic<int> folders = 0;
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("folder_" + std::to_string(++folders));
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_NEW_FOLDER_H_
