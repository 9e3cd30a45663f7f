// Numbers as 8 bytes that sort as they do.
#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_BIG_ENDIAN_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_BIG_ENDIAN_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace callboard::adapters {

inline constexpr size_t kNumberBytes = 8;

inline void AppendBigEndian(uint64_t number, std::string& bytes) {
  char digits[kNumberBytes];
  for (size_t i = 0; i < kNumberBytes; ++i) {
    digits[i] = static_cast<char>(number >> 8 * (kNumberBytes - 1 - i));
  }
  bytes.append(digits, kNumberBytes);
}

// Of the first 8. REQUIRES: there are as many.
inline uint64_t ReadBigEndian(absl::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < kNumberBytes; ++i) number = number << 8 | static_cast<uint8_t>(bytes[i]);
  return number;
}

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_BIG_ENDIAN_H_
