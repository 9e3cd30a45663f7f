// Bytes and files for tests: random byte strings, new folders, file contents, and damage to the
// files of a store.

#ifndef CALLBOARD_LIBS_TESTING_FILES_H_
#define CALLBOARD_LIBS_TESTING_FILES_H_

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "libs/core/limits.h"

namespace callboard::test {

// Draws a string of valid and broken UTF-8 characters, often close to the size limit of an error.
//
// REQUIRES: called inside a RapidCheck property.
inline std::string DrawBytes() {
  const std::string piece = *rc::gen::element<std::string>(
      "a", "ä", "€", "\xf0\x9f\x99\x82", "\xff", "\xc3", "\xe2\x82", "\x80", "\x1b");
  const size_t bytes = *rc::gen::element<size_t>(0, 1, core::kNameBytesMax, core::kErrorBytesMax,
                                                 core::kErrorBytesMax + 1, core::kResultBytesMax);
  std::string text = *rc::gen::element<std::string>("", "x", "xy", "xyz");
  while (text.size() < bytes) text += piece;
  return text;
}

// Returns whether a client can parse `message`.
template <class Message>
bool Parses(const Message& message) {
  Message parsed;
  return parsed.ParseFromString(message.SerializeAsString());
}

// Returns the content of the file at `path`; empty when there is no such file.
inline std::string FileText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Creates an empty folder that no other call returns. Thread-safe.
inline std::filesystem::path NewFolder() {
  static std::atomic<int> folders = 0;
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("folder_" + std::to_string(++folders));
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

// Returns the newest file of the database in `data_dir` that has this extension.
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

// Returns the size of the records in a RocksDB log: a crash can leave zeros behind them. Each
// record has a header (checksum, two bytes of length, kind), and no record begins in the last bytes
// of a block.
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

// Flips a bit at the fraction `place` of the file, or of its records if the file is a log.
inline void FlipBit(const std::filesystem::path& path, double place) {
  const size_t bytes =
      path.extension() == ".log" ? RecordsBytes(path) : std::filesystem::file_size(path);
  FlipBitAt(path, static_cast<size_t>(place * static_cast<double>(bytes)));
}

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_FILES_H_
