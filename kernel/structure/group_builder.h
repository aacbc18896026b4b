#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "kernel/structure/structure.h"

namespace stitch::kernel {

/// An anchor before its items exist.
struct Draft {
  enum class Kind { output, piece, update, reduce, finish, keep, scan, scatter, fill, add_updates };
  Kind kind = Kind::output;
  graph::NodeId node = -1;
  graph::Value value;                ///< the value whose elements the anchor ranges over
  int output = -1;                   ///< result index, for output and piece
  std::vector<std::int64_t> offset;  ///< piece: where it starts in the output
  int phase = 0;
  std::vector<int> axes;                               ///< outermost first
  std::set<graph::NodeId> local_reductions, finished;  ///< reductions of this phase that it needs
  std::set<graph::NodeId> loads;  ///< nodes whose large values it reads from memory, or computes at length
  bool global = false;            ///< reduce: leaves partials
};

/// Results are only ever read from memory.
bool is_stored_only(graph::Op op);

/// Whether a scatter fills its result in one phase and adds the updates with atomics in the next. Where the order of
/// the updates matters, and for few updates, every element collects its own.
bool adds_atomically(const graph::Graph& graph, graph::NodeId id);

/// The type in which a value lies in scratch memory.
graph::DType accumulator_of(const graph::Graph& graph, graph::Value value);

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
  Result<Anchor> build_special(const Draft& draft, ScalarProgram& program, Anchor anchor);

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
