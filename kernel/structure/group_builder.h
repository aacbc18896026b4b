#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "kernel/structure/draft.h"
#include "kernel/structure/structure.h"

namespace stitch::kernel {

/// Builds the groups of one structure, phase after phase, from what each is to compute: items by index propagation
/// (kernel/structure/scalar_program), anchors, sweeps.
class GroupBuilder {
 public:
  /// `structure` gets the intermediates that groups leave in memory; it and the others outlive the builder.
  GroupBuilder(const graph::Graph& graph, const AxisAnalysis& analysis, KernelStructure& structure)
      : graph_(graph), analysis_(analysis), structure_(structure) {}

  /// Where an anchor needs a node's value that is not at hand.
  struct Block {
    const Draft* draft = nullptr;
    graph::NodeId node = -1;
  };
  /// The group of these drafts, which `structure` may not hold yet. Fails with kind constraint; `blocked()` then says
  /// what would have to be stored first, where that is the reason.
  Result<GroupStructure> build(const std::vector<Draft*>& members);
  [[nodiscard]] std::optional<Block> blocked() const { return blocked_; }

  /// What a phase leaves in memory, for the phases after it.
  void record_stored(const std::vector<Draft*>& drafts);
  [[nodiscard]] bool is_stored(graph::Value value) const { return !stored_->empty() && stored_->contains(value); }
  /// Buffers that the groups so far name, each group its own.
  [[nodiscard]] std::size_t buffers() const { return buffers_; }

 private:
  Result<Anchor> build_anchor(const Draft& draft, GroupStructure& group);
  Result<Anchor> build_reduce(const Draft& draft, ScalarProgram& program, Anchor anchor);
  Result<Anchor> build_finish(const Draft& draft, GroupStructure& group, Anchor anchor);
  Result<Anchor> build_whole(const Draft& draft, graph::Value source, ScalarProgram& program, Anchor anchor);
  Result<Anchor> build_update(const Draft& draft, ScalarProgram& program, Anchor anchor);
  Result<Anchor> build_scan(const Draft& draft, ScalarProgram& program, Anchor anchor);
  Result<Anchor> build_sort(const Draft& draft, ScalarProgram& program, Anchor anchor);
  Result<Anchor> build_scatter(const Draft& draft, ScalarProgram& program, Anchor anchor);

  void address_results(const Draft& draft, const std::vector<Index>& indices, ScalarProgram& program, Anchor& anchor);
  Buffer buffer_of(const Draft& draft);
  Buffer scratch_for(graph::Value value);
  std::vector<Buffer> partials_for(graph::NodeId id);
  [[nodiscard]] StoredValue in_scratch(graph::Value value) const;
  void count_buffers(const GroupStructure& group);

  const graph::Graph& graph_;
  const AxisAnalysis& analysis_;
  KernelStructure& structure_;
  std::shared_ptr<const StoredValues> stored_ = std::make_shared<StoredValues>();
  std::map<graph::Value, int> scratch_of_;
  std::map<graph::NodeId, std::vector<Buffer>> partials_of_;
  std::optional<Block> blocked_;
  std::size_t buffers_ = 0;
};

}  // namespace stitch::kernel
