#include "tests/e2e/chaos_load.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/core/hash.h"

namespace callboard::e2e {
namespace {

constexpr int kClients = 2;

template <class T>
std::optional<T> AnyOf(const std::vector<T>& all, test::FakeRandom& random) {
  if (all.empty()) return std::nullopt;
  return all[random.Below(all.size())];
}

}  // namespace

ChaosLoad::ChaosLoad(Cluster& cluster, uint64_t seed) : cluster_(cluster) {
  for (int i = 0; i < kClients; ++i) {
    const test::FakeRandom random(
        core::StableHash().Add(seed).Add(static_cast<uint64_t>(i)).value());
    threads_.emplace_back([this, i, random] { Run(i, random); });
  }
}

ChaosLoad::~ChaosLoad() { Stop(); }

void ChaosLoad::Stop() {
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void ChaosLoad::Finish() {
  Stop();
  base::MutexLock lock(mutex_);
  // Repeats all submits, as clients do that got no answer.
  for (const v1::SubmitTaskRequest& request : requests_) cluster_.client().Submit(request);
}

void ChaosLoad::Run(int number, test::FakeRandom random) {
  for (uint64_t i = 0; Wait(absl::Milliseconds(100 + random.Below(600))); ++i) {
    const uint64_t choice = random.Below(10);
    if (choice < 7) {
      const v1::SubmitTaskRequest request = RandomTask(absl::StrCat(number, "/", i), random);
      {
        base::MutexLock lock(mutex_);
        requests_.push_back(request);
      }
      Submit(request);
      continue;
    }
    std::optional<v1::SubmitTaskRequest> again;
    std::optional<std::string> queue_id;
    {
      base::MutexLock lock(mutex_);
      again = AnyOf(requests_, random);
      queue_id = AnyOf(accepted_, random);
    }
    if (choice < 9 && again.has_value()) {
      Submit(*again);
    } else if (queue_id.has_value()) {
      cluster_.client().TryCancel(*queue_id).IgnoreError();
    }
  }
}

bool ChaosLoad::Wait(absl::Duration time) {
  base::MutexLock lock(mutex_);
  return !changed_.WaitFor(mutex_, time,
                           [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; });
}

v1::SubmitTaskRequest ChaosLoad::RandomTask(const std::string& request_id,
                                            test::FakeRandom& random) const {
  const uint64_t kind = random.Below(20);
  const bool fails = kind < 4;
  const bool is_retried = kind < 2;
  const bool lasts_too_long = kind == 4;
  // Its lease may end long before the run.
  const bool lasts_long = kind == 5;
  const uint64_t tenths = lasts_long ? 150 : lasts_too_long ? 10'000 : random.Below(20);
  v1::SubmitTaskRequest request;
  request.set_prompt(cluster_.record().Script(
      absl::StrCat("sleep ", tenths / 10, ".", tenths % 10, fails ? "; exit 7" : "")));
  request.set_request_id(request_id);
  if (is_retried) request.add_retry_on("exit:7");
  if (lasts_too_long) request.set_timeout_seconds(1);
  request.set_max_attempts(static_cast<uint32_t>(1 + random.Below(6)));
  request.set_on_agent_lost(random.Chance(0.7) ? v1::ON_AGENT_LOST_REQUEUE
                                               : v1::ON_AGENT_LOST_FAIL);
  if (random.Chance(0.2)) request.set_session_id(absl::StrCat("session-", random.Below(3)));
  return request;
}

void ChaosLoad::Submit(const v1::SubmitTaskRequest& request) {
  absl::StatusOr<std::string> queue_id = cluster_.client().TrySubmit(request);
  if (!queue_id.ok()) return;
  base::MutexLock lock(mutex_);
  accepted_.push_back(*std::move(queue_id));
}

}  // namespace callboard::e2e
