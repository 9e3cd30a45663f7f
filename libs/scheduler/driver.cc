#include "libs/scheduler/driver.h"

#include <utility>

#include "libs/base/error.h"

namespace callboard::scheduler {
namespace {

constexpr absl::Duration kOverloadedRetryAfter = absl::Milliseconds(100);

absl::Status Overloaded() {
  return base::WithRetryAfter(
      base::WithReason(absl::UnavailableError("too many calls wait for the scheduler; retry"),
                       "OVERLOADED"),
      kOverloadedRetryAfter);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SchedulerDriver>> SchedulerDriver::Open(const Deps& deps) {
  std::unique_ptr<SchedulerDriver> driver(new SchedulerDriver(deps));
  RETURN_IF_ERROR(driver->scheduler_.Open());
  driver->thread_ = std::thread([&driver = *driver] { driver.Run(); });
  return driver;
}

SchedulerDriver::SchedulerDriver(const Deps& deps)
    : inbox_(std::make_shared<Inbox>()), scheduler_(deps, [inbox = inbox_](Command command) {
        base::MutexLock lock(inbox->mutex);
        if (inbox->closed) return;
        inbox->waiting.push_back(std::move(command));
        inbox->wake_up.NotifyOne();
      }) {}

SchedulerDriver::~SchedulerDriver() {
  {
    base::MutexLock lock(inbox_->mutex);
    inbox_->stopping = true;
    inbox_->wake_up.NotifyOne();
  }
  if (thread_.joinable()) thread_.join();
}

void SchedulerDriver::Run() {
  bool stopping = false;
  while (!stopping) {
    const absl::Duration wait = scheduler_.UntilNextTurn();
    std::vector<Command> commands;
    std::optional<std::vector<core::Job>> jobs;
    {
      base::MutexLock lock(inbox_->mutex);
      const auto has_work = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return !inbox_->waiting.empty() || inbox_->jobs.has_value() || inbox_->stopping;
      };
      if (wait == absl::InfiniteDuration()) {
        while (!has_work()) inbox_->wake_up.Wait(inbox_->mutex);
      } else {
        inbox_->wake_up.WaitFor(inbox_->mutex, wait, has_work);
      }
      commands.swap(inbox_->waiting);
      jobs.swap(inbox_->jobs);
      stopping = inbox_->closed = inbox_->stopping;
    }
    if (jobs.has_value()) scheduler_.SetJobs(*std::move(jobs));
    scheduler_.RunTurn(std::move(commands));
  }
}

void SchedulerDriver::Add(Command command) {
  {
    base::MutexLock lock(inbox_->mutex);
    if (inbox_->waiting.size() < kCommandsWaitingMax && !inbox_->closed) {
      inbox_->waiting.push_back(std::move(command));
      inbox_->wake_up.NotifyOne();
      return;
    }
  }
  command.fail(Overloaded());
}

template <class T, class Decide>
void SchedulerDriver::AddCommand(Decide decide, Reply<T> reply) {
  Add({.decide = [decide = std::move(decide), reply](SchedulerEngine& engine,
                                                     ports::Moment now) -> std::function<void()> {
         return [reply, answer = absl::StatusOr<T>(decide(engine, now))] { reply(answer); };
       },
       .fail = reply});
}

template <class T, class Decide, class Read>
void SchedulerDriver::AddCommandWithRead(Decide decide, Read read, Reply<T> reply) {
  Add({.decide = [this, decide = std::move(decide), read = std::move(read), reply](
                     SchedulerEngine& engine, ports::Moment now) -> std::function<void()> {
         return [this, read, reply, decided = decide(engine, now)] {
           reply(decided.ok() ? read(*decided, *scheduler_.ledger())
                              : absl::StatusOr<T>(decided.status()));
         };
       },
       .fail = reply});
}

void SchedulerDriver::SetJobs(std::vector<core::Job> jobs) {
  base::MutexLock lock(inbox_->mutex);
  inbox_->jobs = std::move(jobs);
  inbox_->wake_up.NotifyOne();
}

void SchedulerDriver::GetJob(std::string name, Reply<JobDetail> reply) {
  AddCommandWithRead<JobDetail>(
      [name](SchedulerEngine& engine, ports::Moment now) {
        return engine.GetJob(name, kOccurrencesShownMax, now);
      },
      [name](JobView view, const Ledger& ledger) -> absl::StatusOr<JobDetail> {
        ASSIGN_OR_RETURN(FiringPage page,
                         ledger.ListFirings({.job = name, .page_size = kOccurrencesShownMax}));
        return JobDetail{std::move(view), std::move(page.firings)};
      },
      std::move(reply));
}

void SchedulerDriver::ListJobs(std::string after, size_t page_size, Reply<JobPage> reply) {
  AddCommand<JobPage>(
      [after = std::move(after), page_size](SchedulerEngine& engine, ports::Moment now) {
        JobPage page = {.jobs = engine.ListJobs(after, page_size, now)};
        if (page.jobs.size() == page_size) page.next = page.jobs.back().job.name;
        return page;
      },
      std::move(reply));
}

void SchedulerDriver::GetStatus(Reply<StatusView> reply) {
  AddCommand<StatusView>(
      [](SchedulerEngine& engine, ports::Moment now) { return engine.Status(now); },
      std::move(reply));
}

void SchedulerDriver::PreviewJob(PreviewQuery query, Reply<Preview> reply) {
  AddCommand<Preview>(
      [query = std::move(query)](SchedulerEngine& engine,
                                 ports::Moment) -> absl::StatusOr<Preview> {
        const core::Job* job = engine.FindJob(query.job);
        if (job == nullptr) return JobNotFound(query.job);
        return Preview{job->time_zone,
                       core::ListOccurrences(*job, query.from, query.until, query.limit)};
      },
      std::move(reply));
}

void SchedulerDriver::ListFirings(const FiringQuery& query, Reply<FiringPage> reply) {
  AddCommandWithRead<FiringPage>(
      [job = query.job](SchedulerEngine& engine, ports::Moment) -> absl::StatusOr<bool> {
        if (!job.empty() && !engine.KnowsJob(job)) return JobNotFound(job);
        return true;
      },
      [query](bool, const Ledger& ledger) { return ledger.ListFirings(query); }, std::move(reply));
}

void SchedulerDriver::Trigger(TriggerQuery query, Reply<AcceptedTask> reply) {
  Add(scheduler_.MakeTriggerCommand(std::move(query), std::move(reply)));
}

void SchedulerDriver::PauseJob(std::string name, Pause pause, Reply<JobView> reply) {
  AddCommand<JobView>(
      [name = std::move(name), pause = std::move(pause)](
          SchedulerEngine& engine, ports::Moment now) -> absl::StatusOr<JobView> {
        RETURN_IF_ERROR(engine.PauseJob(name, pause, now));
        return engine.GetJob(name, kOccurrencesShownMax, now);
      },
      std::move(reply));
}

void SchedulerDriver::ResumeJob(std::string name, Reply<ResumeResult> reply) {
  AddCommand<ResumeResult>(
      [name = std::move(name)](SchedulerEngine& engine,
                               ports::Moment now) -> absl::StatusOr<ResumeResult> {
        ASSIGN_OR_RETURN(const uint64_t skipped, engine.ResumeJob(name, now));
        ASSIGN_OR_RETURN(JobView view, engine.GetJob(name, kOccurrencesShownMax, now));
        return ResumeResult{std::move(view), skipped};
      },
      std::move(reply));
}

void SchedulerDriver::StartBackfill(BackfillQuery query, Reply<Backfill> reply) {
  AddCommand<Backfill>(
      [query = std::move(query)](SchedulerEngine& engine, ports::Moment now) {
        return engine.StartBackfill(query, now);
      },
      std::move(reply));
}

}  // namespace callboard::scheduler
