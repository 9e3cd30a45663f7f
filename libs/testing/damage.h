// Damage to the files of a store.
#ifndef CALLBOARD_LIBS_TESTING_DAMAGE_H_
#define CALLBOARD_LIBS_TESTING_DAMAGE_H_

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

#include "libs/testing/file_text.h"

namespace callboard::test {

// The file of the database in the data folder that was created last, by its ending.
inline std::filesystem::path NewestFile(const std::filesystem::path& data_dir,
                                        const std::string& extension) {
  std::filesystem::path newest;
  for (const auto& entry : std::filesystem::directory_iterator(data_dir / "events")) {
    if (entry.path().extension() == extension) newest = std::max(newest, entry.path());
  }
  return newest;
}

inline void FlipBitAt(const std::filesystem::path& path, size_t offset) {
  std::string text = FileText(path);
  text.at(offset) ^= 4;
  std::ofstream(path, std::ios::binary) << text;
}

// At a share of its length.
inline void FlipBit(const std::filesystem::path& path, double place) {
  const auto size = static_cast<double>(std::filesystem::file_size(path));
  FlipBitAt(path, static_cast<size_t>(place * size));
}

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_DAMAGE_H_
