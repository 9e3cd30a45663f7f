#ifndef CALLBOARD_SERVICES_DIRECTOR_TASK_SPANS_H_
#define CALLBOARD_SERVICES_DIRECTOR_TASK_SPANS_H_

#include "libs/core/record.h"
#include "libs/director/observer.h"
#include "libs/director/task_step.h"
#include "libs/ports/telemetry.h"

namespace callboard {

// Returns whether the step ends a span.
bool EndsSpan(const core::TaskRecord& record);
// Returns the span that the step ends: a wait in the queue, a dispatch or a redrive.
// REQUIRES: EndsSpan(record).
ports::FinishedSpan SpanOf(const core::TaskRecord& record, const director::TaskStep& step);

// Returns the span of a cancel. It has no duration, except for a caller that left while it waited
// for a place: then it lasts as long as the caller waited.
ports::FinishedSpan SpanOf(const director::CancelledTask& task);

// An observer that emits spans and forwards every call to another observer.
class TaskSpans final : public director::Observer {
 public:
  // Both arguments outlive this object.
  TaskSpans(director::Observer& observer, ports::Telemetry& telemetry)
      : observer_(observer), telemetry_(telemetry) {}

  void OnService(director::Service service, const absl::Status& why) override {
    observer_.OnService(service, why);
  }
  void OnCommit(size_t records, absl::Duration took) override { observer_.OnCommit(records, took); }
  void OnTurn(absl::Span<const core::Record> records,
              absl::Span<const director::TaskStep> steps) override;
  void OnOrphans(absl::Span<const director::OrphanResult> orphans) override {
    observer_.OnOrphans(orphans);
  }
  void OnDispatch(const core::TaskRecord& record, const director::TaskStep& step) override {
    observer_.OnDispatch(record, step);
  }
  void OnReject(const absl::Status& why, const director::SubmitOrigin& origin) override {
    observer_.OnReject(why, origin);
  }
  void OnCancel(const director::CancelledTask& task) override;
  void OnStateChange(const director::QueueLevels& levels) override {
    observer_.OnStateChange(levels);
  }
  void OnAgents(const director::AgentCounts& agents) override { observer_.OnAgents(agents); }

 private:
  director::Observer& observer_;
  ports::Telemetry& telemetry_;
};

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_TASK_SPANS_H_
