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
#include "libs/core/job.h"
#include "libs/scheduler/engine.h"
#include "libs/scheduler/ledger.h"
#include "libs/scheduler/scheduler.h"

namespace callboard::scheduler {

// A job with its last firings, newest first.
struct JobDetail {
  JobView view;
  std::vector<core::Firing> last_firings = {};
};

// Jobs in order of their names. If `next` is present there may be more jobs after it.
struct JobPage {
  std::vector<JobView> jobs = {};
  std::optional<std::string> next = {};
};

struct ResumeResult {
  JobView view;
  // Occurrences that the pause skipped. They will not run.
  uint64_t skipped = 0;
};

struct PreviewQuery {
  std::string job = {};
  absl::Time from = {};
  absl::Time until = absl::InfiniteFuture();
  size_t limit = 10;
};

// Upcoming occurrences, including those that do not fire because of the time zone.
struct Preview {
  std::string time_zone = {};
  std::vector<core::Occurrence> occurrences = {};
};

// A Scheduler and its thread, which also commits to and reads from the ledger.
//
// Thread-safe. No method blocks. Each call is answered once through its callback: on the driver's
// thread or, if too many calls wait (UNAVAILABLE/OVERLOADED), on the caller's. If the ledger fails,
// the answer is STORE_UNAVAILABLE or OUTCOME_UNKNOWN. A callback must not block or destroy the
// driver.
class SchedulerDriver {
 public:
  template <class T>
  using Reply = DirectorLink::Reply<T>;

  // Commands that may wait for a turn. Further calls fail.
  static constexpr size_t kCommandsWaitingMax = 4096;
  // A job shows this many past and this many next occurrences.
  static constexpr size_t kOccurrencesShownMax = 10;

  // Restores the state and starts the thread. Returns the ledger's error if it cannot be opened or
  // is damaged. No job runs before the first SetJobs().
  static absl::StatusOr<std::unique_ptr<SchedulerDriver>> Open(const Deps& deps);
  // Runs one last turn, so that every call is answered.
  ~SchedulerDriver();
  SchedulerDriver(const SchedulerDriver&) = delete;
  SchedulerDriver& operator=(const SchedulerDriver&) = delete;

  // Replaces the jobs in the next turn. Never fails. REQUIRES: as SchedulerEngine::SetJobs().
  void SetJobs(std::vector<core::Job> jobs);

  // All methods that take the name of a job return NOT_FOUND/JOB_NOT_FOUND if there is none.
  void GetJob(std::string name, Reply<JobDetail> reply);
  void ListJobs(std::string after, size_t page_size, Reply<JobPage> reply);
  void GetStatus(Reply<StatusView> reply);
  void PreviewJob(PreviewQuery query, Reply<Preview> reply);
  // Also lists the firings of a removed job while it is remembered.
  void ListFirings(const FiringQuery& query, Reply<FiringPage> reply);
  // These are documented in SchedulerEngine.
  void Trigger(TriggerQuery query, Reply<AcceptedTask> reply);
  void PauseJob(std::string name, Pause pause, Reply<JobView> reply);
  void ResumeJob(std::string name, Reply<ResumeResult> reply);
  void StartBackfill(BackfillQuery query, Reply<Backfill> reply);

 private:
  // Commands that wait for a turn. Shared with the callbacks of the director's link, which may
  // outlive the driver. Commands that arrive after it is closed are dropped.
  struct Inbox {
    base::Mutex mutex;
    base::CondVar wake_up;
    std::vector<Command> waiting ABSL_GUARDED_BY(mutex);
    std::optional<std::vector<core::Job>> jobs ABSL_GUARDED_BY(mutex);
    bool stopping ABSL_GUARDED_BY(mutex) = false;
    bool closed ABSL_GUARDED_BY(mutex) = false;
  };

  explicit SchedulerDriver(const Deps& deps);

  // Queues a command that replies with the result of `decide`.
  template <class T, class Decide>
  void AddCommand(Decide decide, Reply<T> reply);
  // Queues a command that passes the result of `decide` to `read`, which reads the ledger after the
  // commit, and replies with its result.
  template <class T, class Decide, class Read>
  void AddCommandWithRead(Decide decide, Read read, Reply<T> reply);
  void Add(Command command);
  void Run();

  const std::shared_ptr<Inbox> inbox_;
  // Used by thread_ only.
  Scheduler scheduler_;
  std::thread thread_;
};

}  // namespace callboard::scheduler

#endif  // CALLBOARD_LIBS_SCHEDULER_DRIVER_H_
