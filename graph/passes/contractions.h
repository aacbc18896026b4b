#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Dots take over the transposes next to them, and stop being dots where they are no matrix products.
///
/// A library multiplies matrices stored by rows or by columns alike, batched over leading dimensions. So
///  - an operand's transpose goes when the operand below it already has the form [batch, free, contracted] or
///    [batch, contracted, free]; otherwise, of the two forms, the one that keeps the innermost dimension innermost is
///    made (rows move as wholes: a head split needs no real transposition);
///  - a transpose of the result that exchanges the two sides' dimensions is the dot with its operands exchanged;
///  - a dot that contracts nothing is a multiplication of broadcasts;
///  - a product with a vector of at most 2^20 elements is multiply and reduce: it reads everything once, and a launch
///    of the library costs more than that. (Larger ones are left to the library.)
///
/// Exact but for the order of the sum. Expects: extents of 1 taken out, layout chains merged.
Result<int> simplify_contractions(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
