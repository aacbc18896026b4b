#include "graph/cut.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "graph/cut_levels.h"

namespace stitch::graph {
namespace {

/// The second half of a cut: what every level leaves in memory, computes, and reads for that.
class Extractor {
 public:
  Extractor(const Graph& graph, const CutOptions& options)
      : graph_(graph), options_(options), levels_(graph, options), results_(is_result(graph)) {}

  CutGraph cut() {
    find_updates_in_place();
    collect_required();
    for (int level = std::max(levels_.last_level(), late_copies_level_); level >= 0; --level) extract(level);
    std::reverse(fragments_.begin(), fragments_.end());
    CutGraph cut = levels_.take_boundaries();  // whole loops stand behind what their level computes for them
    std::ranges::move(cut.fragments, std::back_inserter(fragments_));
    std::ranges::stable_sort(fragments_, {}, &FragmentSite::level);
    cut.fragments = std::move(fragments_);
    cut.donations = std::move(donations_);
    return cut;
  }

 private:
  // ---- updates in place -------------------------------------------------------------------------------------

  void find_updates_in_place() {
    for (std::size_t r = 0; options_.carried && r < graph_.results().size(); ++r) take_over(graph_.parameters()[r], r);
    for (const Donation& donation : options_.donations) {
      DonationOutcome outcome = take_over(graph_.parameters()[donation.parameter], donation.result);
      outcome.donation = donation;
      donations_.push_back(std::move(outcome));
    }
  }

  /// Has a result take a parameter's memory, where it may.
  DonationOutcome take_over(NodeId parameter, std::size_t result) {
    const Value update = levels_.storage(graph_.results()[result]);
    if (update.node == parameter) {
      stays_.insert(result);
      return {{}, true, "handed on as it is"};
    }
    const Op op = graph_.node(update.node).op;
    if (op != Op::dynamic_update_slice || levels_.is_boundary(update.node))
      return {{}, false, fmt::format("the result is made by {}, which is no update of a part", to_string(op))};
    if (!only_reader_of(parameter, update.node)) {
      for (const NodeId reader : levels_.uses(parameter)) {
        if (reader != update.node)
          return {{}, false, fmt::format("%{} ({}) reads it as well", reader, to_string(graph_.node(reader).op))};
      }
      return {{}, false, fmt::format("the result updates another tensor, or this one more than once")};
    }
    updates_in_place_.insert(update.node);
    return {{}, true, "only the update is written"};
  }

  /// Whether `reader` takes the parameter, reshaped at most, as its first operand, and nothing else uses it.
  [[nodiscard]] bool only_reader_of(NodeId parameter, NodeId reader) const {
    Value value = graph_.node(reader).operands[0];
    for (NodeId user = reader;; user = value.node, value = graph_.node(user).operands[0]) {
      const auto& operands = graph_.node(user).operands;
      if (levels_.uses(value.node) != std::vector<NodeId>{user} || results_[value.node]) return false;
      if (std::count(operands.begin(), operands.end(), value) != 1) return false;
      if (value.node == parameter) return true;
      if (graph_.node(value.node).op != Op::reshape) return false;
    }
  }

  // ---- extraction -------------------------------------------------------------------------------------------

  void require(Value value) {
    value = levels_.storage(value);
    if (levels_.is_in_place(value.node)) return;
    required_.insert(value);
  }

