#include "libs/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace callboard::base::internal {

CheckFailure::CheckFailure(const char* file, int line, const std::string& what) {
  stream_ << file << ":" << line << ": check failed: " << what << " ";
}

CheckFailure::~CheckFailure() {
  // Straight to stderr: the logger may be what is broken.
  std::fprintf(stderr, "%s\n", stream_.str().c_str());
  std::abort();
}

}  // namespace callboard::base::internal
