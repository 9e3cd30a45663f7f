#ifndef CALLBOARD_TESTS_E2E_TRACE_H_
#define CALLBOARD_TESTS_E2E_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "libs/testing/otlp_collector.h"

namespace callboard::e2e {

using opentelemetry::proto::trace::v1::Span;

// The spans of one trace, in the order of beginning; of two that began together, the one that ended
// first is the first.
class Trace {
 public:
  explicit Trace(std::vector<test::ReceivedSpan> spans);

  // Below that span, or without a parent: who sent it, and what it is.
  std::vector<std::string> Below(const Span& parent) const;
  std::vector<std::string> Roots() const;
  // The one without a parent. REQUIRES: there is one.
  const Span& Root() const;
  // REQUIRES: one span is below that one.
  const Span& OnlyBelow(const Span& parent) const;
  // Of that name, the i-th. REQUIRES: there is one.
  const Span& Get(const std::string& name, size_t i = 0) const;

 private:
  std::vector<const test::ReceivedSpan*> Children(const std::string& parent) const;

  std::vector<test::ReceivedSpan> spans_;
};

// The value of an attribute; empty when there is none of that name.
std::string TextOf(const Span& span, const std::string& attribute);
// 0 when there is none.
int64_t NumberOf(const Span& span, const std::string& attribute);

std::vector<std::string> EventsOf(const Span& span);

// Whether one is over before and begins after the other does, or at the same time.
bool IsInside(const Span& inner, const Span& outer);

}  // namespace callboard::e2e

#endif  // CALLBOARD_TESTS_E2E_TRACE_H_
