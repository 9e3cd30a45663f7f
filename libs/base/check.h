// Checks of invariants that must hold for every input. They are enabled in production: a violated
// invariant terminates the process, which then restarts from its store, instead of spreading.
//
//   CHECK(queue.Contains(id)) << id;
//   CHECK_LE(queue.size(), capacity);
//   CHECK_OK(store.Close());
//
// Errors of callers, peers, files and disks are reported as an absl::Status instead.
#ifndef CALLBOARD_LIBS_BASE_CHECK_H_
#define CALLBOARD_LIBS_BASE_CHECK_H_

#include <functional>
#include <memory>
#include <sstream>
#include <string>

#include "absl/base/optimization.h"
#include "absl/status/status.h"

namespace callboard::base::internal {

// Collects the message of a failed check. Its destructor prints it and aborts.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const std::string& expression);
  [[noreturn]] ~CheckFailure();
  CheckFailure(const CheckFailure&) = delete;
  CheckFailure& operator=(const CheckFailure&) = delete;

  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

// Gives both arms of the conditional in CHECK the type void; & binds looser than <<.
struct Voidify {
  void operator&(std::ostream&) const {}
};

// Returns null if `Comparison` holds, else the failed expression with both values.
template <class Comparison, class A, class B>
std::unique_ptr<std::string> CompareForCheck(const A& a, const B& b, const char* expression) {
  if (ABSL_PREDICT_TRUE(Comparison{}(a, b))) return nullptr;
  std::ostringstream out;
  out << expression << " (" << a << " vs. " << b << ")";
  return std::make_unique<std::string>(out.str());
}

inline std::unique_ptr<std::string> OkForCheck(const absl::Status& status, const char* expression) {
  if (ABSL_PREDICT_TRUE(status.ok())) return nullptr;
  return std::make_unique<std::string>(std::string(expression) + " is " + status.ToString());
}

}  // namespace callboard::base::internal

#define CHECK(condition)                     \
  ABSL_PREDICT_TRUE(condition)               \
  ? (void)0                                  \
  : ::callboard::base::internal::Voidify() & \
          ::callboard::base::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()

#define CALLBOARD_CHECK_THAT(failure)                                      \
  while (std::unique_ptr<std::string> callboard_check_failure = (failure)) \
  ::callboard::base::internal::CheckFailure(__FILE__, __LINE__, *callboard_check_failure).stream()

#define CALLBOARD_CHECK_COMPARE(comparison, op, a, b) \
  CALLBOARD_CHECK_THAT(                               \
      (::callboard::base::internal::CompareForCheck<comparison>((a), (b), #a " " #op " " #b)))

#define CHECK_EQ(a, b) CALLBOARD_CHECK_COMPARE(std::equal_to<>, ==, a, b)
#define CHECK_NE(a, b) CALLBOARD_CHECK_COMPARE(std::not_equal_to<>, !=, a, b)
#define CHECK_LT(a, b) CALLBOARD_CHECK_COMPARE(std::less<>, <, a, b)
#define CHECK_LE(a, b) CALLBOARD_CHECK_COMPARE(std::less_equal<>, <=, a, b)
#define CHECK_GT(a, b) CALLBOARD_CHECK_COMPARE(std::greater<>, >, a, b)
#define CHECK_GE(a, b) CALLBOARD_CHECK_COMPARE(std::greater_equal<>, >=, a, b)
#define CHECK_OK(status) \
  CALLBOARD_CHECK_THAT(::callboard::base::internal::OkForCheck((status), #status))

#endif  // CALLBOARD_LIBS_BASE_CHECK_H_
