#include "graph/cut_levels.h"

#include <algorithm>
#include <functional>

#include "graph/calls/find_calls.h"
#include "graph/fill.h"

namespace stitch::graph {
namespace {

/// A cone of cheap operators is recomputed when what it reads is this much smaller than what it makes.
constexpr std::int64_t recompute_ratio = 4;
constexpr std::size_t recompute_leaves = 12;

/// Updates of what a loop carries, or of what is given away, are left to fragments, which do them in place.
bool calls_may_update(const CutOptions& options) { return !options.carried && options.donations.empty(); }

/// The operators that wait for their readers (CutLevels::sink_to_readers), found by letting all wait that could and
/// taking back those that must not, until none is left.
class Sinking {
 public:
  Sinking(const Graph& graph, const CutLevels& levels, const std::function<bool(NodeId)>& is_waiting)
      : graph_(graph), levels_(levels), results_(is_result(graph)), target_(graph.size(), none) {
    for (NodeId id = 0; id < graph.size(); ++id) {
      const Op op = graph.node(id).op;
      const bool in_memory = levels.is_in_place(id) || op == Op::constant;
      // An update may be of what is there in place, and a random key's place is part of what it is.
      const bool stays = op == Op::dynamic_update_slice || op == Op::scatter || makes_random_bits(op);
      if (!in_memory && !stays && !levels.is_cloned(id) && !results_[id] && !is_waiting(id)) target_[id] = undecided;
    }
  }

  /// The level of each operator that waits, and of those that its readers clone.
  IdVector<NodeId, int> find() {
    for (bool changed = true; changed;) {
      changed = find_targets();
      changed = keep_what_gains_nothing() || changed;
    }
    return std::move(target_);
  }

  static constexpr int none = -1;

 private:
  static constexpr int undecided = -2;

  /// The one level at which all that read the operator are, or at which clones of it are read; none.
  [[nodiscard]] int readers_level(NodeId id) const {
    int common = undecided;
    for (const NodeId user : levels_.uses(id)) {
      int at = none;
      if (!levels_.is_boundary(user) && levels_.is_cloned(user)) {
        at = results_[user] ? none : readers_level(user);
      } else if (!levels_.is_boundary(user)) {
        at = target_[user] >= 0 ? target_[user] : levels_.level(user);
      }
      if (at < 0 || (common != undecided && common != at)) return none;
      common = at;
    }
    return common == undecided ? none : common;
  }

  bool find_targets() {
    bool changed = false;
    for (NodeId id = graph_.size(); id-- > 0;) {
      if (target_[id] == none) continue;
      const int at = readers_level(id);
      const int target = at > levels_.level(id) ? at : none;
      changed = changed || target != target_[id];
      target_[id] = target;
    }
    return changed;
  }

  /// What those that wait read: no input of the whole, but there so much longer; and bytes of what is read where they
  /// were anyway, and would be once more. `made_there`: some of it would have to be stored for them.
  struct Leaves {
    std::set<NodeId> held;
    std::int64_t read_again = 0;
    bool made_there = false;
  };

  void add_operand(NodeId id, Value operand, std::vector<Leaves>& leaves) const {
    const Value source = levels_.storage(operand);
    const NodeId maker = source.node;
    if (graph_.node(maker).op == Op::constant) return;
    Leaves& own = leaves[id];
    if (!levels_.is_in_place(maker) && (target_[maker] >= 0 || levels_.is_cloned(maker))) {
      own.held.insert(leaves[maker].held.begin(), leaves[maker].held.end());
      own.read_again += leaves[maker].read_again;
      own.made_there = own.made_there || leaves[maker].made_there;
      return;
    }
    const std::int64_t read = std::min(graph_.type(source).bytes(), read_of(id, operand));
    const bool shared = std::ranges::any_of(levels_.uses(maker), [&](NodeId user) {
      return !levels_.is_boundary(user) && target_[user] < 0 && levels_.level(user) == levels_.level(id);
    });
    if (shared) own.read_again += read;
    if (!levels_.is_in_place(maker) && levels_.level(maker) >= levels_.level(id)) own.made_there = true;
    if (graph_.node(maker).op != Op::parameter) own.held.insert(maker);
  }

