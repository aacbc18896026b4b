#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace stitch::graph {

/// What combines two neighbouring tuples of a scan, read off from one place where a graph does it on tensors: the
/// element-wise operators between the left and the right tuple and the combined one. Of (a, b) pairs of linear
/// recurrences
///
///     left (a, b), right (a, b)  →  (left.a · right.a, right.a · left.b + right.b)
///
/// Leaves are numbered: component i of the left tuple is i, of the right one components() + i.
class ScanCombiner {
 public:
  /// `results`: by component the combined value; `leaves`: what each number stands for there. Nothing where something
  /// else than element-wise operators, leaves and splats lies between them.
  static std::optional<ScanCombiner> read(const Graph& graph, const std::vector<Value>& results,
                                          const std::map<Value, int>& leaves);

  [[nodiscard]] int components() const { return static_cast<int>(results_.size()); }
  /// If `root` is this combiner's component of some leaves: those by number, a null value where the component does not
  /// depend on one.
  [[nodiscard]] std::optional<std::vector<Value>> match(const Graph& graph, int component, Value root) const;
  /// The combiner on scalars, as the region of an associative-scan: left tuple, right tuple → tuple.
  [[nodiscard]] Result<std::shared_ptr<const Graph>> region(const std::vector<DType>& dtypes) const;

 private:
  struct Step {
    Op op = Op::parameter;
    Attributes attributes;
    std::vector<int> operands;  ///< leaves, or leaf_count() + index of a step
  };
  [[nodiscard]] int leaf_count() const { return 2 * components(); }

  std::vector<Step> steps_;  ///< in topological order; a constant has the splat's scalar
  std::vector<int> results_;
};

/// Whether (x ∘ y) ∘ z and x ∘ (y ∘ z) agree in float64 on several hundred triples: numbers of both signs, small
/// integers (so that ties and zeros occur), integers of all bits.
Result<bool> is_associative(const Graph& region);

/// Whether combining a tuple with `initial`, on either side, leaves it as it was, tried likewise.
Result<bool> is_neutral(const Graph& region, const std::vector<ConstantAttributes>& initial);

/// The kind of reduction that a region of one component is: one operator on left and right; nothing otherwise.
std::optional<ReduceKind> kind_of(const Graph& region);

}  // namespace stitch::graph
