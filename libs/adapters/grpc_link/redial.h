#ifndef CALLBOARD_LIBS_ADAPTERS_GRPC_LINK_REDIAL_H_
#define CALLBOARD_LIBS_ADAPTERS_GRPC_LINK_REDIAL_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace callboard::adapters::internal {

// How long to wait before an agent is dialled again after so many failures in a row: twice as long
// each time, from `min` to `max`. Half of it depends on the address, so that agents which were lost
// together are not dialled together.
absl::Duration RedialAfter(absl::string_view address, uint32_t failures, absl::Duration min,
                           absl::Duration max);

// The longest wait when so many addresses wait to be dialled: `max`, or longer where all of them
// together would be dialled more than `per_second` times a second.
absl::Duration LongestRedial(size_t waiting, uint32_t per_second, absl::Duration max);

// First dials of addresses: at most `per_second`, and a second's worth of them at once.
class FirstDials {
 public:
  explicit FirstDials(uint32_t per_second) : period_(absl::Seconds(1) / per_second) {}

  // Whether one more may be made now; then it counts as made.
  bool Take(absl::Duration now);

 private:
  const absl::Duration period_;
  // Until then, at that rate, those that were made would have lasted.
  absl::Duration made_until_ = -absl::InfiniteDuration();
};

// One Session, from the dialling to its end.
struct DialledSession {
  bool opened = false;
  // The agent answered a start or brought a result.
  bool did_work = false;
  absl::Duration stood = {};
};

// How long a Session that did work stands at least. An agent that repeats an old result and breaks
// its Session at once is redialled as one that did nothing.
inline constexpr absl::Duration kWorkTakes = absl::Seconds(1);

// Failures in a row after a Session has ended. A Session that opens and breaks at once is a failure
// like one that cannot be opened. One that stood for `max`, or did work and stood for kWorkTakes,
// is not.
uint32_t FailuresAfter(const DialledSession& session, uint32_t failures, absl::Duration max);

}  // namespace callboard::adapters::internal

#endif  // CALLBOARD_LIBS_ADAPTERS_GRPC_LINK_REDIAL_H_
