#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_SLICE_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_SLICE_H_

#include <rocksdb/slice.h>

#include "absl/strings/string_view.h"

namespace callboard::adapters {

inline absl::string_view ToView(const rocksdb::Slice& slice) {
  return {slice.data(), slice.size()};
}
inline rocksdb::Slice ToSlice(absl::string_view text) { return {text.data(), text.size()}; }

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_SLICE_H_
