#pragma once

#include "graph/builder.h"

namespace stitch::import::onnx {

/// NumPy's matmul: batch dimensions broadcast, vectors take part as a row on the left and a column on the right.
graph::Value matmul_of(graph::Builder& b, graph::Value x, graph::Value y);

}  // namespace stitch::import::onnx
