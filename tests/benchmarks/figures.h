// Figures with bars: how they are judged and printed.
#ifndef CALLBOARD_TESTS_BENCHMARKS_FIGURES_H_
#define CALLBOARD_TESTS_BENCHMARKS_FIGURES_H_

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "libs/base/check.h"

namespace callboard::benchmarks {

// A figure that must reach its bar, and should reach its goal.
struct Figure {
  enum class Better { kHigher, kLower };

  std::string name;
  double bar = 0;
  double goal = 0;
  Better better = Better::kHigher;
  std::string unit;

  bool Reaches(double value, double limit) const {
    return better == Better::kHigher ? value >= limit : value <= limit;
  }
};

// A value of a figure, measured in one round, and the numbers that it was computed from.
struct Sample {
  double value = 0;
  std::string detail = {};
};

inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Three digits, except for large numbers.
inline std::string NumberText(double value) {
  const int decimals = value < 1 ? 3 : value < 10 ? 2 : value < 100 ? 1 : 0;
  return absl::StrFormat("%.*f", decimals, value);
}

// The lowest and the highest value.
inline std::string RangeText(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return absl::StrFormat("%s..%s", NumberText(*least), NumberText(*most));
}

// Returns a count with a comma before each group of three digits.
inline std::string CountText(double count) {
  std::string text = absl::StrFormat("%.0f", count);
  for (int i = static_cast<int>(text.size()) - 3; i > 0; i -= 3) text.insert(i, 1, ',');
  return text;
}

// Prints a line per figure: ok|FAIL, name, value, bar, goal, and more for human readers.
class Report {
 public:
  // If not `is_judged`, figures are printed with `-`: they were measured too briefly.
  explicit Report(bool is_judged) : is_judged_(is_judged) {
    Print("", "figure", "value", "bar", "goal", "better", "range", "unit", "median round");
  }

  // Prints the medians of the rounds. `beside` has the same figure of other programs, measured in
  // the same rounds; empty if there are none.
  void Add(const Figure& figure, const std::vector<Sample>& rounds,
           const std::vector<Sample>& beside) {
    const Sample median = MedianOf(rounds);
    const bool is_reached = figure.Reaches(median.value, figure.bar);
    if (is_judged_ && !is_reached) missed_.push_back(figure.name);
    Print(!is_judged_  ? "-"
          : is_reached ? "ok"
                       : "FAIL",
          figure.name, NumberText(median.value), absl::StrFormat("%g", figure.bar),
          absl::StrFormat("%g", figure.goal),
          figure.better == Figure::Better::kHigher ? "higher" : "lower",
          RangeText(ValuesOf(rounds)), figure.unit, median.detail);
    if (beside.empty()) return;
    CHECK_EQ(beside.size(), rounds.size());
    std::vector<double> ratios;
    for (size_t i = 0; i < rounds.size(); ++i) {
      ratios.push_back(rounds[i].value / beside[i].value);
    }
    const Sample other = MedianOf(beside);
    Print("", "  beside", NumberText(other.value), "", "", "", RangeText(ValuesOf(beside)), "",
          other.detail);
    Print("", "  ratio", NumberText(Median(ratios)), "", "", "", RangeText(ratios), "", "");
  }

  // The names of the figures that did not reach their bars.
  const std::vector<std::string>& missed() const { return missed_; }

 private:
  static std::vector<double> ValuesOf(const std::vector<Sample>& samples) {
    std::vector<double> values;
    for (const Sample& sample : samples) values.push_back(sample.value);
    return values;
  }
  static Sample MedianOf(std::vector<Sample> samples) {
    std::sort(samples.begin(), samples.end(),
              [](const Sample& a, const Sample& b) { return a.value < b.value; });
    return samples[samples.size() / 2];
  }
  static void Print(const std::string& verdict, const std::string& name, const std::string& value,
                    const std::string& bar, const std::string& goal, const std::string& better,
                    const std::string& range, const std::string& unit, const std::string& detail) {
    std::string line = absl::StrFormat("%-4s %-16s %7s %5s %5s  %-6s  %-14s %-16s %s", verdict,
                                       name, value, bar, goal, better, range, unit, detail);
    line.resize(line.find_last_not_of(' ') + 1);
    std::puts(line.c_str());
    std::fflush(stdout);
  }

  const bool is_judged_;
  std::vector<std::string> missed_;
};

}  // namespace callboard::benchmarks

#endif  // CALLBOARD_TESTS_BENCHMARKS_FIGURES_H_
