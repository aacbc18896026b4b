#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace stitch::graph {

/// How f32 is multiplied: as it is, or as what tensor cores take.
enum class F32Arithmetic : std::uint8_t {
  f32,
  tf32,    ///< operands rounded to TF32, one product
  tf32x3,  ///< two parts of TF32 each, three products
  bf16x3,  ///< two parts of bf16 each, three products
};

/// What whoever asks for a graph's kernels wants of their results beyond being right, or grants them. Constraints are
/// part of the graph (Graph::constraints), so that they travel, are stored and are part of every key like anything else
/// that decides what is planned; docs/planning.md says how each is kept, and what it costs.
struct Constraints {
  /// No result depends on the order in which threads, blocks or atomics happen to run: equal inputs give equal bits,
  /// every time.
  bool deterministic = false;
  /// The bits of a row do not depend on how many rows there are, nor on where it stands among them: reductions along
  /// the last dimensions are mapped by their own extents alone. Implies what `deterministic` asks for.
  bool batch_invariant = false;
  /// Dots and convolutions of f32 may round their operands to TF32 (10 bits of fraction; sums stay f32), as tensor
  /// cores take them: a freedom, not a wish for worse results. What is infinite after rounding is not.
  bool tf32 = false;
  /// The same as three products of TF32 values, of what was rounded and of what rounding left: errors near those of f32
  /// (Ootomo and Yokota 2022, arXiv 2203.03341; without its way of adding). Infinities may become NaN.
  bool tf32x3 = false;
  /// The same of bf16 values, which tensor cores multiply twice as fast: about 16 bits of each operand count (Henry,
  /// Tang and Heinecke 2019, arXiv 1904.06376 §3), so that errors are some twenty times those of TF32's three, and a
  /// sixtieth of one product of TF32. Exponents are f32's. Infinities may become NaN.
  bool bf16x3 = false;
  /// Convolutions of f32 with windows of 3 × 3 may be made of fewer multiplications (graph/winograd.h; Lavin and Gray
  /// 2016, arXiv 1509.09308): sums stay f32, but of terms that are larger than the result, so that errors are some ten
  /// times a direct sum's. Where it is used at all: by_winograd in graph/f32_products.h.
  bool winograd = false;
  /// Every operator's result is rounded to its type, as where operators run one at a time: nothing is kept wider,
  /// contracted, reassociated, or computed by a faster approximation than CUDA's own function. Reductions keep their
  /// freedom of order.
  bool eager_precision = false;
  /// The caller may have a result written where a parameter lies, element over element, as an optimizer updates its
  /// state: kernels are made so that it may wherever they can be. A plan says for which pairs that holds
  /// (api::Plan::in_place).
  bool in_place = false;

  [[nodiscard]] bool any() const {
    return deterministic || batch_invariant || tf32 || tf32x3 || bf16x3 || winograd || eager_precision || in_place;
  }
  /// Whether what an element is must not depend on which operators share its kernel.
  [[nodiscard]] bool rounds_each() const { return batch_invariant || eager_precision; }
  /// The fastest of those ways to multiply f32 that are granted.
  [[nodiscard]] F32Arithmetic f32_arithmetic() const {
    return tf32     ? F32Arithmetic::tf32
           : bf16x3 ? F32Arithmetic::bf16x3
           : tf32x3 ? F32Arithmetic::tf32x3
                    : F32Arithmetic::f32;
  }
  /// Whether sums may depend on who comes first.
  [[nodiscard]] bool fixes_order() const { return deterministic || batch_invariant; }
  /// Both sides' wishes.
  [[nodiscard]] Constraints operator|(const Constraints& other) const {
    return {deterministic || other.deterministic,
            batch_invariant || other.batch_invariant,
            tf32 || other.tf32,
            tf32x3 || other.tf32x3,
            bf16x3 || other.bf16x3,
            winograd || other.winograd,
            eager_precision || other.eager_precision,
            in_place || other.in_place};
  }

  bool operator==(const Constraints&) const = default;

  /// Calls visit("name", field) for every constraint: the one list of them.
  static void fields(auto& self, auto&& visit) {
    visit("deterministic", self.deterministic);
    visit("batch_invariant", self.batch_invariant);
    visit("tf32", self.tf32);
    visit("tf32x3", self.tf32x3);
    visit("bf16x3", self.bf16x3);
    visit("winograd", self.winograd);
    visit("eager_precision", self.eager_precision);
    visit("in_place", self.in_place);
  }
};

/// "deterministic,batch_invariant"; "" where there are none.
std::string to_string(const Constraints& constraints);

/// Reads what to_string writes; blanks around the commas are allowed. Error: invalid_argument, naming the word and
/// those that there are.
Result<Constraints> parse_constraints(std::string_view text);

}  // namespace stitch::graph
