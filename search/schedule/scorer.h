#pragma once

#include <string>
#include <vector>

#include "base/device_spec.h"
#include "kernel/program/program.h"

namespace stitch::search {

/// One named contribution to a predicted time, µs.
struct ScoreTerm {
  std::string name;
  double us = 0;
};

/// A predicted time with its explanation.
struct Score {
  double us = 0;                 ///< whole kernel, launch gap included
  std::vector<ScoreTerm> terms;  ///< what it is made of
  std::string binding;           ///< the term that decides
};

/// Predicts how long a kernel takes on a device. It is what the explorers ask instead of a stopwatch, some thousand
/// times a kernel: predictions only have to put candidates in order, the best of which are measured.
///
///     const double us = scorer.predict_us(graph, program);
///     const Score why = scorer.explain(graph, program);   // the same number with its terms: launch, memory, …
///
/// The interface belongs to search/, which must not know of cost models. Implementations (analytical, learned,
/// combined) live in costmodel/ and must be callable from several threads at once.
class Scorer {
 public:
  virtual ~Scorer() = default;
  /// Predicted µs; the quick form used for ranking.
  [[nodiscard]] virtual double predict_us(const graph::Graph& graph, const kernel::KernelProgram& program) const = 0;
  /// The same number, explained.
  [[nodiscard]] virtual Score explain(const graph::Graph& graph, const kernel::KernelProgram& program) const = 0;
  [[nodiscard]] virtual const DeviceSpec& device() const = 0;
};

}  // namespace stitch::search
