#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/program.h"

namespace stitch::cli {

/// How far results are from the float64 reference beside those of operators that run one at a time, each exact but
/// rounded to its type once: no eager execution is nearer. Sums of squares over what is compared.
struct Accuracy {
  double values = 0;  ///< of the reference
  double ours = 0, eager = 0;

  /// Root mean squares, relative to that of the reference.
  [[nodiscard]] double ours_rms() const { return relative(ours); }
  [[nodiscard]] double eager_rms() const { return relative(eager); }

 private:
  [[nodiscard]] double relative(double errors) const { return values > 0 ? std::sqrt(errors / values) : 0; }
};

enum class Check : std::uint8_t { none, reference, reference_and_eager };

/// What became of the runs of one fragment, library call or other step, over a program's run.
struct StepRow {
  std::string kind;  ///< "fragment", "library", …
  std::string name;  ///< what it is, for people
  client::StepBy by = client::StepBy::host;
  std::int64_t runs = 0;
  std::int64_t launches = 0;  ///< of kernels, all runs together
  std::int64_t bytes = 0;     ///< memory moved, as planned, all runs together
  double seconds = 0;         ///< on the host, for people who wait: it says nothing of a GPU
  std::optional<double> us;   ///< on a GPU's stream, by its events
  std::optional<double> predicted_us;
  // With a check:
  std::int64_t compared = 0;   ///< elements
  std::int64_t unchecked = 0;  ///< elements of which the reference says nothing
  std::int64_t wrong = 0;      ///< elements beyond their tolerance
  double error = 0;            ///< of the element that comes nearest to its tolerance, or goes furthest beyond it
  double tolerance = 0;        ///< of that element
  std::string first_wrong;     ///< "result 0, element 17: 1.5, the reference has 1.0 ± 1e-6"
  std::optional<Accuracy> accuracy;
};

/// Notes what a program does, step by step; with a check, compares every fragment and library call with the float64
/// reference of what the step was given (graph/reference), by the tolerances of its error model. Whoever computes by
/// the reference itself is not compared.
class StepLog final : public client::StepObserver {
 public:
  StepLog(const api::Program& program, Check check) : program_(program), check_(check) {}

  Status before(const client::StepRun& run) override;
  Status after(const client::StepRun& run) override;

  /// In order of first appearance.
  [[nodiscard]] const std::vector<StepRow>& rows() const { return rows_; }
  [[nodiscard]] std::int64_t wrong() const;

 private:
  StepRow& row_of(const client::StepRun& run);
  Status compare(const client::StepRun& run, StepRow& row);

  const api::Program& program_;
  const Check check_;
  std::vector<StepRow> rows_;
  std::map<std::pair<std::string, std::int64_t>, std::size_t> places_;  ///< of a kind and its index in the program
  std::vector<std::vector<std::byte>> given_;                           ///< the step's parameters before it ran
  double begun_ = 0;
};

/// Compares results with the float64 reference of a graph on these parameters, and notes it in the row. `serial`: terms
/// that may be added one after the other. For Hopper's `architecture` sums of f8 may be of few bits in parts of the
/// depth, as our kernels' are and a library's.
Status compare_with_reference(const graph::Graph& graph, const std::vector<std::vector<std::byte>>& parameters,
                              std::span<const std::span<const std::byte>> results, std::int64_t serial,
                              std::string_view architecture, Check check, StepRow& row);

}  // namespace stitch::cli
