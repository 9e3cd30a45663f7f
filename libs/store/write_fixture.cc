// Writes a data folder of the current format, for testdata:
//
//   bazel run //libs/store:write_fixture -- <empty folder>

#include <iostream>

#include "absl/types/span.h"
#include "libs/base/check.h"
#include "libs/store/fixture_records.h"
#include "libs/store/rocksdb_store.h"

int main(int argc, char** argv) {
  using callboard::core::Record;
  if (argc != 2) {
    std::cerr << "usage: write_fixture <empty folder>\n";
    return 2;
  }
  const auto opener = callboard::store::RocksDbStoreOpener::Lock({argv[1]});
  CHECK_OK(opener.status());
  const std::vector<Record> records = callboard::store::Format3Records();
  const absl::Span<const Record> all(records);
  // The second opening moves the first half into a table; the second half stays in the log.
  for (const auto part : {all.subspan(0, all.size() / 2), all.subspan(all.size() / 2)}) {
    const auto store = (*opener)->Open(callboard::ports::StoreAccess::kReadWrite);
    CHECK_OK(store.status());
    CHECK_OK((*store)->Commit(part));
  }
  return 0;
}
