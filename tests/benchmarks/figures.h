// Measured figures, their baselines, and their limits.
#ifndef CALLBOARD_TESTS_BENCHMARKS_FIGURES_H_
#define CALLBOARD_TESTS_BENCHMARKS_FIGURES_H_

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace callboard::benchmarks {

inline double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// The medians of several rounds, each of which measures both: ratio of ours to raw, ours, and raw.
struct Comparison {
  double ratio = 0;
  double ours = 0;
  double raw = 0;
};
inline Comparison Compare(const std::function<double()>& ours, const std::function<double()>& raw,
                          int rounds = 3) {
  std::vector<double> ratios;
  std::vector<double> own;
  std::vector<double> bare;
  for (int round = 0; round < rounds; ++round) {
    bare.push_back(raw());
    own.push_back(ours());
    ratios.push_back(own.back() / bare.back());
  }
  return {Median(ratios), Median(own), Median(bare)};
}

// Prints a line per figure: ok|FAIL|-, name, value, bar, goal (- if there is none).
class Report {
 public:
  // Prints a figure without a bar.
  void Print(const std::string& name, const std::string& value) {
    std::printf("-    %-46s %s\n", name.c_str(), value.c_str());
    std::fflush(stdout);
  }
  // `value` must be at least `bar`, or at most if less is better.
  enum class Better { kMore, kLess };
  struct Bar {
    double bar;
    double goal;
    Better better = Better::kMore;
  };
  void Check(const std::string& name, double value, const Bar& bar, const std::string& detail) {
    const bool is_met = bar.better == Better::kMore ? value >= bar.bar : value <= bar.bar;
    is_met_ = is_met_ && is_met;
    std::printf("%-4s %-46s %.2f bar %.2f goal %.2f (%s)  %s\n", is_met ? "ok" : "FAIL",
                name.c_str(), value, bar.bar, bar.goal, DistanceToGoal(value, bar).c_str(),
                detail.c_str());
    std::fflush(stdout);
  }
  bool is_met() const { return is_met_; }

 private:
  // Returns the factor by which the value must grow or shrink.
  static std::string DistanceToGoal(double value, const Bar& bar) {
    const double factor = bar.better == Better::kMore ? bar.goal / value : value / bar.goal;
    if (factor <= 1) return "reached";
    char text[32];
    std::snprintf(text, sizeof(text), "%.2f x away", factor);
    return text;
  }

  bool is_met_ = true;
};

}  // namespace callboard::benchmarks

#endif  // CALLBOARD_TESTS_BENCHMARKS_FIGURES_H_
