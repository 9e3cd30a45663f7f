// Writes a data folder of the current format, for testdata:
//
//   bazel run //libs/adapters/rocksdb_store:write_fixture -- <empty folder>

#include <iostream>

#include "absl/types/span.h"
#include "libs/adapters/rocksdb_store/fixture_records.h"
#include "libs/adapters/rocksdb_store/rocksdb_store.h"
#include "libs/base/check.h"

int main(int argc, char** argv) {
  using callboard::core::Record;
  if (argc != 2) {
    std::cerr << "usage: write_fixture <empty folder>\n";
    return 2;
  }
  const auto stores = callboard::adapters::RocksDbStores::Lock({argv[1]});
  CHECK_OK(stores.status());
  const std::vector<Record> records = callboard::adapters::Format2Records();
  const absl::Span<const Record> all(records);
  // The second opening moves what is there into a table; the rest stays in the log.
  for (const auto part : {all.subspan(0, all.size() / 2), all.subspan(all.size() / 2)}) {
    const auto store = (*stores)->Open(callboard::ports::StoreAccess::kReadWrite);
    CHECK_OK(store.status());
    CHECK_OK((*store)->Commit(part));
  }
  return 0;
}
