#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_FIXTURE_RECORDS_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_FIXTURE_RECORDS_H_

#include <vector>

#include "libs/core/record.h"

namespace callboard::adapters {

// What testdata/format_1 holds: every kind of record, with something in every field that there was
// when it was written. Never changed.
std::vector<core::Record> Format1Records();
// What testdata/format_2 holds, likewise.
std::vector<core::Record> Format2Records();

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_FIXTURE_RECORDS_H_
