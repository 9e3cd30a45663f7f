#ifndef CALLBOARD_LIBS_DIRECTOR_OBSERVER_H_
#define CALLBOARD_LIBS_DIRECTOR_OBSERVER_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace callboard::director {

// What a director does for who asks: nothing while its store is away, only reads on a full disk.
enum class Service { kNone, kReadOnly, kFull };

// Hears how a director fares, on its threads, of which it must block none.
class Observer {
 public:
  virtual ~Observer() = default;

  // After every opening of the store, and when it fails; `why` when it is less than kFull.
  virtual void OnService(Service service, const absl::Status& why) = 0;
  // A batch is on disk.
  virtual void OnCommit(size_t records, absl::Duration took) = 0;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_OBSERVER_H_
