#ifndef CALLBOARD_LIBS_TESTING_FAKE_AGENT_LINK_H_
#define CALLBOARD_LIBS_TESTING_FAKE_AGENT_LINK_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "libs/base/mutex.h"
#include "libs/ports/agent_link.h"

namespace callboard::test {

// A link that keeps what is said for the test, and tells nobody. Thread-safe.
class FakeAgentLink final : public ports::AgentLink {
 public:
  struct Said {
    core::SessionId session;
    core::DirectorItem item;
    // What was said together has the same number.
    size_t message = 0;
  };

  void Say(core::SessionId session, std::vector<core::DirectorItem> items) override {
    base::MutexLock lock(mutex_);
    ++messages_;
    for (core::DirectorItem& item : items) {
      said_.push_back({session, std::move(item), messages_});
    }
  }
  void Redial(uint64_t director_epoch) override {
    base::MutexLock lock(mutex_);
    epochs_.push_back(director_epoch);
  }

  std::vector<Said> TakeSaid() {
    base::MutexLock lock(mutex_);
    return std::exchange(said_, {});
  }
  // In whose names the agents were dialled.
  std::vector<uint64_t> epochs() const {
    base::MutexLock lock(mutex_);
    return epochs_;
  }

 private:
  mutable base::Mutex mutex_;
  size_t messages_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Said> said_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> epochs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_FAKE_AGENT_LINK_H_