  /// Bytes of an operand that an operator looks at.
  [[nodiscard]] std::int64_t read_of(NodeId id, Value operand) const {
    const Op op = graph_.node(id).op;
    const bool picks = op == Op::gather || op == Op::dynamic_slice || op == Op::slice;
    return picks ? graph_.node(id).type().bytes() : graph_.type(operand).bytes();
  }

  /// Whether somebody reads it who does not wait: what is read by those alone that do was never stored.
  [[nodiscard]] bool is_handed_over(NodeId id) const {
    return std::ranges::any_of(levels_.uses(id), [&](NodeId user) {
      const bool cloned = !levels_.is_boundary(user) && levels_.is_cloned(user);
      return cloned ? is_handed_over(user) : target_[user] < 0;
    });
  }

  /// Takes back what would hold more memory than it hands over, or be read again for more than is saved.
  bool keep_what_gains_nothing() {
    std::vector<Leaves> leaves(graph_.size());
    bool changed = false;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const bool cloned = !levels_.is_in_place(id) && levels_.is_cloned(id);
      if (target_[id] < 0 && !cloned) continue;
      for (const Value operand : graph_.node(id).operands) add_operand(id, operand, leaves);
      if (target_[id] < 0 || !is_handed_over(id)) continue;
      std::int64_t made = 0, held = 0;
      for (const TensorType& type : graph_.node(id).results) made += type.bytes();
      for (const NodeId leaf : leaves[id].held) held += graph_.node(leaf).type().bytes();
      const bool gains = made >= shared_read_bytes && held <= made && leaves[id].read_again <= 2 * made;
      if (gains && !leaves[id].made_there) continue;
      target_[id] = none;
      changed = true;
    }
    return changed;
  }

  const Graph& graph_;
  const CutLevels& levels_;
  const std::vector<bool> results_;
  IdVector<NodeId, int> target_;
};

}  // namespace

CutLevels::CutLevels(const Graph& graph, const CutOptions& options)
    : graph_(graph),
      options_(options),
      uses_(users(graph)),
      calls_(find_library_calls(graph, options.library, calls_may_update(options))) {
  mark_boundaries();
  if (options_.whole_loop) find_whole_loops();
  find_levels();
  find_recomputable();
  if (options_.sink) {
    sink_tails();
    sink_to_readers();
  }
}

CutGraph CutLevels::take_boundaries() {
  CutGraph cut;
  for (auto& [id, site] : whole_loops_) {
    site.level = level_[id];
    cut.fragments.push_back(std::move(site));
  }
  cut.calls = std::move(calls_);
  cut.others = std::move(others_);
  cut.loops = std::move(loops_);
  return cut;
}

void CutLevels::mark_boundaries() {
  call_of_.assign(graph_.size(), none);
  boundary_.assign(graph_.size(), false);
  for (std::size_t c = 0; c < calls_.size(); ++c) {
    call_of_[calls_[c].root] = c;
    for (const NodeId id : calls_[c].epilogue) call_of_[id] = c;
  }
  // An attention and its gradients compute the same scores; each writes what no other does.
  for (std::size_t c = 0; c < calls_.size(); ++c) {
    for (const Value value : calls_[c].results()) call_of_[value.node] = c;
  }
  for (NodeId id = 0; id < graph_.size(); ++id) {
    const OpCategory category = info(graph_.node(id).op).category;
    const bool generated = category != OpCategory::boundary && category != OpCategory::control;
    const bool supported =
        !generated || category == OpCategory::contraction || !options_.supported || options_.supported(graph_, id);
    if (!generated || !supported) others_.push_back(id);
    boundary_[id] = !generated || !supported || call_of_[id] >= 0;
  }
}

void CutLevels::find_whole_loops() {
  std::erase_if(others_, [&](NodeId id) {
    if (graph_.node(id).op != Op::loop) return false;
    FragmentSite site = loop_site(id);
    if (site.results.empty() || !options_.whole_loop(site.graph)) return false;
    whole_loops_.emplace(id, std::move(site));
    loops_.push_back(id);
    return true;
  });
}

