#ifndef CALLBOARD_TESTS_E2E_TRACE_H_
#define CALLBOARD_TESTS_E2E_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "libs/testing/otlp_collector.h"

namespace callboard::e2e {

using opentelemetry::proto::trace::v1::Span;

// The spans of one trace, by start time and then by end time.
class Trace {
 public:
  explicit Trace(std::vector<test::ReceivedSpan> spans);

  // Returns sender and name of the spans below `parent`, or without a parent.
  std::vector<std::string> Below(const Span& parent) const;
  std::vector<std::string> Roots() const;
  // Returns the span without a parent. REQUIRES: there is one.
  const Span& Root() const;
  // Returns the only span below `parent`. REQUIRES: there is exactly one.
  const Span& OnlyBelow(const Span& parent) const;
  // Returns span number `i` of that name. REQUIRES: there is one.
  const Span& Get(const std::string& name, size_t i = 0) const;

 private:
  std::vector<const test::ReceivedSpan*> Children(const std::string& parent) const;

  std::vector<test::ReceivedSpan> spans_;
};

// Returns the value of an attribute; empty if there is none of that name.
std::string TextOf(const Span& span, const std::string& attribute);
// Returns the value of an attribute; 0 if there is none of that name.
int64_t NumberOf(const Span& span, const std::string& attribute);

std::vector<std::string> EventsOf(const Span& span);

// Returns whether `inner` begins and ends within `outer`.
bool IsInside(const Span& inner, const Span& outer);

}  // namespace callboard::e2e

#endif  // CALLBOARD_TESTS_E2E_TRACE_H_
