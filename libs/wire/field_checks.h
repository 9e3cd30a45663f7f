#ifndef CALLBOARD_LIBS_WIRE_FIELD_CHECKS_H_
#define CALLBOARD_LIBS_WIRE_FIELD_CHECKS_H_

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace callboard::wire {

// Collects what is wrong with the fields of a request, so that its sender learns all of it at once.
class FieldChecks {
 public:
  // From now on names are those of fields in the message `field`: `task.prompt`.
  void Enter(absl::string_view field);

  // Notes that `field` is wrong; the first problem of a field counts, and of many fields some: an
  // answer has to fit into a header. `problem` reads on from the name: "is required". It never
  // holds the value itself, which may be a prompt or a secret.
  void Refuse(absl::string_view field, absl::string_view problem);

  // Whether `field` keeps its limit; notes it otherwise: "has 65 entries, at most 64 are allowed".
  bool AtMost(absl::string_view field, uint64_t size, uint64_t limit, absl::string_view unit);

  // INVALID_ARGUMENT with a violation for each field; its message is about the first one.
  absl::Status status() const { return status_; }

 private:
  std::string prefix_;
  std::set<std::string> fields_;
  absl::Status status_;
};

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_FIELD_CHECKS_H_
