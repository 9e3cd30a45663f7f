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

// How much of a log of RocksDB is records: a crash leaves zeros behind them. Each has a header, of
// a checksum, its length in two bytes and its kind, and none begins in the last bytes of a block.
inline size_t RecordsBytes(const std::filesystem::path& log) {
  constexpr size_t kBlockBytes = 32 << 10;
  constexpr size_t kHeaderBytes = 7;
  const std::string text = FileText(log);
  const auto byte = [&text](size_t at) { return static_cast<unsigned char>(text[at]); };
  size_t at = 0;
  while (at + kHeaderBytes <= text.size()) {
    const size_t left = kBlockBytes - at % kBlockBytes;
    const size_t length = byte(at + 4) + (size_t{byte(at + 5)} << 8);
    if (left < kHeaderBytes) {
      at += left;
    } else if (length == 0 && byte(at + 6) == 0) {
      return at;
    } else {
      at += kHeaderBytes + length;
    }
  }
  return at;
}

// At a share of its length, or of its records if it is a log.
inline void FlipBit(const std::filesystem::path& path, double place) {
  const size_t bytes =
      path.extension() == ".log" ? RecordsBytes(path) : std::filesystem::file_size(path);
  FlipBitAt(path, static_cast<size_t>(place * static_cast<double>(bytes)));
}

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_DAMAGE_H_
