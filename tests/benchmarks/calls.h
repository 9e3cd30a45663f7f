// Calls and messages per second, of whatever service.
#ifndef CALLBOARD_TESTS_BENCHMARKS_CALLS_H_
#define CALLBOARD_TESTS_BENCHMARKS_CALLS_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "libs/base/check.h"
#include "libs/base/mutex.h"
#include "libs/ports/clock.h"

namespace callboard::benchmarks {

// A figure is taken over so long, after so much to warm up.
struct Timing {
  absl::Duration warm_up = absl::Milliseconds(500);
  absl::Duration measured = absl::Seconds(3);
};

// How often something happened, over time.
class Meter {
 public:
  explicit Meter(const ports::Clock& clock) : clock_(clock) {}

  void Count(uint64_t more = 1) { count_.fetch_add(more, std::memory_order_relaxed); }
  // Waits, and returns the rate per second meanwhile.
  double Rate(const Timing& timing) const {
    Wait(timing.warm_up);
    const uint64_t before = count_;
    const absl::Duration began = clock_.MonotonicNow();
    Wait(timing.measured);
    return static_cast<double>(count_ - before) /
           absl::ToDoubleSeconds(clock_.MonotonicNow() - began);
  }

 private:
  static void Wait(absl::Duration time) {
    base::Mutex mutex;
    base::CondVar never;
    base::MutexLock lock(mutex);
    never.WaitFor(mutex, time, [] { return false; });
  }

  const ports::Clock& clock_;
  std::atomic<uint64_t> count_ = 0;
};

// Keeps so many calls under way until it ends.
class Callers {
 public:
  // Begins one call, and tells when it has its answer.
  using Call = std::function<void(std::function<void()> answered)>;

  Callers(int outstanding, Call call, Meter& meter) : call_(std::move(call)), meter_(meter) {
    under_way_ = outstanding;
    for (int i = 0; i < outstanding; ++i) Next();
  }
  ~Callers() {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    while (under_way_ > 0) changed_.Wait(mutex_);
  }

 private:
  void Next() {
    call_([this] {
      meter_.Count();
      {
        base::MutexLock lock(mutex_);
        if (stopping_) {
          --under_way_;
          changed_.NotifyAll();
          return;
        }
      }
      Next();
    });
  }

  const Call call_;
  Meter& meter_;
  base::Mutex mutex_;
  base::CondVar changed_;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

// A unary call as Callers make it: `start` begins it.
template <class Request, class Response, class Start>
Callers::Call UnaryCall(Request request, Start start) {
  struct Flight {
    grpc::ClientContext context;
    Response response;
  };
  return [request = std::make_shared<const Request>(std::move(request)),
          start](std::function<void()> answered) {
    auto flight = std::make_shared<Flight>();
    Flight& here = *flight;
    start(&here.context, request.get(), &here.response,
          [flight = std::move(flight), answered = std::move(answered)](const grpc::Status& status) {
            CHECK(status.ok()) << status.error_message();
            answered();
          });
  };
}

// Sends items over one stream, so many of them unanswered at most, until it ends.
template <class Request, class Response>
class Streamer final : public grpc::ClientBidiReactor<Request, Response> {
 public:
  struct Shape {
    int window = 1024;
    // Items in a message at most.
    int batch = 1;
    // Puts so many items into a message.
    std::function<void(Request&, int items)> fill = {};
    // Items that a message answers.
    std::function<int(const Response&)> answered = {};
  };

  // `open` begins the call.
  template <class Open>
  Streamer(const Open& open, Shape shape, Meter& meter) : shape_(std::move(shape)), meter_(meter) {
    open(&context_, this);
    this->StartRead(&response_);
    this->AddHold();
    this->StartCall();
    base::MutexLock lock(mutex_);
    Write();
  }
  ~Streamer() override {
    base::MutexLock lock(mutex_);
    context_.TryCancel();
    while (!done_) changed_.Wait(mutex_);
  }

 private:
  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const int items = std::min(shape_.window - unanswered_, shape_.batch);
    if (writing_ || over_ || items <= 0) return;
    writing_ = true;
    unanswered_ += items;
    request_.Clear();
    shape_.fill(request_, items);
    this->StartWrite(&request_);
  }
  void OnWriteDone(bool ok) override {
    base::MutexLock lock(mutex_);
    writing_ = false;
    if (ok) Write();
  }
  void OnReadDone(bool ok) override {
    {
      base::MutexLock lock(mutex_);
      if (ok) {
        const int items = shape_.answered(response_);
        meter_.Count(static_cast<uint64_t>(items));
        unanswered_ -= items;
        Write();
      } else {
        over_ = true;
      }
    }
    if (ok) {
      this->StartRead(&response_);
    } else {
      this->RemoveHold();
    }
  }
  void OnDone(const grpc::Status&) override {
    base::MutexLock lock(mutex_);
    done_ = true;
    changed_.NotifyAll();
  }

  const Shape shape_;
  Meter& meter_;
  grpc::ClientContext context_;
  Response response_;

  base::Mutex mutex_;
  base::CondVar changed_;
  Request request_ ABSL_GUARDED_BY(mutex_);
  int unanswered_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace callboard::benchmarks

#endif  // CALLBOARD_TESTS_BENCHMARKS_CALLS_H_