FragmentSite CutLevels::loop_site(NodeId loop) const {
  FragmentSite site;
  site.graph.constraints = graph_.constraints | options_.constraints;
  std::map<Value, Value> inside;
  const std::function<Value(Value)> take = [&](Value value) {
    if (const auto found = inside.find(value); found != inside.end()) return found->second;
    Node copy = graph_.node(value.node);
    if (fill_bits(graph_, value)) {
      for (Value& operand : copy.operands) operand = take(operand);
    } else {
      copy.op = Op::parameter;
      copy.operands.clear();
      copy.regions.clear();
      copy.attributes = ParameterAttributes{graph_.type(value)};
      copy.results = {graph_.type(value)};
      site.arguments.push_back(value);
    }
    return inside[value] = site.graph.add_unchecked(std::move(copy));
  };
  Node copy = graph_.node(loop);
  for (Value& operand : copy.operands) operand = take(operand);
  std::set<Value> read(graph_.results().begin(), graph_.results().end());
  for (const NodeId user : uses_[loop]) {
    const auto& operands = graph_.node(user).operands;
    read.insert(operands.begin(), operands.end());
  }
  const Value made = site.graph.add_unchecked(std::move(copy));
  for (std::int32_t r = 0; r < std::ssize(graph_.node(loop).results); ++r) {
    if (!read.contains({loop, r})) continue;
    site.graph.add_result({made.node, r});
    site.results.push_back({loop, r});
  }
  site.nodes = {loop};
  return site;
}

const std::vector<Value>& CutLevels::boundary_operands(NodeId id) const {
  if (const auto loop = whole_loops_.find(id); loop != whole_loops_.end()) return loop->second.arguments;
  return call_of_[id] >= 0 ? calls_[call_of_[id]].operands : graph_.node(id).operands;
}

void CutLevels::find_levels() {
  level_.assign(graph_.size(), 0);
  std::vector<int> call_level(calls_.size(), 0);
  // Epilogue operands may stand after the root in node order, so one pass over the nodes is not enough. Each raises a
  // level that is right: so many passes as there are nodes are enough, unless calls wait for each other.
  NodeId passes = 0;
  for (bool changed = true; changed && passes <= graph_.size(); ++passes) {
    changed = false;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const auto raise = [&](int& level, const std::vector<Value>& operands) {
        for (const Value operand : operands) {
          const int after = level_[operand.node] + (boundary_[operand.node] ? 1 : 0);
          if (after > level) {
            level = after;
            changed = true;
          }
        }
      };
      const int call = call_of_[id];
      if (call >= 0) {
        raise(call_level[call], boundary_operands(id));
        level_[id] = call_level[call];
      } else {
        raise(level_[id], graph_.node(id).operands);
      }
    }
  }
  for (NodeId id = 0; id < graph_.size(); ++id) {
    if (!boundary_[id]) last_level_ = std::max(last_level_, level_[id]);
  }
}

void CutLevels::find_recomputable() {
  cheap_.assign(graph_.size(), false);
  if (!options_.recompute) return;
  std::vector<std::set<NodeId>> leaves(graph_.size());
  for (NodeId id = 0; id < graph_.size(); ++id) {
    const Node& node = graph_.node(id);
    if (node.op == Op::constant || node.op == Op::iota) {
      cheap_[id] = true;
      continue;
    }
    const OpCategory category = info(node.op).category;
    const bool moves = category == OpCategory::layout && node.op != Op::gather && node.op != Op::scatter &&
                       node.op != Op::dynamic_update_slice;
    if (boundary_[id] || (category != OpCategory::elementwise && !moves)) continue;
    bool small = true;
    std::set<NodeId>& own = leaves[id];
    for (const Value operand : node.operands) {
      if (cheap_[operand.node]) {
        own.insert(leaves[operand.node].begin(), leaves[operand.node].end());
      } else if (graph_.node(operand.node).op == Op::parameter || boundary_[operand.node] ||
                 graph_.type(operand).elements() == 1) {
        own.insert(operand.node);
      } else {
        small = false;
      }
    }
    std::int64_t bytes = 0;
    for (const NodeId leaf : own) bytes += graph_.node(leaf).type().bytes();
    cheap_[id] = small && own.size() <= recompute_leaves && bytes * recompute_ratio <= node.type().bytes();
    // Scalars are computed wherever they are needed; not so a layer's random key, which would make every layer's
    // fragment another one.
    const bool scalar = node.type().elements() == 1;
    if (scalar && small && own.size() <= recompute_leaves && bytes <= 64) cheap_[id] = true;
    if (scalar && makes_random_bits(node.op)) cheap_[id] = false;
  }
}

