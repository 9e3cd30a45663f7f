#ifndef CALLBOARD_LIBS_TESTING_RECORDED_SPANS_H_
#define CALLBOARD_LIBS_TESTING_RECORDED_SPANS_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/base/check.h"
#include "libs/base/mutex.h"
#include "libs/ports/telemetry.h"

namespace callboard::test {

// Returns the text of an attribute; empty if there is none of that name or it is not a text.
inline std::string TextOf(const ports::FinishedSpan& span, absl::string_view name) {
  for (const ports::SpanAttribute& attribute : span.attributes) {
    const auto* text = std::get_if<std::string>(&attribute.value);
    if (attribute.name == name && text != nullptr) return *text;
  }
  return "";
}

// Records the spans that it receives. Thread-safe.
class RecordedSpans final : public ports::Telemetry {
 public:
  bool enabled() const override { return true; }
  bool ShouldSample(const core::TraceId&) const override {
    base::MutexLock lock(mutex_);
    return keeps_;
  }
  bool ShouldJoin(const core::SpanContext& caller) const override {
    base::MutexLock lock(mutex_);
    return joins_.value_or(caller.sampled);
  }
  bool ShouldRecord(const core::SpanContext& context) override { return context.sampled; }
  void Emit(ports::FinishedSpan span) override {
    base::MutexLock lock(mutex_);
    spans_.push_back(std::move(span));
  }
  void EmitLater(const core::SpanContext& context,
                 std::function<ports::FinishedSpan()> make) override {
    if (context.sampled) Emit(make());
  }
  uint64_t lost() const override { return 0; }
  void Flush(absl::Duration) override {}

  // Sets whether traces that begin from now on are kept.
  void SetSampling(bool keeps) {
    base::MutexLock lock(mutex_);
    keeps_ = keeps;
  }
  // Sets whether callers' traces are joined from now on: all or none, instead of those that the
  // caller samples.
  void SetJoins(bool joins) {
    base::MutexLock lock(mutex_);
    joins_ = joins;
  }
  std::vector<ports::FinishedSpan> All() const {
    base::MutexLock lock(mutex_);
    return spans_;
  }
  // Returns the only span. REQUIRES: there is exactly one.
  ports::FinishedSpan Only() const {
    base::MutexLock lock(mutex_);
    CHECK_EQ(spans_.size(), 1u);
    return spans_.front();
  }

 private:
  mutable base::Mutex mutex_;
  bool keeps_ ABSL_GUARDED_BY(mutex_) = true;
  std::optional<bool> joins_ ABSL_GUARDED_BY(mutex_);
  std::vector<ports::FinishedSpan> spans_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_RECORDED_SPANS_H_
