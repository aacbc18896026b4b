#include "graph/passes/unrolled/unrolled_loop.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "graph/canonical.h"
#include "graph/passes/unrolled/step_pairs.h"

namespace stitch::graph {
namespace {

using TurnOperand = UnrolledLoop::Operand;
using TurnLine = UnrolledLoop::Line;

/// All turns of one operator, the earliest first.
struct TurnChain {
  std::vector<NodeId> nodes;
  bool core = false;       ///< found on the way from one turn to the one before
  std::int64_t first = 0;  ///< turn of the first node, counted from that of the earliest chain
  bool taken = true;
  bool moved = false;      ///< of the last round of alignment
  bool other_way = false;  ///< from the last turn to the first
  TurnLine line;

  [[nodiscard]] std::int64_t end() const { return first + std::ssize(nodes); }
};

class LoopFinder {
 public:
  LoopFinder(const Graph& graph, const NodeKinds& kinds, const std::vector<std::vector<NodeId>>& users,
             std::int64_t fewest_turns, bool thorough)
      : graph_(graph), kinds_(kinds), users_(users), fewest_turns_(fewest_turns), thorough_(thorough), pairs_(graph) {}

  std::optional<UnrolledLoop> from(NodeId later, NodeId earlier) {
    if (!pairs_.walk(later, earlier, true)) return std::nullopt;
    // Only of what a turn is computed from the one before: otherwise they are rows of a batch, not turns.
    if (pairs_.before(earlier) < 0) return std::nullopt;
    const std::size_t core = pairs_.paired().size();
    products_ = std::ranges::any_of(pairs_.paired(), [&](NodeId id) { return graph_.node(id).op == Op::dot; });
    for (const Evidence evidence : {Evidence::operands, Evidence::both_sides, Evidence::one_side, Evidence::users}) {
      while (pair_readers(evidence)) {
      }
    }
    make_chains(core);
    if (!align()) return std::nullopt;
    const auto turns = best_turns();
    if (!turns || !(choose_turns(*turns) && drop_what_differs())) return std::nullopt;
    return finished();
  }

 private:
  /// By what two readers are taken for the same of two turns. Where all that it is made of is paired (looked at where
  /// thorough), it is sure. Turns in the middle look alike on both sides, the first and the last ones on one,
  /// the first two perhaps only next to them.
  enum class Evidence : std::uint8_t { operands, both_sides, one_side, users };

  [[nodiscard]] bool looks_alike(NodeId later, NodeId earlier, Evidence evidence) const {
    if (evidence == Evidence::operands) return thorough_ && has_paired_operands(later, earlier);
    const bool behind = kinds_.made_of[earlier] == kinds_.made_of[later];
    const bool ahead = kinds_.used_for[earlier] == kinds_.used_for[later];
    if (evidence == Evidence::both_sides) return behind && ahead;
    if (evidence == Evidence::one_side) return behind || ahead;
    return kinds_.used_by[earlier] == kinds_.used_by[later];
  }

