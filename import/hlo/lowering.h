#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/builder.h"
#include "import/hlo/site.h"
#include "import/hlo/syntax.h"
#include "import/import.h"

namespace stitch::import::hlo {

/// Turns a module into a graph: walks the computations from the entry, inlines calls, makes regions of loop bodies and
/// branches, and asks the rule table about everything else. Every result is checked against the shape in the text.
class Lowering {
 public:
  Lowering(const Module& module, const ImportOptions& options);

  Result<Imported> run();

  // For the rules.

  /// The computation that an attribute names; it stands before the one that names it.
  Result<const Computation*> called(const Site& site, std::string_view key);
  Result<std::vector<const Computation*>> called_list(const Site& site, std::string_view key);
  /// A computation's instructions, put in place of a call. `arguments` has the leaves of each parameter.
  Result<Values> inlined(graph::Builder& builder, const Computation& computation,
                         std::span<const Values* const> arguments);
  /// A computation as a graph of its own; its parameters are the leaves of the computation's.
  Result<std::shared_ptr<const graph::Graph>> region(const Computation& computation);
  /// The same, made once: for the small computations inside reductions and for recognising functions.
  Result<std::shared_ptr<const graph::Graph>> shared_region(const Computation& computation);
  bool is_threefry(const Computation& computation);
  /// An opaque node with the instruction's operands and results.
  Result<Values> opaque(const Site& site, std::string target, std::string_view reason);
  /// A constant whose data the text leaves out becomes one more parameter of the model.
  Result<Values> absent_constant(const Site& site);

  [[nodiscard]] const Module& module() const { return module_; }

 private:
  class Scope;

  Result<Values> lower(graph::Builder& builder, const Computation& computation,
                       std::span<const Values* const> arguments);
  Result<Values> lower_instruction(graph::Builder& builder, const Instruction& instruction,
                                   const std::vector<Values>& known);
  Result<Values> parameters_of(graph::Builder& builder, const Instruction& parameter);
  [[nodiscard]] Error too_many() const;
  Result<const Computation*> find(std::string_view name, Position at);
  [[nodiscard]] std::vector<Boundary> boundaries(const graph::Graph& graph) const;

  const Module& module_;
  const ImportOptions& options_;
  std::unordered_map<std::string_view, const Computation*> by_name_;
  std::map<const Computation*, std::shared_ptr<const graph::Graph>> shared_;
  std::map<const Computation*, bool> threefry_;
  std::map<std::pair<std::int32_t, std::string>, std::string> reasons_;  ///< why opaque, by line and name
  const graph::Builder* main_ = nullptr;
  const Computation* current_ = nullptr;
  std::int64_t steps_ = 0;
  int depth_ = 0;
};

}  // namespace stitch::import::hlo
