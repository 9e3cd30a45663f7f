#ifndef CALLBOARD_LIBS_SCHEDULER_DRIVER_H_
#define CALLBOARD_LIBS_SCHEDULER_DRIVER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/core/firing.h"
#include "libs/core/job.h"
#include "libs/scheduler/engine.h"
#include "libs/scheduler/ledger.h"
#include "libs/scheduler/scheduler.h"

namespace callboard::scheduler {

// A job with what became of its last occurrences, the last first.
struct JobDetail {
  JobView view;
  std::vector<core::Firing> last = {};
};

// By name. Where `next` is present there may be more behind it.
struct JobPage {
  std::vector<JobView> jobs = {};
  std::optional<std::string> next = {};
};

struct Resumed {
  JobView view;
  // Occurrences that fell into the pause, and will not run.
  uint64_t skipped = 0;
};

struct PreviewQuery {
  std::string job = {};
  absl::Time from = {};
  absl::Time until = absl::InfiniteFuture();
  size_t limit = 10;
};

// With what the time zone does to them; those that do not fire included.
struct Preview {
  std::string time_zone = {};
  std::vector<core::Occurrence> occurrences = {};
};

// A Scheduler and its thread, which also commits to and reads from the ledger.
//
// Thread-safe. No call blocks: each is answered through its callback, once, on the driver's thread
// or, when it is refused, on the caller's: UNAVAILABLE/OVERLOADED when too many wait,
// STORE_UNAVAILABLE or OUTCOME_UNKNOWN when the ledger fails. A callback must not block, nor
// destroy the driver.
class SchedulerDriver {
 public:
  template <class T>
  using Reply = DirectorLink::Reply<T>;

  // Calls that may wait for a turn; more are refused.
  static constexpr size_t kCallsWaitingMax = 4096;
  // How many occurrences a job shows, in both directions.
  static constexpr size_t kShownMax = 10;

  // Recovers before it returns. The ledger's error when it cannot be opened or trusted. Nothing
  // happens before the first SetJobs().
  static absl::StatusOr<std::unique_ptr<SchedulerDriver>> Open(const World& world);
  // Takes one last turn, so that every call is answered.
  ~SchedulerDriver();
  SchedulerDriver(const SchedulerDriver&) = delete;
  SchedulerDriver& operator=(const SchedulerDriver&) = delete;

  // The jobs of the file, with the next turn. Never refused. REQUIRES: as SchedulerEngine's.
  void SetJobs(std::vector<core::Job> jobs);

  // NOT_FOUND/JOB_NOT_FOUND, as all that name a job.
  void GetJob(std::string name, Reply<JobDetail> reply);
  void ListJobs(std::string after, size_t page_size, Reply<JobPage> reply);
  void GetStatus(Reply<StatusView> reply);
  void PreviewJob(PreviewQuery query, Reply<Preview> reply);
  // Of a job that is not in the file any more as well, for as long as it is remembered.
  void ListFirings(const FiringQuery& query, Reply<FiringPage> reply);
  // Each as SchedulerEngine's.
  void Trigger(TriggerQuery query, Reply<Accepted> reply);
  void PauseJob(std::string name, Pause pause, Reply<JobView> reply);
  void ResumeJob(std::string name, Reply<Resumed> reply);
  void StartBackfill(BackfillQuery query, Reply<Backfill> reply);

 private:
  // What waits for a turn. Outlives the driver in the hands of the director's link, and takes
  // nothing any more then.
  struct Inbox {
    base::Mutex mutex;
    base::CondVar something_to_do;
    std::vector<Call> waiting ABSL_GUARDED_BY(mutex);
    std::optional<std::vector<core::Job>> jobs ABSL_GUARDED_BY(mutex);
    bool stopping ABSL_GUARDED_BY(mutex) = false;
    bool closed ABSL_GUARDED_BY(mutex) = false;
  };

  explicit SchedulerDriver(const World& world);

  // Decides with `decide`, and answers what that returns.
  template <class T, class Decide>
  void Ask(Decide decide, Reply<T> reply);
  // The same, and answers what `read` finds in the ledger after the turn.
  template <class T, class Decide, class Read>
  void AskAndRead(Decide decide, Read read, Reply<T> reply);
  void Add(Call call);
  void Run();

  const std::shared_ptr<Inbox> inbox_;
  // Touched by the thread only.
  Scheduler scheduler_;
  std::thread thread_;
};

}  // namespace callboard::scheduler

#endif  // CALLBOARD_LIBS_SCHEDULER_DRIVER_H_
