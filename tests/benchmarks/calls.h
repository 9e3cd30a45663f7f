// Measures calls and messages per second of any service.
#ifndef CALLBOARD_TESTS_BENCHMARKS_CALLS_H_
#define CALLBOARD_TESTS_BENCHMARKS_CALLS_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "libs/base/check.h"
#include "libs/base/mutex.h"
#include "libs/ports/environment.h"

namespace callboard::benchmarks {

// Duration of a measurement and of the warm-up before it.
struct Timing {
  absl::Duration warm_up;
  absl::Duration measured;
};

// Counts events of several threads.
class Meter {
 public:
  void Count(uint64_t more = 1) { count_.fetch_add(more, std::memory_order_relaxed); }
  uint64_t count() const { return count_; }

 private:
  std::atomic<uint64_t> count_ = 0;
};

inline void Wait(absl::Duration time) {
  base::Mutex mutex;
  base::CondVar never;
  base::MutexLock lock(mutex);
  never.WaitFor(mutex, time, [] { return false; });
}

struct Rate {
  double per_second = 0;
  // Processor time of each.
  double cpu_micros = 0;
};
// Measures how fast `count` grows. `cpu_seconds` returns the processor time used so far.
inline Rate MeasureRate(const ports::Clock& clock, const Timing& timing,
                        absl::FunctionRef<uint64_t()> count,
                        absl::FunctionRef<double()> cpu_seconds) {
  Wait(timing.warm_up);
  const uint64_t count_before = count();
  const double cpu_before = cpu_seconds();
  const absl::Duration began = clock.MonotonicNow();
  Wait(timing.measured);
  const auto counted = static_cast<double>(count() - count_before);
  return {counted / absl::ToDoubleSeconds(clock.MonotonicNow() - began),
          (cpu_seconds() - cpu_before) / counted * 1e6};
}

// Keeps `outstanding` calls in flight until destruction.
class Callers {
 public:
  // Starts one call, and calls `answered` when it has its answer.
  using Call = std::function<void(std::function<void()> answered)>;

  Callers(int outstanding, Call call, Meter& meter) : call_(std::move(call)), meter_(meter) {
    in_flight_ = outstanding;
    for (int i = 0; i < outstanding; ++i) Next();
  }
  ~Callers() {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    while (in_flight_ > 0) changed_.Wait(mutex_);
  }

 private:
  void Next() {
    call_([this] {
      meter_.Count();
      {
        base::MutexLock lock(mutex_);
        if (stopping_) {
          --in_flight_;
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
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

// Returns a unary call for Callers: `start` starts it.
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

// Sends items over one stream, with a bounded number of unanswered items, until `limit` items are
// sent or it is destroyed.
template <class Request, class Response>
class Streamer final : public grpc::ClientBidiReactor<Request, Response> {
 public:
  struct Options {
    int window = 1024;
    // Maximum number of items in a message.
    int batch = 1;
    uint64_t limit = std::numeric_limits<uint64_t>::max();
    // Puts `items` items into a message.
    std::function<void(Request&, int items)> fill = {};
    // Returns the number of items that a message answers.
    std::function<int(const Response&)> answered = {};
  };

  // `open` starts the call.
  template <class Open>
  Streamer(const Open& open, Options options, Meter& meter)
      : options_(std::move(options)), meter_(meter) {
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
    const auto unsent =
        static_cast<int>(std::min<uint64_t>(options_.limit - sent_, options_.batch));
    const int items = std::min(options_.window - unanswered_, unsent);
    if (writing_ || ended_ || items <= 0) return;
    writing_ = true;
    unanswered_ += items;
    sent_ += static_cast<uint64_t>(items);
    request_.Clear();
    options_.fill(request_, items);
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
        const int items = options_.answered(response_);
        meter_.Count(static_cast<uint64_t>(items));
        unanswered_ -= items;
        Write();
      } else {
        ended_ = true;
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

  const Options options_;
  Meter& meter_;
  grpc::ClientContext context_;
  Response response_;

  base::Mutex mutex_;
  base::CondVar changed_;
  Request request_ ABSL_GUARDED_BY(mutex_);
  int unanswered_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t sent_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace callboard::benchmarks

#endif  // CALLBOARD_TESTS_BENCHMARKS_CALLS_H_
