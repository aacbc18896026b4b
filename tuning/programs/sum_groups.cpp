#include "tuning/programs/sum_groups.h"

#include <algorithm>
#include <map>
#include <optional>

#include "graph/subgraph.h"
#include "kernel/contraction/summed_contraction.h"

namespace stitch::tuning {
namespace {

using graph::Graph;
using graph::Value;

/// Pieces on the longest way from a product to the one that takes it, where what it reads is more than little, bytes.
constexpr int most_pieces_between = 4;
constexpr std::int64_t little = 1 << 20;

class SumGrouping {
 public:
  SumGrouping(const Graph& graph, std::span<const RegionPiece> pieces, const std::function<Value(Value)>& memory_of,
              const std::function<bool(const Graph&)>& wanted)
      : graph_(graph),
        pieces_(pieces),
        memory_of_(memory_of),
        wanted_(wanted),
        waits_(pieces, memory_of),
        taken_(pieces.size(), false) {
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      if (is_one_product(graph, pieces[p])) writers_.emplace(pieces[p].writes[0], p);
    }
  }

  std::vector<SumGroup> group() {
    std::vector<SumGroup> groups;
    for (std::size_t last = pieces_.size(); last-- > 0;) {
      if (taken_[last] || !ends(last)) continue;
      SumGroup group{{last}, pieces_[last].reads, pieces_[last].writes};
      while (group.pieces.size() < kernel::most_terms && extend(group)) {
      }
      if (group.pieces.size() < 2) continue;
      for (const std::size_t p : group.pieces) taken_[p] = true;
      groups.push_back(std::move(group));
    }
    return groups;
  }

 private:
  [[nodiscard]] bool ends(std::size_t p) const {
    return is_one_product(graph_, pieces_[p]) || std::holds_alternative<ProductAndRows>(pieces_[p].work);
  }

  /// By a product before the first one.
  bool extend(SumGroup& group) {
    for (const Value value : group.reads) {
      const auto writer = writers_.find(memory_of_(value));
      if (writer == writers_.end() || taken_[writer->second]) continue;
      std::optional<SumGroup> larger = with(writer->second, group);
      if (!larger) continue;
      group = *std::move(larger);
      return true;
    }
    return false;
  }

  [[nodiscard]] std::optional<SumGroup> with(std::size_t product, const SumGroup& group) const {
    const Value result = pieces_[product].writes[0];
    const auto is_result = [&](Value value) { return memory_of_(value) == result; };
    // Only the group reads it: it waits for nobody who waits for the group.
    const std::vector<std::size_t>& readers = waits_.readers(product);
    if (std::ranges::any_of(graph_.results(), is_result) || readers.size() != 1 ||
        std::ranges::count(group.pieces, readers[0]) == 0)
      return std::nullopt;
    if (waits_.depth(group.pieces.back()) - waits_.depth(product) > most_pieces_between && bytes_read(product) > little)
      return std::nullopt;
    SumGroup larger{{product}, pieces_[product].reads, group.writes};
    larger.pieces.insert(larger.pieces.end(), group.pieces.begin(), group.pieces.end());
    std::ranges::remove_copy_if(group.reads, std::back_inserter(larger.reads), is_result);
    larger.reads = distinct(larger.reads);
    const Result<Graph> one = graph::subgraph(graph_, larger.reads, larger.writes);
    if (!one || !kernel::derive_summed(*one) || !wanted_(*one)) return std::nullopt;
    return larger;
  }
  [[nodiscard]] std::int64_t bytes_read(std::size_t p) const {
    std::int64_t bytes = 0;
    for (const Value value : pieces_[p].reads) bytes += graph_.type(value).bytes();
    return bytes;
  }

  const Graph& graph_;
  const std::span<const RegionPiece> pieces_;
  const std::function<Value(Value)>& memory_of_;
  const std::function<bool(const Graph&)>& wanted_;
  PieceDependencies waits_;
  std::map<Value, std::size_t> writers_;  ///< products by what they write
  std::vector<bool> taken_;               ///< pieces that are in a group
};

}  // namespace

std::vector<SumGroup> group_sums(const Graph& graph, std::span<const RegionPiece> pieces,
                                 const std::function<Value(Value)>& memory_of,
                                 const std::function<bool(const Graph&)>& wanted) {
  return SumGrouping(graph, pieces, memory_of, wanted).group();
}

}  // namespace stitch::tuning