bool CutLevels::is_cloned(NodeId id) const {
  const Node& node = graph_.node(id);
  if (boundary_[id] || node.op == Op::parameter) return false;
  if (cheap_[id]) return true;
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

bool CutLevels::in_memory(Value value) const {
  const NodeId id = storage(value).node;
  return graph_.node(id).op == Op::parameter || boundary_[id];
}

Value CutLevels::storage(Value value) const {
  while (graph_.node(value.node).op == Op::reshape && !boundary_[value.node])
    value = graph_.node(value.node).operands[0];
  return value;
}

void CutLevels::sink_tails() {
  waits_.assign(graph_.size(), false);
  // What some boundary needs keeps its level.
  std::vector<bool> feeds(graph_.size(), false);
  for (NodeId id = graph_.size(); id-- > 0;) {
    if (boundary_[id]) {
      for (const Value operand : boundary_operands(id)) feeds[operand.node] = true;
      for (const Value operand : graph_.node(id).operands)
        feeds[operand.node] = feeds[operand.node] || call_of_[id] < 0;
    } else if (feeds[id]) {
      for (const Value operand : graph_.node(id).operands) feeds[operand.node] = true;
    }
  }
  // An operator waits for the last level that any has, unless it reads a large value that its own level has on chip
  // (a bias gradient beside the gradient it sums), or somebody who does not wait reads it.
  std::vector<NodeId> open;
  for (NodeId id = 0; id < graph_.size(); ++id) {
    if (boundary_[id] || is_source(id) || feeds[id]) continue;
    waits_[id] = true;
    open.push_back(id);
  }
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    if (!waits_[id] || !must_stay(id)) continue;
    waits_[id] = false;
    for (const Value operand : graph_.node(id).operands) open.push_back(operand.node);
    for (const NodeId user : uses_[id]) open.push_back(user);
  }
  for (NodeId id = 0; id < graph_.size(); ++id) {
    if (waits_[id]) level_[id] = last_level_;
  }
}

void CutLevels::sink_to_readers() {
  const IdVector<NodeId, int> target = Sinking(graph_, *this, [&](NodeId id) { return waits_[id]; }).find();
  for (NodeId id = 0; id < graph_.size(); ++id) {
    if (target[id] >= 0) level_[id] = target[id];
  }
  // What readers clone is at no lower level than what it is made of.
  for (NodeId id = 0; id < graph_.size(); ++id) {
    if (boundary_[id] || !is_cloned(id)) continue;
    for (const Value operand : graph_.node(id).operands)
      if (!boundary_[operand.node]) level_[id] = std::max(level_[id], level_[operand.node]);
  }
}

bool CutLevels::must_stay(NodeId id) const {
  if (level_[id] == last_level_) return false;  // it is where it would wait
  for (const NodeId user : uses_[id]) {
    if (!boundary_[user] && !waits_[user]) return true;
  }
  for (const Value operand : graph_.node(id).operands) {
    const Value source = storage(operand);
    const bool made_here =
        !is_source(source.node) && !boundary_[source.node] && !cheap_[operand.node] && !waits_[operand.node];
    if (made_here && graph_.type(source).bytes() >= shared_read_bytes) return true;
  }
  return false;
}

}  // namespace stitch::graph
