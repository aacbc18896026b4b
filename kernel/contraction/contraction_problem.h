#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "graph/calls/library_call.h"
#include "graph/graph.h"
#include "kernel/contraction/column_sums.h"
#include "kernel/contraction/contraction_operand.h"
#include "kernel/contraction/contraction_results.h"
#include "kernel/contraction/row_reductions.h"

// What a matmul-class kernel computes, without anything of how: for every batch b, row m and column n
//
//     result[b, m, n] = epilogue(Σₖ left[b, m, k] · right[b, n, k], b, m, n)
//
// (and of what whole rows are combined to: row_reductions.h) where b, m, n and k each stand for any number of
// dimensions, joined, and each tensor lies in memory as it likes: an operand that the graph transposes, reshapes,
// slices or repeats is read where it is. Of gelu(xᵀ·w + bias) with x: bf16[768,1024] and w: bf16[768,3072]:
//
//     batch 1, rows 1024, columns 3072, contracted 768
//     left   bf16, rows [1024:1], contracted [768:1024]          extent:stride, in elements
//     right  bf16, columns [3072:1], contracted [768:3072]
//     result bf16, rows [1024:3072], columns [3072:1]
//
// Made of a graph::LibraryCall, of which a kernel of ours does the same; contraction_schedule.h says how,
// codegen/contraction prints it.

namespace stitch::kernel {

/// One of several products whose sum a result is made of (summed_contraction.h).
struct ContractionTerm {
  std::int64_t contracted = 0;
  ContractionOperand left, right;
};

struct ContractionProblem {
  std::int64_t batch = 1, rows = 0, columns = 0, contracted = 0;
  ContractionOperand left, right;
  ContractionResult result;                  ///< the first that has all rows and columns; of rows where none has
  std::vector<ContractionResult> results;    ///< of one product that has several: all, in the graph's order; else empty
  std::vector<RowReduction> row_reductions;  ///< ascending by node; not empty: blocks share rows
  std::vector<ColumnSum> column_sums;        ///< results that are sums over groups of rows, ascending by their number
  graph::DType accumulator = graph::DType::f32;
  /// Columns that an element of the results is made of (gated_contraction.h): `columns` are those of all gates, results
  /// have units() of them. 1: each has its own.
  int gates = 1;
  std::optional<ContractionOperand> other_right;  ///< of two products with two gates: the second one's
  graph::NodeId other_root = -1;                  ///< and what multiplies it
  /// All that the kernel computes: its parameters are the kernel's arguments, `root` multiplies, what follows it up to
  /// the results is the epilogue. Never null once derived; shared, immutable.
  std::shared_ptr<const graph::Graph> graph;
  graph::NodeId root = -1;
  /// Of several products that share their left operand (merged_contraction.h), each by itself; `columns` are then those
  /// of all, `right`, `result` and `root` the first one's, and number i makes the graph's result i. Else empty.
  std::vector<ContractionProblem> members;
  /// Of a sum of products (summed_contraction.h), each with its part of the contracted dimension; `left` and `right`
  /// are the first one's, `contracted` is that of all, and `graph` computes the first one alone. Else empty.
  std::vector<ContractionTerm> terms;
  std::shared_ptr<const graph::Graph> summed;  ///< of such: what all of it is, with the same parameters and results
  /// Operands that are computed while they are loaded (computed_operand.h), of which `graph` has parameters behind its
  /// others; and what computes them, too, without these parameters. Else empty.
  std::vector<ComputedOperand> computed;
  std::shared_ptr<const graph::Graph> computing;
  /// Of a product whose depth is scaled part by part (scaled_contraction.h): by what, and all that it is. `graph` has
  /// the product alone, of parameters behind its others in the place of the operands, whose types these have not.
  std::optional<DepthScales> scales;
  std::shared_ptr<const graph::Graph> scaled;

