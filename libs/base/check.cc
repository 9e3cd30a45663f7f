#include "libs/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace callboard::base::internal {

CheckFailure::CheckFailure(const char* file, int line, const std::string& expression) {
  stream_ << file << ":" << line << ": check failed: " << expression << " ";
}

CheckFailure::~CheckFailure() {
  // Does not use the logger, because the logger may be broken.
  std::fprintf(stderr, "%s\n", stream_.str().c_str());
  std::abort();
}

}  // namespace callboard::base::internal
