#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/writer.h"
#include "kernel/attention/key_limit.h"
#include "kernel/contraction/contraction_problem.h"
#include "kernel/program/in_place.h"

namespace stitch::codegen {

/// What follows the sum of a contraction, as a functor `name` of the generated kernel:
///
///     struct Epilogue {
///       const f32* __restrict__ in2;
///       __device__ __forceinline__ f32 operator()(f32 sum, int batch, int row, int column) const { … }
///       template <int n>
///       __device__ __forceinline__ void run(const f32* sums, int batch, int row, int first, f32 (&results)[n],
///                                           int behind = 0) const { … }
///     };
///
/// The second is the first for n columns from first + behind on, which are multiples of n, and reads beside the sums
/// what follows one another at once. What is so far behind is found by a constant of the address. Everything that it
/// reads besides the sum is found by index propagation from the result's element back to the kernel's arguments, as in
/// every other kernel (kernel/structure/scalar_program.h).
///
/// Where rows are combined it has two more members: what they are combined to, one behind the other for each row, and
/// the number of the first row there.
struct ContractionEpilogue {
  std::string name;  ///< of the struct
  std::string code;
  std::string members;       ///< what one is made of, by the kernel's names: "in2, in3, totals, block_row"
  std::set<int> parameters;  ///< that it reads, by number: its members, in order
  /// Where some of what it computes is the same for a whole batch, and kept by it: what its function `of` makes it of,
  /// by the kernel's names: "in2, in3, batch". Else empty.
  std::string made_of = {};
  /// Of a sum of columns (kernel/contraction/column_sums.h), whose function is what is added: it takes the values of
  /// this one of the results in the sums' place; −1: the sums.
  int takes = -1;
};

/// Of a product: what each of its results is, and, where rows are combined, each reduction's values.
struct ContractionEpilogues {
  /// What of the sum all the others are made of, by the problem's accumulator; they then take it in its place, so that
  /// what it reads is read once. Nothing: they take the sum.
  std::optional<ContractionEpilogue> carried;
  std::vector<ContractionEpilogue> combined;  ///< of each of the problem's row_reductions
  std::vector<ContractionEpilogue> results;
  /// Under graph::Constraints::in_place: each element of such an argument is read by no function behind the one that
  /// makes the result's element of the same place, and by whom stores that.
  std::vector<kernel::InPlace> in_place;
};

/// Named "Carried", "Combined0", … and `name`, of several results "Epilogue0", …. Errors: those below.
Result<ContractionEpilogues> print_epilogues(const kernel::ContractionProblem& problem, std::string_view name);

/// Of a problem with one result, and none over rows; what is the same for a batch is kept. `with_seen`: `run` alone,
/// with a first template argument `bool seen`, under which no select takes a constant that hides a logit
/// (kernel/attention/visible_keys.h). Errors: constraint (an operand that is more than element-wise arithmetic and
/// layout).
Result<ContractionEpilogue> print_epilogue(const kernel::ContractionProblem& problem,
                                           std::string_view name = "Epilogue", bool with_seen = false);

/// Where keys end that a mask shows (kernel/attention/key_limit.h): `bound`, a function of the batch like any epilogue.
struct ShownKeys {
  ContractionEpilogue bound;
  kernel::KeyLimit limit;
};
/// Named "Bound". Nothing: the problem has no such mask. Errors: those above.
Result<std::optional<ShownKeys>> print_shown_keys(const kernel::AttentionProblem& problem,
                                                  kernel::LimitOf of = kernel::LimitOf::attention);

}  // namespace stitch::codegen
