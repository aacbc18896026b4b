#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "graph/graph.h"
#include "kernel/program/program.h"
#include "search/schedule/mapping_space.h"
#include "search/schedule/scorer.h"

namespace stitch::search {

/// The mappings of a group that are legal alone, best prediction first.
struct GroupRanking {
  std::vector<kernel::GroupMapping> best;
  bool whole = true;           ///< all of them
  std::optional<Error> error;  ///< why some mapping was refused
};

/// A group to be ranked, where the phase before has left so many partial results.
struct RankedGroup {
  const kernel::GroupStructure* group = nullptr;
  std::int64_t partials = 1;
};

/// Ranks the mappings of groups, each as if it were a kernel by itself: combining the mappings of all groups of a
/// kernel would be out of reach, and what is best alone is rarely far from best together. Groups that compute the same
/// are ranked once, in whatever structure they are: a packed optimizer has hundreds.
class GroupRanker {
 public:
  /// `step`: of a recurrent kernel, else null. Graph and scorer must outlive the ranker.
  GroupRanker(const graph::Graph& graph, std::shared_ptr<const kernel::RecurrentStep> step, const Scorer& scorer)
      : graph_(graph), step_(std::move(step)), scorer_(scorer) {}

  /// The rankings of groups of one phase, in their order; side by side on all cores. `space`: of which its number of
  /// partial results is each group's own. `width`: how many of the best mappings are wanted of each. The references
  /// stay valid.
  std::vector<const GroupRanking*> rank(std::span<const RankedGroup> groups, const MappingSpaceOptions& space,
                                        int width);
  /// Groups are known by where they are: of another structure there are others.
  void forget_groups() { hashes_.clear(); }

  /// The part of a schedule under which a group is derived alone.
  [[nodiscard]] kernel::Schedule alone(const MappingSpaceOptions& space) const;

 private:
  struct Key {
    Hash128 group;  ///< group_hash
    std::int64_t partials = 1, partial_tiles = 1;
    int threads = 0, cluster = 0;
    int width = 1;
    auto operator<=>(const Key&) const = default;
  };

  const Hash128& hash_of(const kernel::GroupStructure& group);
  [[nodiscard]] GroupRanking ranked(const kernel::GroupStructure& group, const MappingSpaceOptions& space,
                                    int width) const;

  const graph::Graph& graph_;
  const std::shared_ptr<const kernel::RecurrentStep> step_;
  const Scorer& scorer_;
  std::map<Key, GroupRanking> rankings_;
  std::unordered_map<const kernel::GroupStructure*, Hash128> hashes_;
};

}  // namespace stitch::search
