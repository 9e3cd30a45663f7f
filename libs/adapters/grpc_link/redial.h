#ifndef CALLBOARD_LIBS_ADAPTERS_GRPC_LINK_REDIAL_H_
#define CALLBOARD_LIBS_ADAPTERS_GRPC_LINK_REDIAL_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace callboard::adapters::internal {

// How long to wait before an agent is dialled again after so many failures in a row: twice as long
// each time, from `min` to `max`. Half of it depends on the address, so that agents which were lost
// together are not dialled together.
absl::Duration RedialAfter(absl::string_view address, uint32_t failures, absl::Duration min,
                           absl::Duration max);

}  // namespace callboard::adapters::internal

#endif  // CALLBOARD_LIBS_ADAPTERS_GRPC_LINK_REDIAL_H_