  /// All that the kernel computes.
  [[nodiscard]] const std::shared_ptr<const graph::Graph>& whole() const {
    return scaled ? scaled : computing ? computing : summed ? summed : graph;
  }
  /// Columns of the results.
  [[nodiscard]] std::int64_t units() const { return columns / gates; }
  /// Whether the left operand is looked up under windows (contraction_sides.h).
  [[nodiscard]] bool is_convolution() const { return graph->node(root).op == graph::Op::convolution; }
  /// Whether anything but layout follows the sum: other operands, functions, scales.
  [[nodiscard]] bool has_epilogue() const;
  /// Whether one product has more behind it than an epilogue: rows that are combined, gates, or several results. To
  /// make these apart takes a kernel behind without_rows(problem).
  [[nodiscard]] bool has_rows() const {
    return members.empty() && (!row_reductions.empty() || !results.empty() || gates > 1);
  }
  /// Multiplications, and as many additions.
  [[nodiscard]] double products() const;
  /// Bytes of operands (each once), other arguments and result: what must cross device memory.
  [[nodiscard]] std::int64_t least_bytes() const;
  bool operator==(const ContractionProblem& other) const;  ///< same shapes, layouts and (structurally) same graph
};

/// Reads a graph that is one dot or convolution with an epilogue, which may combine whole rows and have several
/// results. Errors: unsupported (none of these or several; an operand that is computed in the kernel; a layout that
/// strides cannot say; an epilogue that is more than that), with the node.
Result<ContractionProblem> derive_contraction(graph::Graph graph);

/// The part of `graph` that `call` computes, as a problem. Its parameters are the call's distinct operands, in order.
/// Errors: those above.
Result<ContractionProblem> contraction_of(const graph::Graph& graph, const graph::LibraryCall& call);

/// Of a problem with reductions over rows, or several results: the product up to the last value that all of these are
/// made of (before that is widened), which a kernel would store that leaves the rest to another one.
Result<graph::Graph> without_rows(const ContractionProblem& problem);

/// The same, seen from the other side: left and right, rows and columns exchanged.
ContractionProblem turned(ContractionProblem problem);

/// The members of a merged problem; of any other the problem itself.
std::span<const ContractionProblem> parts_of(const ContractionProblem& problem);
/// The left or right operands, of which a tile is of one: of each part, or of each term.
std::vector<const ContractionOperand*> left_operands(const ContractionProblem& problem);
std::vector<const ContractionOperand*> right_operands(const ContractionProblem& problem);
/// The most bytes that one access may take of any of them (contraction_operand.h).
int widest_access(const std::vector<const ContractionOperand*>& operands);
/// Tiles of the contracted dimension, of all terms: a tile is of one.
std::int64_t depth_tiles(const ContractionProblem& problem, std::int64_t block_depth);
/// Of the widest of the parts.
std::int64_t most_columns(const ContractionProblem& problem);

/// Elements one store may take along the result's contiguous dimension, up to 16 bytes; and whether that is the rows.
struct ResultAccess {
  int elements = 1;
  bool along_rows = false;
};
ResultAccess widest_access(const ContractionResult& result);
/// The results of one product, in the graph's order.
std::span<const ContractionResult> results_of(const ContractionProblem& part);
/// By which all of them can be stored that have rows and columns.
ResultAccess widest_access(const ContractionProblem& part);
/// What is stored of it for each row and column, and besides for each row; sums of columns are neither.
std::int64_t results_of_element(const ContractionProblem& part);
std::int64_t results_of_row(const ContractionProblem& part);

/// "bf16 1×[768,1024]ᵀ·[768,3072] → bf16 with epilogue", "bf16 convolution 1×[25088,576]·…": sides as they lie in
/// memory, ᵀ where that is not rows × contracted of the left or contracted × columns of the right. Of several products
/// columns and results of each: "bf16 1×[64,768]·[768,768+256+256] → bf16, bf16, f32".
std::string to_string(const ContractionProblem& problem);

/// Names the problem by all that a kernel's code depends on.
Hash128 contraction_hash(const ContractionProblem& problem);

}  // namespace stitch::kernel
