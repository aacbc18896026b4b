#include "graph/cut.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "graph/fill.h"

namespace stitch::graph {
namespace {

/// A cone of cheap operators is recomputed when what it reads is this much smaller than what it makes.
constexpr std::int64_t recompute_ratio = 4;
constexpr std::size_t recompute_leaves = 12;
/// Storing and reading less than this is no reason to keep an operator at its level.
constexpr std::int64_t shared_read_bytes = 64 * 1024;

class Cutter {
 public:
  Cutter(const Graph& graph, const CutOptions& options)
      : graph_(graph), options_(options), uses_(users(graph)), results_(is_result(graph)) {}

  CutGraph cut() {
    cut_.calls = find_library_calls(graph_, options_.library);
    mark_boundaries();
    if (options_.whole_loop) find_whole_loops();
    if (options_.carried) find_updates_in_place();
    find_levels();
    find_recomputable();
    if (options_.sink) sink_tails();
    collect_required();
    for (int level = last_level_; level >= 0; --level) extract(level);
    std::reverse(cut_.fragments.begin(), cut_.fragments.end());
    for (auto& [id, site] : whole_loops_) {  // behind what their level computes for them
      site.level = level_[at(id)];
      cut_.fragments.push_back(std::move(site));
    }
    std::ranges::stable_sort(cut_.fragments, {}, &FragmentSite::level);
    return std::move(cut_);
  }

 private:
  static constexpr int none = -1;
  static std::size_t at(NodeId id) { return static_cast<std::size_t>(id); }

  // ---- boundaries and levels --------------------------------------------------------------------------------

  /// call_of_[n] ≥ 0: node n is computed by that call; `control`: a boundary of its own.
  void mark_boundaries() {
    call_of_.assign(at(graph_.size()), none);
    boundary_.assign(at(graph_.size()), false);
    for (std::size_t c = 0; c < cut_.calls.size(); ++c) {
      call_of_[at(cut_.calls[c].root)] = static_cast<int>(c);
      for (const NodeId id : cut_.calls[c].epilogue) call_of_[at(id)] = static_cast<int>(c);
    }
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const OpCategory category = info(graph_.node(id).op).category;
      const bool generated = category != OpCategory::boundary && category != OpCategory::control;
      const bool supported =
          !generated || category == OpCategory::contraction || !options_.supported || options_.supported(graph_, id);
      if (!generated || !supported) cut_.others.push_back(id);
      boundary_[at(id)] = !generated || !supported || call_of_[at(id)] >= 0;
    }
  }

  /// Loops that become fragments. They stay boundaries: what they read is in memory before, what they leave after.
  void find_whole_loops() {
    std::erase_if(cut_.others, [&](NodeId id) {
      if (graph_.node(id).op != Op::loop) return false;
      FragmentSite site = loop_site(id);
      if (site.results.empty() || !options_.whole_loop(site.graph)) return false;
      whole_loops_.emplace(id, std::move(site));
      cut_.loops.push_back(id);
      return true;
    });
  }

  /// A loop with what fills its operands with one number; its other operands are parameters.
  [[nodiscard]] FragmentSite loop_site(NodeId loop) const {
    FragmentSite site;
    std::map<Value, Value> inside;
    const std::function<Value(Value)> take = [&](Value value) {
      if (const auto found = inside.find(value); found != inside.end()) return found->second;
      Node copy = graph_.node(value.node);
      if (fill_bits(graph_, value)) {
        for (Value& operand : copy.operands) operand = take(operand);
      } else {
        copy.op = Op::parameter, copy.operands.clear(), copy.regions.clear();
        copy.attributes = ParameterAttributes{graph_.type(value)};
        copy.results = {graph_.type(value)};
        site.arguments.push_back(value);
      }
      return inside[value] = site.graph.add_unchecked(std::move(copy));
    };
    Node copy = graph_.node(loop);
    for (Value& operand : copy.operands) operand = take(operand);
    std::set<Value> read(graph_.results().begin(), graph_.results().end());
    for (const NodeId user : uses_[at(loop)]) {
      const auto& operands = graph_.node(user).operands;
      read.insert(operands.begin(), operands.end());
    }
    const Value made = site.graph.add_unchecked(std::move(copy));
    for (std::int32_t r = 0; r < static_cast<std::int32_t>(graph_.node(loop).results.size()); ++r) {
      if (!read.contains({loop, r})) continue;
      site.graph.add_result({made.node, r});
      site.results.push_back({loop, r});
    }
    site.nodes = {loop};
    return site;
  }

  [[nodiscard]] bool is_source(NodeId id) const {
    return graph_.node(id).op == Op::parameter || graph_.node(id).op == Op::constant;
  }

  /// What must be in memory before the boundary that `id` belongs to can run.
  [[nodiscard]] const std::vector<Value>& boundary_operands(NodeId id) const {
    if (const auto loop = whole_loops_.find(id); loop != whole_loops_.end()) return loop->second.arguments;
    return call_of_[at(id)] >= 0 ? cut_.calls[call_of_[at(id)]].operands : graph_.node(id).operands;
  }

