#include "libs/wire/job.h"

#include "libs/base/check.h"

namespace callboard::wire {
namespace {

// SubmitTaskRequest and Task have the fields of a submit under the same numbers.
template <class Proto>
Proto Parse(const core::JobTask& task) {
  Proto proto;
  CHECK(proto.ParseFromString(*task)) << "the task of a job is not a SubmitTaskRequest";
  return proto;
}

template <class Proto>
Proto Merge(const core::JobSubmission& submission) {
  auto proto = Parse<Proto>(submission.task);
  proto.set_request_id(submission.request_id);
  v1::Overlap& overlap = *proto.mutable_overlap();
  overlap.set_key(submission.overlap.key);
  overlap.set_n(submission.overlap.n);
  overlap.set_policy(ToProto(kOverlapPolicies, submission.overlap.policy));
  return proto;
}

}  // namespace

v1::SubmitTaskRequest ToProto(const core::JobSubmission& submission) {
  auto proto = Merge<v1::SubmitTaskRequest>(submission);
  proto.set_policy(ToProto(kQueuePolicies, submission.policy));
  return proto;
}

v1::Task DirectTask(const core::JobSubmission& submission) { return Merge<v1::Task>(submission); }

v1::Task DeclaredTask(const core::Job& job) { return Parse<v1::Task>(job.task); }

}  // namespace callboard::wire
