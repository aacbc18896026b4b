#pragma once

#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "codegen/writer.h"
#include "kernel/contraction/contraction_problem.h"

namespace stitch::codegen {

/// What follows the sum of a contraction, as a functor `name` of the generated kernel:
///
///     struct Epilogue {
///       const f32* __restrict__ in2;
///       __device__ __forceinline__ f32 operator()(f32 sum, int batch, int row, int column) const { … }
///     };
///
/// Everything that it reads besides the sum is found by index propagation from the result's element back to the
/// kernel's arguments, as in every other kernel (kernel/structure/scalar_program.h).
struct ContractionEpilogue {
  std::string code;          ///< the struct
  std::set<int> parameters;  ///< that it reads, by number: its members, in order
};

/// `with_seen`: the operator has a template argument `bool seen`, under which no select takes a constant that hides a
/// logit (kernel/attention/visible_keys.h). Errors: constraint (an operand that is more than element-wise arithmetic
/// and layout).
Result<ContractionEpilogue> print_epilogue(const kernel::ContractionProblem& problem,
                                           std::string_view name = "Epilogue", bool with_seen = false);

}  // namespace stitch::codegen
