#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/result.h"
#include "graph/cut.h"
#include "graph/graph.h"
#include "tuning/programs/grouped_sums.h"
#include "tuning/programs/region_piece.h"
#include "tuning/programs/row_groups.h"

namespace stitch::tuning {

/// Fragments whose parts that no value connects are pieces of their own, so that each has a place in the order of
/// steps.
struct PartsApart {
  std::int64_t least_bytes = 0;         ///< those that write at least so many; 0: none
  std::optional<std::set<int>> levels;  ///< of the fragments at these levels; nothing: of all

  [[nodiscard]] bool concern(const graph::FragmentSite& site) const {
    return least_bytes > 0 && (!levels || levels->contains(site.level));
  }
};

/// Of a graph whose sums over rows are made in two steps: these, and the graph where they are made in one.
struct SumsBefore {
  const GroupedSums* sums = nullptr;
  const graph::Graph* graph = nullptr;
};

/// A region's graph in pieces, and which of its values lies in whose memory.
class RegionPieces {
 public:
  /// `carried`, `whole_loop` and `constraints`: see graph::CutOptions; `own`: see graph::LibraryOptions, asked as well
  /// which products are one piece, and which have what stands behind them; `quick_layouts`: likewise. `sums`: what
  /// `graph` is of, where its sums are made in two steps: those that no product's kernel begins are made in one.
  /// `graph` and `sums` must outlive it.
  RegionPieces(const graph::Graph& graph, bool carried, const std::function<bool(const graph::Graph&)>& whole_loop,
               const graph::Constraints& constraints = {}, const graph::OwnCall& own = {}, bool quick_layouts = false,
               const PartsApart& apart = {}, const SumsBefore& sums = {});

  [[nodiscard]] const graph::Graph& graph() const { return graph_; }
  [[nodiscard]] const std::vector<RegionPiece>& pieces() const { return pieces_; }

  /// The value in whose memory `value` lies: a reshape lies in its operand's.
  [[nodiscard]] graph::Value memory_of(graph::Value value) const;
  /// The parameter (its position) that a fragment's result updates in place; -1: none.
  [[nodiscard]] int updated_parameter(const RegionPiece& piece, std::size_t result) const;

 private:
  const graph::Graph& graph_;
  const bool carried_;
  const SumsBefore sums_;
  graph::CutGraph cut_;

  /// A call may read through the layout operators in another call's epilogue, whose result is what lies in memory: the
  /// call then reads that, and shows it as the operators in between say.
  void read_what_is_made(RegionPiece& piece, const graph::LibraryCall& call) const;

  void add_fragment(const graph::FragmentSite& site);
  /// The parts of a fragment that write at least so many bytes, and all others as one; nothing: the fragment is one.
  [[nodiscard]] std::vector<graph::FragmentSite> large_parts_of(const graph::FragmentSite& site,
                                                                std::int64_t least) const;

  /// Make pieces of groups of them.
  void merge(const graph::OwnCall& own);
  void merge_rows(const graph::OwnCall& own);
  void merge_sums(const std::function<bool(const graph::Graph&)>& own);
  void merge_products(const std::function<bool(const graph::Graph&)>& own);
  void merge_operands(const graph::OwnCall& own);
  /// Sums that no product's kernel begins are made in one step.
  void settle_sums();
  /// What adds up those that products' kernels begin becomes one fragment, as far as no part waits for another.
  void add_up_together();
  /// A maker with what it writes now; false: it is none any more.
  bool rewrite(RegionPiece& maker, std::vector<graph::Value> writes);
  void drop(const std::vector<bool>& gone);
  void take(RowGroup& group);
  /// The pieces, with fragments behind products as the parts that no value connects, where these may be gates; but for
  /// those that are to be kept.
  std::vector<RegionPiece> parted(const std::set<const graph::FragmentSite*>& kept);

  std::vector<RegionPiece> pieces_;
  std::deque<graph::FragmentSite> parts_;  ///< fragments that are parts of others, and which these are
  std::map<const graph::FragmentSite*, const graph::FragmentSite*> whole_;
  std::set<graph::Value> made_;                 ///< parameters, and what pieces write
  std::set<const graph::FragmentSite*> rests_;  ///< fragments that add up what products' kernels leave
};

}  // namespace stitch::tuning
