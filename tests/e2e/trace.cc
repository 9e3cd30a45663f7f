#include "tests/e2e/trace.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"

namespace callboard::e2e {
namespace {

using test::ReceivedSpan;

std::vector<std::string> Texts(const std::vector<const ReceivedSpan*>& spans) {
  std::vector<std::string> texts;
  for (const ReceivedSpan* span : spans) {
    texts.push_back(absl::StrCat(span->resource.at("service.name"), " ", span->span.name()));
  }
  return texts;
}

const Span& Only(const std::vector<const ReceivedSpan*>& spans) {
  CHECK_EQ(spans.size(), 1u);
  return spans[0]->span;
}

}  // namespace

Trace::Trace(std::vector<ReceivedSpan> spans) : spans_(std::move(spans)) {
  const auto times = [](const ReceivedSpan& received) {
    return std::tuple(received.span.start_time_unix_nano(), received.span.end_time_unix_nano());
  };
  std::stable_sort(spans_.begin(), spans_.end(),
                   [&](const auto& left, const auto& right) { return times(left) < times(right); });
}

std::vector<const ReceivedSpan*> Trace::Children(const std::string& parent) const {
  std::vector<const ReceivedSpan*> found;
  for (const ReceivedSpan& received : spans_) {
    if (received.span.parent_span_id() == parent) found.push_back(&received);
  }
  return found;
}

std::vector<std::string> Trace::Below(const Span& parent) const {
  return Texts(Children(parent.span_id()));
}

std::vector<std::string> Trace::Roots() const { return Texts(Children("")); }

const Span& Trace::Root() const { return Only(Children("")); }

const Span& Trace::OnlyBelow(const Span& parent) const { return Only(Children(parent.span_id())); }

const Span& Trace::Get(const std::string& name, size_t i) const {
  for (const ReceivedSpan& received : spans_) {
    if (received.span.name() == name && i-- == 0) return received.span;
  }
  CHECK(false) << "too few spans are called " << name;
  return spans_[0].span;
}

std::string TextOf(const Span& span, const std::string& name) {
  for (const auto& attribute : span.attributes()) {
    if (attribute.key() == name) return attribute.value().string_value();
  }
  return "";
}

int64_t NumberOf(const Span& span, const std::string& name) {
  for (const auto& attribute : span.attributes()) {
    if (attribute.key() == name) return attribute.value().int_value();
  }
  return 0;
}

std::vector<std::string> EventsOf(const Span& span) {
  std::vector<std::string> events;
  for (const Span::Event& event : span.events()) events.push_back(event.name());
  return events;
}

bool IsInside(const Span& inner, const Span& outer) {
  return outer.start_time_unix_nano() <= inner.start_time_unix_nano() &&
         inner.end_time_unix_nano() <= outer.end_time_unix_nano();
}

}  // namespace callboard::e2e