  /// Operands that are paired, the same, or rearranged slices of one tensor.
  [[nodiscard]] bool has_paired_operands(NodeId later, NodeId earlier) const {
    const auto sliced = [&](NodeId id) {
      while (graph_.node(id).op == Op::reshape || graph_.node(id).op == Op::transpose)
        id = graph_.node(id).operands[0].node;
      return graph_.node(id).op == Op::slice ? graph_.node(id).operands[0].node : -1;
    };
    const std::vector<Value>&a = pairs_.operands(later), &b = pairs_.operands(earlier);
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i] || pairs_.before(a[i].node) == b[i].node) continue;
      if (sliced(a[i].node) < 0 || sliced(a[i].node) != sliced(b[i].node)) return false;
    }
    return true;
  }

  /// What reads the turns without being handed on: outputs, and states of their own. From the last turn to the first,
  /// so that a walk along such a state goes through all turns.
  bool pair_readers(Evidence evidence) {
    const std::size_t before_all = pairs_.paired().size();
    for (NodeId id = graph_.size(); id-- > 0;) {
      const Node& node = graph_.node(id);
      if (pairs_.before(id) >= 0 || !may_read(node)) continue;
      for (std::size_t i = 0; i < node.operands.size(); ++i) {
        const NodeId before = pairs_.before(pairs_.operands(id)[i].node);
        if (before >= 0 && pair_reader(id, i, before, evidence)) break;
      }
    }
    return pairs_.paired().size() > before_all;
  }

  bool pair_reader(NodeId later, std::size_t operand, NodeId read, Evidence evidence) {
    for (const NodeId earlier : users_[read]) {
      const Node& node = graph_.node(earlier);
      if (earlier == later || pairs_.after(earlier) >= 0 || node.op != graph_.node(later).op) continue;
      if (!looks_alike(later, earlier, evidence)) continue;
      const bool same_place = is_commutative(node) || pairs_.operands(earlier)[operand].node == read;
      if (same_place && pairs_.walk(later, earlier, node.op == Op::dot)) return true;
    }
    return false;
  }

  /// Products of what a recurrence without products hands on stay outside: over all turns they are one large product. A
  /// recurrence with products takes them in, as its gradients' are, and split_loops makes one of them after the loop.
  [[nodiscard]] bool may_read(const Node& node) const {
    const OpCategory category = info(node.op).category;
    if (node.op == Op::concatenate || node.op == Op::pad) return false;
    if (node.op == Op::dot) return products_;
    return category == OpCategory::elementwise || category == OpCategory::layout || node.op == Op::reduce;
  }

  void make_chains(std::size_t core) {
    chain_of_.assign(graph_.size(), -1);
    index_of_.assign(graph_.size(), 0);
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (pairs_.after(id) >= 0 || pairs_.before(id) < 0) continue;
      TurnChain chain;
      for (NodeId at = id; at >= 0; at = pairs_.before(at)) chain.nodes.push_back(at);
      std::ranges::reverse(chain.nodes);
      for (std::size_t i = 0; i < chain.nodes.size(); ++i) {
        chain_of_[chain.nodes[i]] = static_cast<int>(chains_.size());
        index_of_[chain.nodes[i]] = static_cast<std::int64_t>(i);
      }
      chains_.push_back(std::move(chain));
    }
    for (std::size_t i = 0; i < core; ++i) {
      const int chain = chain_of_[pairs_.paired()[i]];
      if (chain >= 0) chains_[chain].core = true;
    }
  }

  [[nodiscard]] std::int64_t turn_of(NodeId id) const { return chains_[chain_of_[id]].first + index_of_[id]; }

  /// No operand is of a later turn: chains that begin in a later turn than the earliest ones do are moved there. Those
  /// that never come to rest go the other way, as gradients do: they stay outside.
  bool align() {
    for (;;) {
      for (TurnChain& chain : chains_) chain.first = 0;
      bool moved = true;
      for (std::size_t round = 0; moved && round < chains_.size() + 2; ++round) moved = move_chains();
      if (!moved) return true;
      for (TurnChain& chain : chains_) {
        if (!chain.moved) continue;
        if (chain.core) return false;
        chain.other_way = true;
      }
    }
  }

  bool move_chains() {
    bool any = false;
    for (TurnChain& chain : chains_) {
      chain.moved = false;
      if (chain.other_way) continue;
      for (const Value operand : graph_.node(chain.nodes.back()).operands) {
        const int other = chain_of_[operand.node];
        if (other < 0 || chains_[other].other_way) continue;
        const std::int64_t behind = turn_of(operand.node) - turn_of(chain.nodes.back());
        if (behind <= 0) continue;
        chain.first += behind;
        any = chain.moved = true;
      }
    }
    return any;
  }

  /// Which turns are taken in, beside those of which everything that is handed on is there.
  struct Turns {
    std::int64_t less = 0;  ///< at the beginning
    std::int64_t more = 0;  ///< at the end: one of which other things are there; or less
  };

  /// What the last turn would hand on is often gone, because nothing needs it, while its output is there. Where it is
  /// thorough, the turns that take in most: the sums that a gradient adds up differ in the first and the last turns,
  /// where there is nothing yet to multiply with or to add to.
  std::optional<Turns> best_turns() {
    const std::int64_t most_less = thorough_ ? 3 : 0, least_more = thorough_ ? -2 : 0;
    std::optional<Turns> best;
    std::ptrdiff_t most = 0;
    for (std::int64_t fewer = -1; fewer <= most_less - least_more; ++fewer) {
      for (std::int64_t less = 0; less <= most_less; ++less) {
        const Turns turns{less, less - fewer};
        if (turns.more > 1 || turns.more < least_more || !choose_turns(turns) || !drop_what_differs()) continue;
        const auto taken = std::ranges::count_if(chains_, &TurnChain::taken);
        if (taken > most) best = turns;
        most = std::max(most, taken);
        if (!thorough_ || std::ranges::all_of(chains_, [](const TurnChain& c) { return c.taken || c.other_way; }))
          return best;
      }
    }
    return best;
  }

  bool choose_turns(const Turns& turns) {
    std::int64_t end = -1;
    first_ = 0;
    for (const TurnChain& chain : chains_) {
      if (!chain.core) continue;
      first_ = std::max(first_, chain.first);
      end = end < 0 ? chain.end() : std::min(end, chain.end());
    }
    first_ += turns.less;
    turns_ = end - first_ + turns.more;
    if (turns_ < fewest_turns_) return false;
    bool is_longer = false;
    for (TurnChain& chain : chains_) {
      chain.taken = !chain.other_way && chain.first <= first_ && chain.end() >= std::min(end, first_ + turns_);
      if (!chain.taken && chain.core) return false;
      is_longer = is_longer || (chain.taken && chain.end() > end);
    }
    return is_longer || turns.more <= 0;
  }

  /// -1: nothing needs it in this turn, the last.
  [[nodiscard]] NodeId node_at(const TurnChain& chain, std::int64_t turn) const {
    const std::int64_t at = first_ + turn - chain.first;
    return at < std::ssize(chain.nodes) ? chain.nodes[at] : -1;
  }
  /// A turn of which all is there.
  [[nodiscard]] std::int64_t sample() const { return turns_ - 2; }

  /// Leaves out what is not the same in all turns, and what reads it. False: something that the turns need.
  bool drop_what_differs() {
    bool stable = false;
    while (!stable) {
      stable = true;
      mark_dependents();
      for (TurnChain& chain : chains_) {
        if (!chain.taken) continue;
        if (describe(chain)) continue;
        if (chain.core) return false;
        chain.taken = stable = false;
      }
    }
    return true;
  }

  /// What depends on a turn: none of it may be an invariant, or what the first turn begins with.
  void mark_dependents() {
    inside_.assign(graph_.size(), false);
    for (const TurnChain& chain : chains_) {
      for (std::int64_t turn = 0; chain.taken && turn < turns_; ++turn) {
        if (const NodeId id = node_at(chain, turn); id >= 0) inside_[id] = true;
      }
    }
    // A chain that takes in nothing of the turn before is computed outside as well.
    std::vector<bool> hands_on(chains_.size(), false);
    for (bool grows = true; grows;) {
      grows = false;
      for (std::size_t c = 0; c < chains_.size(); ++c) {
        if (!chains_[c].taken || hands_on[c]) continue;
        const NodeId id = node_at(chains_[c], sample());
        for (const Value operand : graph_.node(id).operands) {
          const int other = chain_of_[operand.node];
          if (other < 0 || !chains_[other].taken) continue;
          if (!hands_on[other] && turn_of(operand.node) == first_ + sample()) continue;
          hands_on[c] = grows = true;
        }
      }
    }
    dependent_.assign(graph_.size(), false);
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const int chain = chain_of_[id];
      if (inside_[id] && hands_on[chain]) dependent_[id] = true;
      for (const Value operand : graph_.node(id).operands) {
        if (dependent_[operand.node]) dependent_[id] = true;
      }
    }
    for (std::size_t c = 0; c < chains_.size(); ++c) chains_[c].line.hands_on = hands_on[c];
  }

  bool describe(TurnChain& chain) const {
    TurnLine& line = chain.line;
    line.operands.clear();
    line.advance.reset();
    const Node& node = graph_.node(node_at(chain, sample()));
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const auto operand = operand_of(chain, i);
      if (!operand) return false;
      line.operands.push_back(*operand);
    }
    return node.op != Op::slice || describe_slice(chain);
  }

  std::optional<TurnOperand> operand_of(const TurnChain& chain, std::size_t i) const {
    const auto at = [&](std::int64_t turn) { return pairs_.operands(node_at(chain, turn))[i]; };
    const std::int64_t turns = std::min(turns_, chain.end() - first_);
    const Value sampled = at(sample());
    const int other = chain_of_[sampled.node];
    if (other < 0 || !chains_[other].taken || !inside_[sampled.node]) {
      for (std::int64_t turn = 0; turn < turns; ++turn) {
        if (at(turn) != sampled) return std::nullopt;
      }
      if (dependent_[sampled.node]) return std::nullopt;
      return TurnOperand{TurnOperand::Kind::invariant, -1, sampled};
    }
    const TurnChain& from = chains_[other];
    const std::int64_t lag = first_ + sample() - turn_of(sampled.node);
    if (lag < 0 || lag > 1) return std::nullopt;  // below 0: turns of another loop, which goes the other way
    for (std::int64_t turn = lag; turn < turns; ++turn) {
      if (at(turn) != Value{node_at(from, turn - lag), 0}) return std::nullopt;
    }
    if (lag == 0) return TurnOperand{TurnOperand::Kind::this_turn, other, {}};
    if (dependent_[at(0).node] || graph_.type(at(0)) != graph_.type(sampled)) return std::nullopt;
    return TurnOperand{TurnOperand::Kind::turn_before, other, at(0)};
  }

  /// Equal slices, or slices of an invariant that advance along one dimension by the same in every turn.
  bool describe_slice(TurnChain& chain) const {
    const auto attributes = [&](std::int64_t turn) -> const SliceAttributes& {
      return graph_.node(node_at(chain, turn)).as<SliceAttributes>();
    };
    const SliceAttributes& first = attributes(0);
    const SliceAttributes& second = attributes(1);
    for (std::size_t d = 0; d < first.starts.size(); ++d) {
      const std::int64_t step = second.starts[d] - first.starts[d];
      if (step == 0) continue;
      if (chain.line.advance) return false;
      chain.line.advance = {d, step};
    }
    if (const auto& advance = chain.line.advance) {
      if (chain.line.operands[0].kind != TurnOperand::Kind::invariant || node_at(chain, turns_ - 1) < 0) return false;
      const std::int64_t extent = first.limits[advance->dimension] - first.starts[advance->dimension];
      if (std::abs(advance->step) != extent || first.strides[advance->dimension] != 1) return false;
    }
    for (std::int64_t turn = 0; turn < turns_ && node_at(chain, turn) >= 0; ++turn) {
      SliceAttributes expected = first;
      if (chain.line.advance) {
        const auto [d, step] = *chain.line.advance;
        expected.starts[d] += turn * step;
        expected.limits[d] += turn * step;
      }
      if (attributes(turn) != expected) return false;
    }
    return true;
  }

  std::optional<UnrolledLoop> finished() {
    UnrolledLoop loop;
    loop.turns = turns_;
    std::vector<int> order;
    for (std::size_t c = 0; c < chains_.size(); ++c) {
      if (chains_[c].taken) order.push_back(static_cast<int>(c));
    }
    std::ranges::sort(order, {}, [&](int c) { return node_at(chains_[c], sample()); });
    std::vector<std::int32_t> position(chains_.size(), -1);
    for (const int c : order) {
      TurnChain& chain = chains_[c];
      position[c] = static_cast<std::int32_t>(loop.lines.size());
      for (std::int64_t turn = 0; turn < turns_; ++turn) chain.line.nodes.push_back(node_at(chain, turn));
      loop.lines.push_back(std::move(chain.line));
    }
    for (TurnLine& line : loop.lines) {
      for (TurnOperand& operand : line.operands) {
        if (operand.line >= 0) operand.line = position[operand.line];
      }
    }
    return loop;
  }

  const Graph& graph_;
  const NodeKinds& kinds_;
  const std::vector<std::vector<NodeId>>& users_;
  const std::int64_t fewest_turns_;
  const bool thorough_;
  StepPairs pairs_;
  bool products_ = false;  ///< there are some on the way from one turn to the next
  std::vector<TurnChain> chains_;
  std::vector<int> chain_of_;           ///< by node; -1: none
  std::vector<std::int64_t> index_of_;  ///< by node: its place in its chain
  std::int64_t first_ = 0, turns_ = 0;
  std::vector<bool> inside_, dependent_;
};

}  // namespace

std::optional<UnrolledLoop> find_unrolled_loop(const Graph& graph, std::int64_t fewest_turns, bool thorough,
                                               const std::function<bool(const UnrolledLoop&)>& accepts) {
  const NodeKinds kinds = kinds_of(graph);
  const auto readers = users(graph);
  for (const auto& [later, earlier] : repeated_steps(graph, kinds, fewest_turns)) {
    auto found = LoopFinder(graph, kinds, readers, fewest_turns, thorough).from(later, earlier);
    if (found && accepts(*found)) return found;
  }
  return std::nullopt;
}

}  // namespace stitch::graph
