#include "tests/faults/steady_load.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/crash/load.h"

namespace callboard::faults {
namespace {

using crash::Call;
using crash::QueueClient;

constexpr absl::Duration kBetweenCalls = absl::Milliseconds(5);

}  // namespace

SteadyLoad::SteadyLoad(const SteadyLoadOptions& options, const std::string& address)
    : options_(options), address_(address) {
  for (int i = 0; i < options_.clients; ++i) threads_.emplace_back([this, i] { Run(i); });
}

SteadyLoad::~SteadyLoad() { Stop(); }

void SteadyLoad::AwaitAcknowledged(uint64_t more) {
  base::MutexLock lock(mutex_);
  const uint64_t target = acknowledged_ + more;
  while (acknowledged_ < target) changed_.Wait(mutex_);
}

crash::History SteadyLoad::Stop() {
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  base::MutexLock lock(mutex_);
  return history_;
}

void SteadyLoad::Run(int number) {
  auto client = std::make_unique<QueueClient>(address_);
  for (int i = 0; Pause(); ++i) {
    const std::string request_id = absl::StrCat(number, "/", i);
    Call call = Submit(*client, request_id);
    // A client without an answer repeats the submit with the same request id over a new connection,
    // because gRPC needs time to repair the old one.
    while (call.answer == Call::Answer::kUnknown && Pause()) {
      client = std::make_unique<QueueClient>(address_);
      call = Submit(*client, request_id);
    }
    if (call.answer != Call::Answer::kDone) continue;
    if (options_.cancels && i % 4 == 3) Cancel(*client, call.queue_id);
    if (i % 16 == 15) List(*client);
  }
}

Call SteadyLoad::Submit(QueueClient& client, const std::string& request_id) {
  const Call call = {.request_id = request_id,
                     .content = absl::StrCat(options_.prompt, " ", request_id)};
  Call answered = crash::Resubmit(call, client, [this] { return Tick(); });
  Record(answered);
  return answered;
}

void SteadyLoad::Cancel(QueueClient& client, const std::string& queue_id) {
  Call call = {.kind = Call::Kind::kCancel, .invoked = Tick(), .queue_id = queue_id};
  call.answer = crash::AnswerFrom(client.Cancel(queue_id));
  if (call.answer != Call::Answer::kUnknown) call.answered = Tick();
  Record(std::move(call));
}

void SteadyLoad::List(QueueClient& client) {
  Call call = {.kind = Call::Kind::kList, .invoked = Tick()};
  absl::StatusOr<std::vector<std::string>> queue = client.ListQueue();
  call.answer = crash::AnswerFrom(queue.status());
  if (!queue.ok()) return;
  call.answered = Tick();
  call.queue = *std::move(queue);
  Record(std::move(call));
}

bool SteadyLoad::Pause() {
  base::MutexLock lock(mutex_);
  return !changed_.WaitFor(mutex_, kBetweenCalls,
                           [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; });
}

void SteadyLoad::Record(Call call) {
  base::MutexLock lock(mutex_);
  const bool is_submit = call.kind == Call::Kind::kSubmit;
  acknowledged_ += is_submit && call.answer == Call::Answer::kDone ? 1 : 0;
  history_.push_back(std::move(call));
  changed_.NotifyAll();
}

}  // namespace callboard::faults
