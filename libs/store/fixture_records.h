#ifndef CALLBOARD_LIBS_STORE_FIXTURE_RECORDS_H_
#define CALLBOARD_LIBS_STORE_FIXTURE_RECORDS_H_

#include <vector>

#include "libs/core/record.h"

namespace callboard::store {

// Returns the records in testdata/format_3: every kind of record, with a value in every field that
// existed when the folder was written. Never change them.
std::vector<core::Record> Format3Records();

}  // namespace callboard::store

#endif  // CALLBOARD_LIBS_STORE_FIXTURE_RECORDS_H_
