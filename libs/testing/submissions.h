// Submissions and specs for tests, made by the code that reads real submits.

#ifndef CALLBOARD_LIBS_TESTING_SUBMISSIONS_H_
#define CALLBOARD_LIBS_TESTING_SUBMISSIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "callboard/v1/queue.pb.h"
#include "callboard/v1/task.pb.h"
#include "libs/base/check.h"
#include "libs/core/task.h"
#include "libs/wire/spec.h"

namespace callboard::test {

// Returns the submission that a director makes of a submit. REQUIRES: the submit is valid. It may
// use fields that are not implemented yet.
inline core::Submission ToSubmission(v1::SubmitTaskRequest request, uint32_t max_attempts = 3) {
  wire::FieldChecks checks;
  core::Submission submission = wire::ReadSubmit(std::move(request), max_attempts, checks);
  CHECK_OK(checks.status());
  return submission;
}

// Returns the spec of a submit. REQUIRES: as ToSubmission().
inline core::SpecPtr ToSpec(v1::SubmitTaskRequest request, uint32_t max_attempts = 3) {
  return std::make_shared<const core::TaskSpec>(
      ToSubmission(std::move(request), max_attempts).spec);
}

inline v1::SubmitTaskRequest MakeSubmit(std::string prompt) {
  v1::SubmitTaskRequest request;
  request.set_prompt(std::move(prompt));
  return request;
}

// Returns the submission of a prompt and nothing else.
inline core::Submission SubmissionOf(std::string prompt) {
  return ToSubmission(MakeSubmit(std::move(prompt)));
}

// Returns the bytes of a spec with that prompt.
inline core::SpecBytes SpecBytesOf(std::string prompt) {
  v1::TaskSpec spec;
  spec.set_prompt(std::move(prompt));
  return std::make_shared<const std::string>(spec.SerializeAsString());
}

// Returns the fields of a spec. REQUIRES: the bytes are a serialized spec.
inline v1::TaskSpec ParseSpec(const core::SpecBytes& bytes) {
  v1::TaskSpec spec;
  CHECK(spec.ParseFromString(*bytes));
  return spec;
}

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_SUBMISSIONS_H_
