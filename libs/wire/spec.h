// The spec of a task at the edges: a submit is validated and becomes the bytes of a
// callboard.v1.TaskSpec, and what a director or an agent decides by is read from these bytes.
//
// Everything about the fields of a submit is in spec.cc: limits and forms in CheckSpec(), defaults
// in TakeDefaults(), what the director decides by in ReadTerms() and ReadDecidedFields(), which
// also check it, and what an agent needs in ReadRunSpec().

#ifndef CALLBOARD_LIBS_WIRE_SPEC_H_
#define CALLBOARD_LIBS_WIRE_SPEC_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "callboard/v1/queue.pb.h"
#include "callboard/v1/task.pb.h"
#include "libs/core/task.h"
#include "libs/wire/fields.h"

namespace callboard::wire {

// Turns a submit into a submission. `max_attempts` is the queue's default. Errors:
// * INVALID_ARGUMENT lists each invalid field, with its limit and size.
// * UNIMPLEMENTED/FIELD_NOT_SUPPORTED names a field that is part of the API but not implemented
//   yet. Its default value is accepted.
absl::StatusOr<core::Submission> ReadSubmit(v1::SubmitTaskRequest&& request, uint32_t max_attempts);

// As ReadSubmit(), but adds the invalid fields to `checks`, and accepts fields that are not
// implemented yet. The result is complete only if there are no violations.
core::Submission ReadSubmit(v1::SubmitTaskRequest&& request, uint32_t max_attempts,
                            FieldChecks& checks);

// Makes the submission that repeats the task `old` with that spec: without the fields that only
// made sense for the first one.
absl::StatusOr<core::Submission> MakeRedrive(const std::string& spec, core::QueueId old);

// Reads a stored spec. Returns DATA_LOSS if this version does not understand it.
absl::StatusOr<core::TaskSpec> ReadSpec(std::string bytes);

// Reads what an agent needs of a spec.
core::RunSpec ReadRunSpec(const v1::TaskSpec& spec);

// ---- Views of a task, which leave out large or secret fields ----

// Removes the fields with the option `sensitive`, which only the full view has; of a map, the
// values.
void ReduceToBasicView(v1::Task& task);

// Reduces the task to the basic view, and truncates the prompt to 1 KiB.
void ReduceToListView(v1::Task& task);

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_SPEC_H_
