#ifndef CALLBOARD_LIBS_TESTING_FAKE_DIRECTOR_LINK_H_
#define CALLBOARD_LIBS_TESTING_FAKE_DIRECTOR_LINK_H_

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "libs/base/mutex.h"
#include "libs/scheduler/director_link.h"

namespace callboard::test {

// Keeps what a scheduler asks until a test answers it. Thread-safe.
class FakeDirectorLink final : public scheduler::DirectorLink {
 public:
  struct Asked {
    core::TaskSpec spec;
    Reply<scheduler::Accepted> reply;
    // Empty when it is a submit.
    std::string agent_url = {};
    core::SpanContext trace = {};
  };

  void Submit(const core::Submission& submission, Reply<scheduler::Accepted> reply) override {
    Add({submission.spec, std::move(reply), "", submission.trace});
  }
  void StartDirect(const std::string& agent_url, const core::Submission& submission,
                   Reply<scheduler::Accepted> reply) override {
    Add({submission.spec, std::move(reply), agent_url, submission.trace});
  }
  void AskEnds(std::vector<std::string>, Reply<std::vector<scheduler::TaskEnd>> reply) override {
    reply(ends_);
  }

  // The first that was asked; waits for one.
  Asked Take() {
    base::MutexLock lock(mutex_);
    while (asked_.empty()) changed_.Wait(mutex_);
    Asked first = std::move(asked_.front());
    asked_.pop_front();
    return first;
  }
  size_t size() const {
    base::MutexLock lock(mutex_);
    return asked_.size();
  }
  // What is said of every task. Before anybody asks.
  void SetEnds(std::vector<scheduler::TaskEnd> ends) { ends_ = std::move(ends); }

 private:
  void Add(Asked asked) {
    base::MutexLock lock(mutex_);
    asked_.push_back(std::move(asked));
    changed_.NotifyAll();
  }

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<Asked> asked_ ABSL_GUARDED_BY(mutex_);
  std::vector<scheduler::TaskEnd> ends_;
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_FAKE_DIRECTOR_LINK_H_