  void find_levels() {
    level_.assign(at(graph_.size()), 0);
    std::vector<int> call_level(cut_.calls.size(), 0);
    // Epilogue operands may stand after the root in node order, so one pass over the nodes is not enough.
    for (bool changed = true; changed;) {
      changed = false;
      for (NodeId id = 0; id < graph_.size(); ++id) {
        const auto raise = [&](int& level, const std::vector<Value>& operands) {
          for (const Value operand : operands) {
            const int after = level_[at(operand.node)] + (boundary_[at(operand.node)] ? 1 : 0);
            if (after > level) level = after, changed = true;
          }
        };
        const int call = call_of_[at(id)];
        if (call >= 0) {
          raise(call_level[call], boundary_operands(id));
          level_[at(id)] = call_level[call];
        } else {
          raise(level_[at(id)], graph_.node(id).operands);
        }
      }
    }
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!boundary_[at(id)]) last_level_ = std::max(last_level_, level_[at(id)]);
    }
  }

  // ---- updates in place -------------------------------------------------------------------------------------

  void find_updates_in_place() {
    for (std::size_t r = 0; r < graph_.results().size(); ++r) {
      const Value update = storage(graph_.results()[r]);
      if (graph_.node(update.node).op != Op::dynamic_update_slice || boundary_[at(update.node)]) continue;
      if (only_reader_of(graph_.parameters()[r], update.node)) updates_in_place_.insert(update.node);
    }
  }

  /// Whether `reader` takes the parameter, reshaped at most, as its first operand, and nothing else uses it.
  [[nodiscard]] bool only_reader_of(NodeId parameter, NodeId reader) const {
    Value value = graph_.node(reader).operands[0];
    for (NodeId user = reader;; user = value.node, value = graph_.node(user).operands[0]) {
      const auto& operands = graph_.node(user).operands;
      if (uses_[at(value.node)] != std::vector<NodeId>{user} || results_[at(value.node)]) return false;
      if (std::count(operands.begin(), operands.end(), value) != 1) return false;
      if (value.node == parameter) return true;
      if (graph_.node(value.node).op != Op::reshape) return false;
    }
  }

  // ---- recomputation ----------------------------------------------------------------------------------------

  void find_recomputable() {
    cheap_.assign(at(graph_.size()), false);
    if (!options_.recompute) return;
    std::vector<std::set<NodeId>> leaves(at(graph_.size()));
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (node.op == Op::constant || node.op == Op::iota) {
        cheap_[at(id)] = true;
        continue;
      }
      const OpCategory category = info(node.op).category;
      const bool moves = category == OpCategory::layout && node.op != Op::gather && node.op != Op::scatter &&
                         node.op != Op::dynamic_update_slice;
      if (boundary_[at(id)] || (category != OpCategory::elementwise && !moves)) continue;
      bool small = true;
      std::set<NodeId>& own = leaves[at(id)];
      for (const Value operand : node.operands) {
        if (cheap_[at(operand.node)]) {
          own.insert(leaves[at(operand.node)].begin(), leaves[at(operand.node)].end());
        } else if (graph_.node(operand.node).op == Op::parameter || boundary_[at(operand.node)] ||
                   graph_.type(operand).elements() == 1) {
          own.insert(operand.node);
        } else {
          small = false;
        }
      }
      std::int64_t bytes = 0;
      for (const NodeId leaf : own) bytes += graph_.node(leaf).type().bytes();
      cheap_[at(id)] = small && own.size() <= recompute_leaves && bytes * recompute_ratio <= node.type().bytes();
      // Scalars are computed wherever they are needed; not so a layer's random key, which would make every layer's
      // fragment another one.
      const bool scalar = node.type().elements() == 1;
      if (scalar && small && own.size() <= recompute_leaves && bytes <= 64) cheap_[at(id)] = true;
      if (scalar && node.op == Op::threefry2x32) cheap_[at(id)] = false;
    }
  }

  /// Whether a reader at another level computes this node for itself.
  [[nodiscard]] bool is_cloned(NodeId id) const {
    const Node& node = graph_.node(id);
    if (boundary_[at(id)] || node.op == Op::parameter) return false;
    if (cheap_[at(id)]) return true;
    switch (node.op) {
      case Op::constant:
      case Op::iota:
      case Op::reshape:
      case Op::transpose:
      case Op::broadcast: return true;
      case Op::slice: return in_memory(node.operands[0]);
      case Op::convert: return byte_size(node.type().dtype) >= byte_size(graph_.type(node.operands[0]).dtype);
      default: return false;
    }
  }

  [[nodiscard]] bool in_memory(Value value) const {
    const NodeId id = storage(value).node;
    return graph_.node(id).op == Op::parameter || boundary_[at(id)];
  }

  /// A reshape is its operand under another name.
  [[nodiscard]] Value storage(Value value) const {
    while (graph_.node(value.node).op == Op::reshape && !boundary_[at(value.node)])
      value = graph_.node(value.node).operands[0];
    return value;
  }

  // ---- sinking ----------------------------------------------------------------------------------------------

  void sink_tails() {
    waits_.assign(at(graph_.size()), false);
    // What some boundary needs keeps its level.
    std::vector<bool> feeds(at(graph_.size()), false);
    for (NodeId id = graph_.size(); id-- > 0;) {
      if (boundary_[at(id)]) {
        for (const Value operand : boundary_operands(id)) feeds[at(operand.node)] = true;
        for (const Value operand : graph_.node(id).operands)
          feeds[at(operand.node)] = feeds[at(operand.node)] || call_of_[at(id)] < 0;
      } else if (feeds[at(id)]) {
        for (const Value operand : graph_.node(id).operands) feeds[at(operand.node)] = true;
      }
    }
    // An operator waits for the last level that any has, unless it reads a large value that its own level has on chip
    // (a bias gradient beside the gradient it sums), or somebody who does not wait reads it.
    std::vector<NodeId> open;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (boundary_[at(id)] || is_source(id) || feeds[at(id)]) continue;
      waits_[at(id)] = true;
      open.push_back(id);
    }
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (!waits_[at(id)] || !must_stay(id)) continue;
      waits_[at(id)] = false;
      for (const Value operand : graph_.node(id).operands) open.push_back(operand.node);
      for (const NodeId user : uses_[at(id)]) open.push_back(user);
    }
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (waits_[at(id)]) level_[at(id)] = last_level_;
    }
  }

  [[nodiscard]] bool must_stay(NodeId id) const {
    if (level_[at(id)] == last_level_) return false;  // it is where it would wait
    for (const NodeId user : uses_[at(id)]) {
      if (!boundary_[at(user)] && !waits_[at(user)]) return true;
    }
    for (const Value operand : graph_.node(id).operands) {
      const Value source = storage(operand);
      const bool made_here = !is_source(source.node) && !boundary_[at(source.node)] && !cheap_[at(operand.node)] &&
                             !waits_[at(operand.node)];
      if (made_here && graph_.type(source).bytes() >= shared_read_bytes) return true;
    }
    return false;
  }

  // ---- extraction -------------------------------------------------------------------------------------------

  void require(Value value) {
    value = storage(value);
    if (is_in_place(value.node)) return;
    required_.insert(value);
  }

  /// Needs no kernel: it is in memory already, or a boundary writes it.
  [[nodiscard]] bool is_in_place(NodeId id) const { return graph_.node(id).op == Op::parameter || boundary_[at(id)]; }

  void collect_required() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!boundary_[at(id)]) continue;
      for (const Value operand : boundary_operands(id)) require(operand);
    }
    std::set<Value> seen;
    for (std::size_t r = 0; r < graph_.results().size(); ++r) {
      const Value result = graph_.results()[r], value = storage(result);
      if (options_.carried && value.node == graph_.parameters()[r]) continue;  // it stays where it is
      if (graph_.node(value.node).op == Op::parameter || !seen.insert(value).second) {
        copies_.insert(result);  // a result of its own needs memory of its own
      } else {
        require(value);
      }
    }
  }

  /// Level at which a required value is computed: cloned values with no other reader wait for nobody.
  [[nodiscard]] int level_of(Value value) const { return level_[at(value.node)]; }

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
    if (level == last_level_) outputs.insert(outputs.end(), copies_.begin(), copies_.end());
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
      const bool own = !is_in_place(id) && (level_[at(id)] == level || is_cloned(id) || again.contains(id));
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
      if (is_in_place(value.node) || graph_.type(value).bytes() < shared_read_bytes) continue;
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
      if (is_in_place(value.node)) continue;
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
      if (!moves || boundary_[at(value.node)]) return value;
      value = graph_.node(value.node).operands[0];
    }
  }

  /// Bytes of storing a value, unless that happens anyway, and reading it.
  [[nodiscard]] std::int64_t handed_over(Value value) const {
    const bool stored = is_in_place(value.node) || required_.contains(value);
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
      if (node.op == Op::threefry2x32 || anew.cone.size() > most_operators) return std::nullopt;
      for (const Value operand : node.operands) {
        const Value stored = storage(operand);
        const bool small = graph_.type(operand).bytes() * 16 <= own;
        const bool there = is_in_place(stored.node) || required_.contains(stored) || candidates.contains(stored) ||
                           extent.argument_set.contains(operand) || extent.members.contains(operand.node);
        if (there || (small && !is_cloned(operand.node))) {
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
    cut_.fragments.push_back(std::move(site));
  }

  const Graph& graph_;
  const CutOptions& options_;
  std::vector<std::vector<NodeId>> uses_;
  std::vector<bool> results_;
  CutGraph cut_;
  std::vector<int> call_of_;
  std::vector<bool> boundary_;
  std::vector<int> level_;
  std::map<NodeId, FragmentSite> whole_loops_;
  std::vector<bool> cheap_;
  std::vector<bool> waits_;  ///< sunk to the last level
  int last_level_ = 0;
  std::set<NodeId> updates_in_place_;
  std::set<Value> required_;
  std::set<Value> copies_;
};

}  // namespace

CutGraph cut(const Graph& graph, const CutOptions& options) { return Cutter(graph, options).cut(); }

}  // namespace stitch::graph
