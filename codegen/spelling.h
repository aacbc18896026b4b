#pragma once

#include <cstdint>
#include <string>

#include "graph/dtype.h"
#include "graph/op.h"
#include "kernel/structure/scalar_program.h"

namespace stitch::codegen {

/// Name of the element type in memory: "bf16".
std::string storage_type(graph::DType dtype);
/// Name of the type that values of it are computed in: "f32" for 16-bit floats, "bool" for pred.
std::string compute_type(graph::DType dtype);
/// Whether loading needs widen().
bool needs_widening(graph::DType dtype);

/// A constant of `dtype` given by its bits, in the compute type, exactly: "0.1f", "-1", "__int_as_float(0x7f800000)".
std::string literal(graph::DType dtype, std::uint64_t bits);

/// Name of the functor in device/reduce.cuh: "Sum".
std::string combiner(graph::ReduceKind kind);

/// The operator applied to operands (C++ expressions of the compute type). `dtype` is the result's, `operand_dtype`
/// the first data operand's.
std::string expression(const kernel::Item& item, graph::DType operand_dtype, const std::vector<std::string>& operands);

}  // namespace stitch::codegen