  void collect_required() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!levels_.is_boundary(id)) continue;
      for (const Value operand : levels_.boundary_operands(id)) require(operand);
    }
    std::set<Value> seen;
    for (std::size_t r = 0; r < graph_.results().size(); ++r) {
      const Value result = graph_.results()[r], value = levels_.storage(result);
      if (stays_.contains(r)) continue;  // where it is
      if (graph_.node(value.node).op == Op::parameter || !seen.insert(value).second) {
        copies_.insert(result);  // a result of its own needs memory of its own
        late_copies_level_ = std::max(late_copies_level_, level_behind(value));
      } else {
        require(value);
      }
    }
  }

  /// The first level at which a value is in memory or can be computed.
  [[nodiscard]] int level_behind(Value value) const {
    return levels_.level(value.node) + (levels_.is_boundary(value.node) ? 1 : 0);
  }

  /// Copies are the last level's, with whatever it computes; those of what a later boundary writes come behind it.
  [[nodiscard]] int level_of_copy(Value result) const {
    const int behind = level_behind(levels_.storage(result));
    return behind <= levels_.last_level() ? levels_.last_level() : late_copies_level_;
  }

  /// Level at which a required value is computed: cloned values with no other reader wait for nobody.
  [[nodiscard]] int level_of(Value value) const { return levels_.level(value.node); }

  /// What one level computes and what it reads for that.
  struct Extent {
    std::set<NodeId> members;
    std::vector<Value> arguments;
    std::set<Value> argument_set;
  };

  void extract(int level) {
    // What this level must leave in memory, and everything it needs for that.
    std::vector<Value> outputs;
    for (const Value value : required_) {
      if (level_of(value) == level) outputs.push_back(value);
    }
    std::ranges::copy_if(copies_, std::back_inserter(outputs),
                         [&](Value result) { return level_of_copy(result) == level; });
    if (outputs.empty()) return;
    std::set<NodeId> again;
    Extent extent = reach(level, outputs, again);
    constexpr int rounds = 4;
    for (int round = 0; options_.recompute && round < rounds; ++round) {
      if (!add_recomputed(extent, {}, again) && !add_recomputed(extent, common_operands(extent), again)) break;
      extent = reach(level, outputs, again);
    }
    for (const Value argument : extent.arguments) require(argument);
    build(level, extent.members, std::move(extent.arguments), outputs);
  }

  /// `again`: operators of earlier levels that this level computes for itself.
  [[nodiscard]] Extent reach(int level, const std::vector<Value>& outputs, const std::set<NodeId>& again) const {
    Extent extent;
    std::vector<NodeId> open;
    const auto need = [&](Value value) {
      const NodeId id = value.node;
      if (extent.members.contains(id)) return;
      const bool own =
          !levels_.is_in_place(id) && (levels_.level(id) == level || levels_.is_cloned(id) || again.contains(id));
      if (own) {
        extent.members.insert(id);
        open.push_back(id);
      } else if (extent.argument_set.insert(value).second) {
        extent.arguments.push_back(value);
      }
    };
    for (const Value output : outputs) need(output);
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      for (const Value operand : graph_.node(id).operands) need(operand);
    }
    return extent;
  }

  /// How a value of an earlier level could be computed anew.
  struct Recomputation {
    std::set<NodeId> cone;   ///< the operators
    std::set<Value> leaves;  ///< what they read
  };

  /// Looks for values of earlier levels that are cheaper to compute again than to store and read: an exponential in f32
  /// whose operand lies in memory in bf16. Values that would read the same are weighed together. `candidates` might be
  /// stored instead. Adds the operators to `again`; whether there were any.
  [[nodiscard]] bool add_recomputed(const Extent& extent, const std::set<Value>& candidates,
                                    std::set<NodeId>& again) const {
    struct Group {
      std::int64_t keeping = 0;  ///< bytes of storing and reading
      std::set<NodeId> cone;
    };
    std::map<std::set<Value>, Group> groups;
    for (const Value value : extent.arguments) {
      if (levels_.is_in_place(value.node) || graph_.type(value).bytes() < shared_read_bytes) continue;
      const std::optional<Recomputation> anew = recomputation(value, extent, candidates);
      if (!anew) continue;
      Group& group = groups[anew->leaves];
      group.keeping += handed_over(value);
      group.cone.insert(anew->cone.begin(), anew->cone.end());
    }
    bool found = false;
    for (const auto& [leaves, group] : groups) {
      std::int64_t reading = 0;
      for (const Value leaf : leaves) {
        if (!extent.argument_set.contains(leaf) && !extent.members.contains(leaf.node)) reading += handed_over(leaf);
      }
      if (reading * 4 > group.keeping * 3) continue;
      again.insert(group.cone.begin(), group.cone.end());
      found = true;
    }
    return found;
  }

  /// What several values of earlier levels are computed from: nine comparisons of one tensor of bytes.
  [[nodiscard]] std::set<Value> common_operands(const Extent& extent) const {
    std::set<Value> seen, common;
    for (const Value value : extent.arguments) {
      if (levels_.is_in_place(value.node)) continue;
      std::set<Value> operands;
      for (const Value operand : graph_.node(value.node).operands) operands.insert(moved(operand));
      for (const Value operand : operands) {
        if (graph_.type(operand).bytes() >= shared_read_bytes && !seen.insert(operand).second) common.insert(operand);
      }
    }
    return common;
  }

  /// What a value that repeats or shifts another's elements is made of.
  [[nodiscard]] Value moved(Value value) const {
    for (;;) {
      const Op op = graph_.node(value.node).op;
      const bool moves = op == Op::reshape || op == Op::broadcast || op == Op::pad;
      if (!moves || levels_.is_boundary(value.node)) return value;
      value = graph_.node(value.node).operands[0];
    }
  }

  /// Bytes of storing a value, unless that happens anyway, and reading it.
  [[nodiscard]] std::int64_t handed_over(Value value) const {
    const bool stored = levels_.is_in_place(value.node) || required_.contains(value);
    return graph_.type(value).bytes() * (stored ? 1 : 2);
  }

  /// The operators that compute `value` anew from what is in memory.
  [[nodiscard]] std::optional<Recomputation> recomputation(Value value, const Extent& extent,
                                                           const std::set<Value>& candidates) const {
    constexpr std::size_t most_operators = 24;
    const std::int64_t own = graph_.type(value).bytes();
    Recomputation anew{{value.node}, {}};
    std::vector<NodeId> open = {value.node};
    while (!open.empty()) {
      const Node& node = graph_.node(open.back());
      open.pop_back();
      const bool moves = node.op == Op::broadcast || node.op == Op::reshape || node.op == Op::pad ||
                         node.op == Op::constant || node.op == Op::iota;
      if (!moves && info(node.op).category != OpCategory::elementwise) return std::nullopt;
      if (makes_random_bits(node.op) || anew.cone.size() > most_operators) return std::nullopt;
      for (const Value operand : node.operands) {
        const Value stored = levels_.storage(operand);
        const bool small = graph_.type(operand).bytes() * 16 <= own;
        const bool there = levels_.is_in_place(stored.node) || required_.contains(stored) ||
                           candidates.contains(stored) || extent.argument_set.contains(operand) ||
                           extent.members.contains(operand.node);
        if (there || (small && !levels_.is_cloned(operand.node))) {
          anew.leaves.insert(there ? stored : operand);
        } else if (anew.cone.insert(operand.node).second) {
          open.push_back(operand.node);
        }
      }
    }
    return anew;
  }

  void build(int level, const std::set<NodeId>& members, std::vector<Value> arguments,
             const std::vector<Value>& outputs) {
    FragmentSite site;
    site.level = level;
    site.graph.constraints = graph_.constraints | options_.constraints;
    std::sort(arguments.begin(), arguments.end());
    std::map<Value, Value> inside;
    for (const Value argument : arguments) {
      Node parameter;
      parameter.op = Op::parameter;
      parameter.attributes = ParameterAttributes{graph_.type(argument)};
      parameter.results = {graph_.type(argument)};
      parameter.name = graph_.node(argument.node).name;
      inside[argument] = site.graph.add_unchecked(std::move(parameter));
    }
    for (const NodeId id : members) {
      Node copy = graph_.node(id);
      for (Value& operand : copy.operands) operand = inside.at(operand);
      if (updates_in_place_.contains(id)) copy.attributes = UpdateAttributes{true};
      const std::int32_t results = copy.results.size();
      const Value first = site.graph.add_unchecked(std::move(copy));
      for (std::int32_t r = 0; r < results; ++r) inside[{id, r}] = {first.node, r};
      site.nodes.push_back(id);
    }
    for (const Value output : outputs) site.graph.add_result(inside.at(output));
    site.results = outputs;
    site.arguments = std::move(arguments);
    fragments_.push_back(std::move(site));
  }

  const Graph& graph_;
  const CutOptions& options_;
  CutLevels levels_;
  std::vector<bool> results_;
  std::vector<FragmentSite> fragments_;
  std::set<NodeId> updates_in_place_;
  std::set<std::size_t> stays_;  ///< results that are the parameter whose memory they take
  std::vector<DonationOutcome> donations_;
  std::set<Value> required_;
  std::set<Value> copies_;
  int late_copies_level_ = 0;  ///< the level of copies of what boundaries behind the last level write
};

}  // namespace

CutGraph cut(const Graph& graph, const CutOptions& options) { return Extractor(graph, options).cut(); }

}  // namespace stitch::graph
