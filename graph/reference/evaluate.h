#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "graph/reference/evaluate_box.h"
#include "graph/reference/evaluate_error.h"

namespace stitch::graph {

/// The values of a box of a tensor, row-major. Floating dtypes use `floats`; integer and pred dtypes use `integers`
/// (exact; u64 as its two's complement bits).
struct Tensor {
  TensorType type;  ///< of the whole value
  Box box;          ///< the part held
  std::vector<double> floats;
  std::vector<std::int64_t> integers;
  /// Per element |kernel - reference| at most; infinite: not checked. Empty when not asked for: all exact.
  std::vector<double> bounds;

  /// Zeros for the whole of `type`, or for a box of it.
  static Tensor zeros(TensorType type);
  static Tensor zeros(TensorType type, Box box);

  [[nodiscard]] std::int64_t elements() const { return box.elements(); }
  /// Element i of the box as a double (64-bit integers beyond 2^53 are rounded).
  [[nodiscard]] double at(std::int64_t i) const;
  [[nodiscard]] double bound(std::int64_t i) const { return bounds.empty() ? 0.0 : bounds[i]; }
  bool operator==(const Tensor&) const = default;
};

/// Elements as they lie in memory: bytes of `box` (row-major, dense) to a tensor and back. `bytes` must be exactly as
/// long as the box needs. to_bytes rounds floating values to the dtype.
Tensor tensor_from_bytes(TensorType type, Box box, std::span<const std::byte> bytes);
std::vector<std::byte> to_bytes(const Tensor& tensor);

Tensor tensor_from(const ConstantAttributes& constant);
/// `tensor` must hold its whole value.
ConstantAttributes constant_from(const Tensor& tensor);

/// Supplies a parameter: fills `part`, whose type and box are set and whose values are sized but not cleared. Called
/// for demanded boxes only, so that inputs of any size can be generated on demand; may be called for several boxes,
/// overlapping or not, and must be a pure function of the box. An input that is itself uncertain may set `part.bounds`.
using Input = std::function<Status(Tensor& part)>;

/// An input that is in memory. `tensor` must hold its whole value.
Input input_of(Tensor tensor);

/// Only the indices in `intervals` along operand dimension `dimension` take part in the reduction `node` (a reduce or
/// arg_reduce of the graph itself, not of a region). Verifies kernels of which only some blocks were run.
struct ReduceRestriction {
  NodeId node = -1;
  std::int64_t dimension = 0;
  std::vector<Interval> intervals;  ///< disjoint, ascending
};

struct EvaluateOptions {
  /// Round every result to its dtype (constant folding, conformance suites). Off: floating values stay in double and
  /// only inputs and constants are what their dtype holds, because kernels may keep excess precision.
  bool round = false;
  /// Compute Tensor::bounds; see evaluate_error.h for the model.
  bool bounds = false;
  ErrorModel error_model;
  std::vector<ReduceRestriction> restrictions;
  std::int64_t most_trips = std::int64_t{1} << 20;     ///< of one loop; more is ErrorKind::resource_exhausted
  std::int64_t memory_limit = std::int64_t{16} << 30;  ///< bytes of values alive at once; likewise
};

/// Float64 reference. Evaluates `wanted[i]` (any number of boxes, none: not wanted) of every result i of `graph`, and
/// returns one tensor per box in the same order.
///
/// Only what those boxes depend on is computed: demand is propagated backwards box by box
/// (graph/reference/evaluate_demand.h), integer index operands of gathers, scatters and dynamic slices are evaluated
/// first so that only the rows they name are read, and values are freed after their last use. Single-threaded and
/// reentrant. Semantics of every operator: docs/ir.md. Errors: invalid_argument (an input or box that does not fit),
/// unsupported (an opaque operator is needed; the message names it), resource_exhausted, and whatever an Input returns.
Result<std::vector<std::vector<Tensor>>> evaluate_parts(const Graph& graph, std::span<const Input> inputs,
                                                        const std::vector<std::vector<Box>>& wanted,
                                                        const EvaluateOptions& options = {});

/// All results, whole, from whole arguments.
Result<std::vector<Tensor>> evaluate(const Graph& graph, std::span<const Tensor> arguments,
                                     const EvaluateOptions& options = {});

}  // namespace stitch::graph
