#include "kernel/structure/structure_builder.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "kernel/structure/draft.h"
#include "kernel/structure/group_builder.h"
#include "kernel/structure/group_forming.h"
#include "kernel/structure/phase_assignment.h"
#include "kernel/structure/slab_separation.h"
#include "kernel/structure/walk_order.h"

namespace stitch::kernel {
namespace {

using graph::Graph;
using graph::NodeId;

/// Buffers that the groups of a kernel name, each group its own: with twice as many as a device passes as parameters
/// (kernel/program/legality), a structure is not worth completing.
constexpr std::size_t most_buffers = 1 << 13;

/// Looks for phases in which everything is at hand where it is needed. What an attempt finds missing is stored first in
/// the next one, and whoever needs it waits: phases only ever move back and values are only ever added, so that this
/// ends.
class StructureBuilder {
 public:
  StructureBuilder(const Graph& graph, const AxisAnalysis& analysis, StructureOptions options)
      : graph_(graph), analysis_(analysis), options_(std::move(options)), phases_(graph, analysis, options_) {
    options_.materialised.insert(options_.stored_first.begin(), options_.stored_first.end());
  }

  Result<KernelStructure> build() {
    constexpr int most_attempts = 200;
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
      STITCH_ASSIGN(Attempt outcome, try_build());
      if (const auto* blocked = std::get_if<std::vector<Missing>>(&outcome)) {
        for (const Missing& missing : *blocked) store_first(missing);
        continue;
      }
      KernelStructure structure = std::move(std::get<KernelStructure>(outcome));
      if (analysis_.slab_axis() >= 0) STITCH_TRY(separate_slabs(structure, analysis_.slab_axis()));
      choose_walks(graph_, structure);
      return structure;
    }
    return make_error(ErrorKind::constraint, "no order of phases computes this kernel");
  }

 private:
  /// The structure, or what kept it from being completed.
  using Attempt = std::variant<KernelStructure, std::vector<Missing>>;

  Result<Attempt> try_build() {
    phases_.assign(earliest_node_);
    std::vector<Draft> all = make_drafts(graph_, analysis_, phases_, options_.materialised, earliest_output_);
    KernelStructure structure;
    GroupBuilder builder(graph_, analysis_, structure);
    GroupForming forming(graph_, analysis_, phases_);
    int last = 0;
    for (const Draft& draft : all) last = std::max(last, draft.phase);
    std::vector<Missing> blocked;
    for (int phase = 0; phase <= last; ++phase) {
      STITCH_TRY(check_stop());
      std::vector<Draft*> drafts;
      for (Draft& draft : all) {
        if (draft.phase == phase) drafts.push_back(&draft);
      }
      forming.find_needs(drafts, builder, blocked);
      if (!blocked.empty()) return Attempt(std::move(blocked));
      const std::vector<std::vector<Draft*>> groups = forming.form_groups(drafts, blocked);
      if (!blocked.empty()) return Attempt(std::move(blocked));
      structure.phases.emplace_back();
      STITCH_TRY(build_groups(groups, builder, forming, structure.phases.back(), blocked));
      if (!blocked.empty()) return Attempt(std::move(blocked));
      builder.record_stored(drafts);
    }
    std::erase_if(structure.phases, [](const PhaseStructure& each) { return each.groups.empty(); });
    return Attempt(std::move(structure));
  }

  /// All that is blocked in this phase is found at once: packed kernels have hundreds of groups.
  Status build_groups(const std::vector<std::vector<Draft*>>& groups, GroupBuilder& builder, GroupForming& forming,
                      PhaseStructure& phase, std::vector<Missing>& blocked) const {
    for (const std::vector<Draft*>& members : groups) {
      STITCH_TRY(check_stop());
      Result<GroupStructure> group = builder.build(members);
      if (group) {
        group->lasting_inputs = options_.lasting_inputs;
        phase.groups.push_back(std::move(*group));
      } else {
        if (!builder.blocked()) return group.error();
        blocked.push_back(missing(*builder.blocked()->draft, builder.blocked()->node));
      }
      forming.number_reductions(members);
      if (builder.buffers() > most_buffers)
        return make_error(ErrorKind::constraint, "more than {} parameters", most_buffers);
    }
    return {};
  }

  [[nodiscard]] Status check_stop() const {
    if (!options_.stop.stop_requested()) return {};
    return make_error(ErrorKind::cancelled, "stopped while a kernel's structure was derived");
  }

  /// Stores what was missing, and lets its reader wait until it is in memory.
  void store_first(const Missing& missing) {
    const bool stored_only = is_stored_only(graph_.node(missing.node).op);
    if (!stored_only) {
      for (std::int32_t r = 0; r < std::ssize(graph_.node(missing.node).results); ++r)
        options_.materialised.insert({missing.node, r});
    }
    const int ready = phases_.finished(missing.node) + (stored_only ? 0 : 1);
    const bool waits_as_output = missing.output >= 0 && !is_stored_only(graph_.node(missing.reader).op);
    int& earliest = waits_as_output ? earliest_output_[missing.output] : earliest_node_[missing.reader];
    earliest = std::max(earliest, ready);
  }

  const Graph& graph_;
  const AxisAnalysis& analysis_;
  StructureOptions options_;
  PhaseAssignment phases_;
  std::map<int, int> earliest_output_;   ///< by result: a phase before which it is not stored
  std::map<NodeId, int> earliest_node_;  ///< a phase before which a node is not computed
};

}  // namespace

bool gathers_any(const Graph& graph, const AxisAnalysis& analysis, const StructureOptions& options) {
  return PhaseAssignment(graph, analysis, options).gathers_any();
}

Result<KernelStructure> derive_structure(const Graph& graph, const AxisAnalysis& analysis,
                                         const StructureOptions& options) {
  return StructureBuilder(graph, analysis, options).build();
}

}  // namespace stitch::kernel
