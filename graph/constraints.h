#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace stitch::graph {

/// What whoever asks for a graph's kernels wants of their results beyond being right. Constraints are part of the graph
/// (Graph::constraints), so that they travel, are stored and are part of every key like anything else that decides what
/// is planned; docs/planning.md says how each is kept, and what it costs.
struct Constraints {
  /// No result depends on the order in which threads, blocks or atomics happen to run: equal inputs give equal bits,
  /// every time.
  bool deterministic = false;
  /// The bits of a row do not depend on how many rows there are, nor on where it stands among them: reductions along
  /// the last dimensions are mapped by their own extents alone. Implies what `deterministic` asks for.
  bool batch_invariant = false;

  [[nodiscard]] bool any() const { return deterministic || batch_invariant; }
  /// Whether sums may depend on who comes first.
  [[nodiscard]] bool fixes_order() const { return deterministic || batch_invariant; }
  /// Both sides' wishes.
  [[nodiscard]] Constraints operator|(const Constraints& other) const {
    return {deterministic || other.deterministic, batch_invariant || other.batch_invariant};
  }

  bool operator==(const Constraints&) const = default;

  /// Calls visit("name", field) for every constraint: the one list of them.
  static void fields(auto& self, auto&& visit) {
    visit("deterministic", self.deterministic);
    visit("batch_invariant", self.batch_invariant);
  }
};

/// "deterministic,batch_invariant"; "" where there are none.
std::string to_string(const Constraints& constraints);

/// Reads what to_string writes; blanks around the commas are allowed. Error: invalid_argument, naming the word and
/// those that there are.
Result<Constraints> parse_constraints(std::string_view text);

}  // namespace stitch::graph
