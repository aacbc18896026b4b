#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "kernel/program/program.h"
#include "search/schedule/group_ranking.h"

namespace stitch::search {

/// What becomes of the kernels that are assembled; the calls come in a fixed order.
class AssembledKernels {
 public:
  virtual ~AssembledKernels() = default;
  /// A kernel with everything decided; whether it is legal is not known yet.
  virtual void consider(const kernel::KernelProgram& program) = 0;
  /// Some mapping of a group cannot be.
  virtual void refuse(const Error& why) = 0;
  /// Not all mappings of a group are looked at.
  virtual void leave_out() = 0;
};

/// Assembles kernels of one structure under one choice of block, cluster and number of partial results: chooses of each
/// group's best mappings in turn, phase by phase, since how many partial results one phase leaves matters to the next,
/// and crosses from phase to phase in every way that is worth scoring.
class KernelAssembly {
 public:
  /// `base`: the schedule without phases. `width`: mappings that are tried of each group. All but `step` must outlive
  /// the assembly.
  KernelAssembly(const kernel::KernelStructure& structure, kernel::Schedule base, const MappingSpaceOptions& space,
                 int width, std::shared_ptr<const kernel::RecurrentStep> step, const Scorer& scorer,
                 GroupRanker& ranker, AssembledKernels& assembled);

  void assemble();

 private:
  /// A phase, a group of it, and how many partial results it finishes.
  using Place = std::tuple<std::size_t, std::size_t, std::int64_t>;

  void begin();
  void extend();
  void choose(const kernel::GroupStructure& group, kernel::GroupProgram& program);
  void finish();
  void rank_phase(std::size_t at);
  [[nodiscard]] std::int64_t partials_of(const kernel::GroupStructure& group) const;
  [[nodiscard]] std::optional<kernel::GroupProgram> with_leaders_mapping(const kernel::GroupStructure& group,
                                                                         std::int64_t partials) const;

  const kernel::KernelStructure& structure_;
  const kernel::Schedule base_;
  const MappingSpaceOptions& space_;
  const int width_;
  const std::shared_ptr<const kernel::RecurrentStep> step_;
  const Scorer& scorer_;
  GroupRanker& ranker_;
  AssembledKernels& assembled_;

  kernel::Schedule schedule_;                                  ///< as far as it is chosen
  std::vector<std::vector<kernel::GroupProgram*>> chosen_;     ///< of ranked_, for schedule_'s mappings
  std::map<graph::NodeId, std::int64_t> partials_;             ///< partial results that each reduction so far leaves
  std::map<Place, std::vector<kernel::GroupProgram>> ranked_;  ///< each group's best programs
  std::optional<std::size_t> leader_;   ///< a phase whose mapping others follow, to retain what it loads
  std::vector<std::size_t> following_;  ///< the phases that follow it
};

}  // namespace stitch::search
