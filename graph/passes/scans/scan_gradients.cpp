#include "graph/passes/scans/scan_gradients.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <utility>

#include "graph/fill.h"
#include "graph/literal.h"
#include "graph/passes/scans/gradient_formula.h"
#include "graph/reference/evaluate.h"

namespace stitch::graph {
namespace {

constexpr std::int64_t longest_line = std::int64_t{1} << 17;    // a longer one takes seconds to evaluate
constexpr std::int64_t elements_tried = std::int64_t{1} << 15;  // of a line times lines
constexpr std::int64_t fewest_lines = 6;
constexpr std::size_t most_cotangents = 8;  ///< that are tried
constexpr std::size_t most_derivatives = 8;
constexpr std::size_t most_addends = 64;
constexpr std::int64_t most_tried = std::int64_t{1} << 24;  ///< elements of all formulas of a trial
constexpr std::uint32_t trial_seed = 2610;

/// Every operator along the scanned dimension alone: what it gives at a place of the others depends on its operands
/// there, so that a few lines show what it does to all.
class LineOperators {
 public:
  LineOperators(const Graph& graph, const Neighbours& site)
      : graph_(graph), dimension_(site.dimension), dims_(graph.type(site.components[0]).dims) {}

  [[nodiscard]] bool whole(Value value) const { return graph_.type(value).dims == dims_; }

  /// What a value is a copy of: pads and slices may do nothing.
  [[nodiscard]] Value original(Value value) const {
    while (true) {
      const Node& node = graph_.node(value.node);
      const bool moves = node.op == Op::pad || node.op == Op::slice;
      if (!moves || node.type() != graph_.type(node.operands[0])) return value;
      const auto* pad = std::get_if<PadAttributes>(&node.attributes);
      if (pad != nullptr && (pad->low[dimension_] != 0 || pad->interior[dimension_] != 0)) return value;
      value = node.operands[0];
    }
  }

  [[nodiscard]] bool holds(const Node& node) const {
    if (node.results.size() != 1 || !fits(node.type().dims)) return false;
    switch (node.op) {
      case Op::slice: {
        const auto line = line_slice(graph_, node);
        return line ? line->dimension == dimension_ : node.type() == graph_.type(node.operands[0]);
      }
      case Op::concatenate: return node.as<ConcatenateAttributes>().dimension == static_cast<std::int64_t>(dimension_);
      case Op::pad: {
        const auto& a = node.as<PadAttributes>();
        for (std::size_t d = 0; d < dims_.size(); ++d) {
          if (d != dimension_ && (a.low[d] != 0 || a.high[d] != 0 || a.interior[d] != 0)) return false;
        }
        return fills_with_zero(graph_, node.operands[1]);
      }
      case Op::bitcast_convert: return false;  // bits of another type in the trial
      default: return is_elementwise(node.op);
    }
  }

 private:
  [[nodiscard]] bool fits(const Dims& dims) const {
    if (dims.size() != dims_.size()) return false;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (d != dimension_ && dims[d] != dims_[d]) return false;
    }
    return true;
  }

  const Graph& graph_;
  std::size_t dimension_;
  Dims dims_;
};

/// Lines on which recursion and formula are compared.
Tensor trial_tensor(DType dtype, std::int64_t lines, std::int64_t length, std::mt19937& random) {
  Tensor tensor = Tensor::zeros({in_trial(dtype), {lines, length}});
  std::normal_distribution<double> normal(0, 1.5), close(0, 1 / std::sqrt(static_cast<double>(length)));
  for (std::int64_t i = 0; i < lines * length; ++i) {
    const std::int64_t kind = i / length % 3;
    if (is_floating(dtype)) {
      const double sign = random() % 2 == 0 ? 1 : -1;
      const double few[] = {-1, 0, 1, 1, -1, 1, 1, -1};
      tensor.floats[i] = kind == 0 ? normal(random) : kind == 1 ? sign * std::exp(close(random)) : few[random() % 8];
    } else if (dtype == DType::pred) {
      const int rarity[] = {2, 9, 100};
      tensor.integers[i] = random() % rarity[kind] == 0;
    } else {
      tensor.integers[i] = static_cast<int>(random() % 7) - 3;
    }
  }
  return tensor;
}

bool nearly_equal(const Tensor& one, const Tensor& other) {
  constexpr double tolerance = 1e-8;
  if (one.type != other.type || one.floats.empty()) return false;
  for (std::size_t i = 0; i < one.floats.size(); ++i) {
    const double a = one.floats[i], b = other.floats[i];
    if (!(std::abs(a - b) <= tolerance * std::max({1.0, std::abs(a), std::abs(b)}))) return false;
  }
  return true;
}

class GradientSearch {
 public:
  GradientSearch(const WrittenScan& scan, RangeWalk& walk)
      : scan_(scan), graph_(scan.graph), walk_(walk), lines_(graph_, scan.site), users_(users(graph_)) {}

  Result<std::optional<ScanGradient>> find() {
    const std::int64_t length = scan_.site.length(graph_);
    if (length > longest_line) return std::optional<ScanGradient>();
    std::vector<Value> cotangents = this->cotangents();
    if (cotangents.size() > most_cotangents) cotangents.resize(most_cotangents);
    for (const Value cotangent : cotangents) {
      STITCH_ASSIGN(std::optional<ScanGradient> found, of(cotangent));
      if (found) return found;
    }
    return std::optional<ScanGradient>();
  }

 private:
  /// Where a whole line is made of others: interleaved by pads and added.
  [[nodiscard]] bool gathers(const Node& node) const { return node.op == Op::pad || node.op == Op::add; }

  /// The nodes that lead from `begins` to values of whole lines, by operators along lines.
  template <class Begins>
  [[nodiscard]] std::vector<bool> downstream(const Begins& begins) const {
    std::vector<bool> inside(graph_.size());
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (scan_.inside.contains(id) || scan_.results.contains({id, 0}) || !lines_.holds(node)) continue;
      const bool reached =
          std::ranges::any_of(node.operands, [&](Value operand) { return inside[operand.node] || begins(operand); });
      inside[id] = reached && (!lines_.whole({id, 0}) || gathers(node));
    }
    return inside;
  }

  /// The values of whole lines, neither scanned nor the scan, that meet those of the recursion outside of it. What sums
  /// give does not matter to their gradient: then any that is cut for a level.
  [[nodiscard]] std::vector<Value> cotangents() const {
    const std::vector<bool> after = downstream([&](Value operand) { return scan_.inside.contains(operand.node); });
    std::vector<Value> found;
    const auto add = [&](Value value) {
      value = lines_.original(value);
      const bool known = scan_.results.contains(value) || after[value.node] || is_component(value);
      const bool fits = lines_.whole(value) && is_floating(graph_.type(value).dtype);
      if (fits && !known && std::ranges::find(found, value) == found.end()) found.push_back(value);
    };
    std::set<NodeId> seen;
    std::vector<NodeId> open;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (after[id]) open.push_back(id);
    }
    if (open.empty()) {
      for (NodeId id = 0; id < graph_.size(); ++id) {
        const Node& node = graph_.node(id);
        if (node.op == Op::pad && lines_.holds(node) && !lines_.whole({id, 0})) add(node.operands[0]);
      }
    }
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (!seen.insert(id).second || lines_.whole({id, 0})) continue;
      for (const Value operand : graph_.node(id).operands) {
        if (scan_.inside.contains(operand.node) || fill_bits(graph_, operand)) continue;
        if (lines_.whole(operand)) {
          add(operand);
        } else if (lines_.holds(graph_.node(operand.node))) {
          open.push_back(operand.node);
        }
      }
    }
    return found;
  }

  [[nodiscard]] bool is_component(Value value) const {
    return std::ranges::find(scan_.site.components, value) != scan_.site.components.end();
  }

  /// Values from which ∂y_{i+1}/∂y_i · G_{i+1} or ∂y_i/∂x_i · G_i can be read off: element-wise functions of the
  /// cotangents of the elements 2, 4, 6, …
  [[nodiscard]] std::vector<Value> derivatives() const {
    std::vector<bool> inside(graph_.size());
    std::vector<Value> found;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      const Followed* known = node.results.size() == 1 ? walk_.of({id, 0}) : nullptr;
      if (known != nullptr) {
        if (known->component != walk_.components()) continue;
        inside[id] = std::ssize(known->ranges) == (scan_.site.length(graph_) - 1) / 2;
        for (std::int32_t i = 0; inside[id] && i < std::ssize(known->ranges); ++i)
          inside[id] = known->ranges[i] == Range{2 * i + 2, 2 * i + 2};
      } else if (is_elementwise(node.op) && lines_.holds(node)) {
        // A sum with cotangents of other elements is the next level's.
        const bool others = std::ranges::any_of(node.operands, [&](Value operand) {
          const Followed* of = walk_.of(operand);
          return of != nullptr && of->component == walk_.components() && !inside[operand.node];
        });
        const bool reached = std::ranges::any_of(node.operands, [&](Value operand) { return inside[operand.node]; });
        inside[id] = reached && !others;
      }
    }
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const bool leaves = std::ranges::any_of(users_[id], [&](NodeId user) { return !inside[user]; });
      if (inside[id] && leaves) found.push_back({id, 0});
    }
    return found;
  }

  Result<std::optional<ScanGradient>> of(Value cotangent) {
    walk_.follow(cotangent);
    const std::vector<bool> region = downstream([&](Value operand) { return operand == cotangent; });
    const std::vector<Value> derivatives = this->derivatives();
    if (derivatives.empty() || derivatives.size() > most_derivatives) return std::optional<ScanGradient>();
    STITCH_ASSIGN(std::vector<ScanGradient> candidates, tried(cotangent, region, derivatives));
    for (ScanGradient& candidate : candidates) {
      if (leaves_nothing(candidate)) return std::optional(std::move(candidate));
    }
    return std::optional<ScanGradient>();
  }

  /// The region's values of whole lines, as functions of components and cotangent on a few lines.
  std::map<Value, Value> trial_lines(Builder& b, const std::vector<bool>& region, std::map<Value, Value> copies,
                                     std::int64_t lines) const {
    std::vector<bool> needed = region;
    for (NodeId id = graph_.size() - 1; id >= 0; --id) {
      if (!needed[id] || copies.contains({id, 0})) continue;
      for (const Value operand : graph_.node(id).operands) needed[operand.node] = true;
    }
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      const Value value{id, 0};
      if (!needed[id] || copies.contains(value)) continue;
      if (const auto number = fill_number(graph_, value); number && node.type().dims.size() > scan_.site.dimension) {
        copies[value] = b.filled(in_trial(node.type().dtype), {lines, node.type().dims[scan_.site.dimension]}, *number);
        continue;
      }
      if (!lines_.holds(node)) continue;
      const bool takes_addends = region[id] && node.op == Op::add && lines_.whole(value);
      std::vector<Value> operands;
      std::size_t addends = 0;
      for (const Value operand : node.operands) {
        const auto copy = copies.find(operand);
        if (takes_addends && !region[operand.node]) {
          ++addends;
        } else if (copy != copies.end()) {
          operands.push_back(copy->second);
        }
      }
      if (addends == 1 && operands.size() == 1) {
        copies[value] = operands[0];
      } else if (const auto copy = trial_copy(b, node, std::move(operands), lines)) {
        copies[value] = *copy;
      }
    }
    return copies;
  }

  [[nodiscard]] std::optional<Value> trial_copy(Builder& b, const Node& node, std::vector<Value> operands,
                                                std::int64_t lines) const {
    const std::size_t d = scan_.site.dimension;
    if (node.op == Op::pad) {
      if (operands.size() != 1) return std::nullopt;
      const auto& a = node.as<PadAttributes>();
      const Value zero = b.scalar(b.dtype(operands[0]), 0);
      return b.pad(operands[0], zero, {0, a.low[d]}, {0, a.high[d]}, {0, a.interior[d]});
    }
    if (operands.size() != node.operands.size()) return std::nullopt;
    if (node.op == Op::slice) {
      const auto& a = node.as<SliceAttributes>();
      return b.slice(operands[0], {0, a.starts[d]}, {lines, a.limits[d]}, {1, a.strides[d]});
    }
    if (node.op == Op::concatenate) return b.concatenate(std::move(operands), 1);
    return copy_operator(b, node, std::move(operands), true);
  }

  /// One for each decay that explains any of the region's values, that of most first.
  Result<std::vector<ScanGradient>> tried(Value cotangent, const std::vector<bool>& region,
                                          const std::vector<Value>& derivatives) {
    const std::int64_t length = scan_.site.length(graph_);
    const std::int64_t lines = std::max(fewest_lines, elements_tried / length);
    Builder b;
    std::mt19937 random(trial_seed);
    std::vector<Tensor> arguments;
    const auto parameter = [&](Value value) {
      arguments.push_back(trial_tensor(graph_.type(value).dtype, lines, length, random));
      return b.parameter(arguments.back().type.dtype, {lines, length});
    };
    GradientFormula::Operands operands;
    std::map<Value, Value> copies;
    for (const Value component : scan_.site.components) {
      operands.components.push_back(copies[component] = parameter(component));
    }
    operands.cotangent = copies[cotangent] = parameter(cotangent);
    const Value scan =
        b.add(Op::associative_scan, operands.components, AssociativeScanAttributes{1, false}, {trial_combiner()});
    for (int i = 0; i < walk_.components(); ++i) operands.scanned.push_back({scan.node, i});

    const std::map<Value, Value> trial = trial_lines(b, region, copies, lines);
    std::vector<Value> whole, results;
    for (const auto& [value, copy] : trial) {
      if (!region[value.node] || !lines_.whole(value) || !is_floating(graph_.type(value).dtype)) continue;
      // A value to which something else is added is looked at by itself.
      const Node& node = graph_.node(value.node);
      const bool inside = std::ranges::all_of(node.operands, [&](Value operand) { return region[operand.node]; });
      if (node.op == Op::add && !inside) continue;
      whole.push_back(value);
      results.push_back(copy);
    }
    if (whole.empty()) return std::vector<ScanGradient>();

    struct Guess {
      Value decay, jacobian;
      bool with_first;
    };
    std::vector<Guess> guesses;
    GradientFormula writer(graph_, walk_, b, {{lines, length}, 1, false, true}, operands);
    for (const Value decay : derivatives) {
      const auto total = writer.total(decay);
      if (!total) continue;
      for (const Value jacobian : derivatives) {
        for (const bool with_first : {true, false}) {
          if (std::ssize(guesses) * lines * length > most_tried) break;
          const auto gradient = writer.gradient(jacobian, *total, with_first);
          if (!gradient) continue;
          guesses.push_back({decay, jacobian, with_first});
          results.push_back(*gradient);
        }
      }
    }
    STITCH_ASSIGN(const Graph trial_graph, b.finish(results));
    STITCH_ASSIGN(const std::vector<Tensor> values, evaluate(trial_graph, arguments));

    std::map<Value, ScanGradient> by_decay;
    for (std::size_t i = 0; i < guesses.size(); ++i) {
      ScanGradient& found = by_decay[guesses[i].decay];
      for (std::size_t j = 0; j < whole.size(); ++j) {
        const bool has = std::ranges::find(found.gradients, whole[j]) != found.gradients.end();
        if (has || !nearly_equal(values[j], values[whole.size() + i])) continue;
        auto addends = this->addends(whole[j], region);
        if (!addends) continue;
        found.gradients.push_back(whole[j]);
        found.jacobians.push_back(guesses[i].jacobian);
        found.with_first.push_back(guesses[i].with_first);
        found.addends.push_back(std::move(*addends));
      }
    }
    std::vector<ScanGradient> candidates;
    for (auto& [decay, found] : by_decay) {
      found.cotangent = cotangent;
      found.decay = decay;
      if (!found.gradients.empty()) candidates.push_back(std::move(found));
    }
    std::ranges::stable_sort(candidates, std::greater(), [](const ScanGradient& s) { return s.gradients.size(); });
    return candidates;
  }

  [[nodiscard]] std::shared_ptr<const Graph> trial_combiner() const {
    Builder b("combiner");
    std::vector<Value> copies;
    for (const Node& node : scan_.combiner.nodes()) {
      const DType dtype = in_trial(node.type().dtype);
      std::vector<Value> operands;
      for (const Value operand : node.operands) operands.push_back(copies[operand.node]);
      switch (node.op) {
        case Op::parameter: copies.push_back(b.parameter(dtype, {})); break;
        case Op::constant: copies.push_back(b.scalar(dtype, element(node.as<ConstantAttributes>(), 0))); break;
        default: copies.push_back(copy_operator(b, node, std::move(operands), true));
      }
    }
    std::vector<Value> results;
    for (const Value result : scan_.combiner.results()) results.push_back(copies[result.node]);
    auto combiner = b.finish(std::move(results));
    return combiner.ok() ? std::make_shared<const Graph>(std::move(*combiner)) : nullptr;
  }

  /// What others have added to a value on its way; nothing when it is too much.
  [[nodiscard]] std::optional<std::vector<Value>> addends(Value sum, const std::vector<bool>& region) const {
    std::vector<Value> found, open = {sum};
    while (!open.empty()) {
      const Node& node = graph_.node(open.back().node);
      open.pop_back();
      if (node.op != Op::add) continue;
      for (const Value operand : node.operands) (region[operand.node] ? open : found).push_back(operand);
      if (open.size() + found.size() > most_addends) return std::nullopt;
    }
    return found;
  }

  /// Whether nothing of the recursion has other users once scan and gradients are replaced.
  [[nodiscard]] bool leaves_nothing(ScanGradient& gradient) const {
    std::map<Value, std::vector<Value>> replaced;
    for (const auto& [value, component] : scan_.results) replaced[value] = scan_.site.components;
    for (std::size_t i = 0; i < gradient.gradients.size(); ++i) {
      std::vector<Value>& from = replaced[gradient.gradients[i]];
      from = gradient.addends[i];
      from.push_back(gradient.cotangent);
      from.insert(from.end(), scan_.site.components.begin(), scan_.site.components.end());
    }
    const std::vector<bool> needed = still_needed(graph_, replaced);
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!needed[id]) gradient.replaced.insert(id);
    }
    return std::ranges::none_of(scan_.inside, [&](NodeId id) { return needed[id]; });
  }

  const WrittenScan& scan_;
  const Graph& graph_;
  RangeWalk& walk_;
  const LineOperators lines_;
  const std::vector<std::vector<NodeId>> users_;
};

}  // namespace

Result<Graph> ScanGradient::formula(const WrittenScan& scan, RangeWalk& walk, bool reverse) const {
  walk.follow(cotangent);
  Builder b("gradient");
  GradientFormula::Operands operands;
  const auto parameter = [&](Value value) {
    return b.parameter(scan.graph.type(value).dtype, scan.graph.type(value).dims);
  };
  for (const Value component : scan.site.components) operands.scanned.push_back(parameter(component));
  for (const Value component : scan.site.components) operands.components.push_back(parameter(component));
  operands.cotangent = parameter(cotangent);
  const Dims& dims = scan.graph.type(cotangent).dims;
  const auto dimension = static_cast<std::int64_t>(scan.site.dimension);
  GradientFormula writer(scan.graph, walk, b, {dims, dimension, reverse, false}, operands);
  const auto total = writer.total(decay);
  if (!total) return make_error(ErrorKind::internal, "the decay of a scan's gradient is no function of its elements");
  std::vector<Value> results;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto made = writer.gradient(jacobians[i], *total, with_first[i]);
    if (!made) return make_error(ErrorKind::internal, "a scan's gradient is no function of its elements");
    results.push_back(*made);
  }
  return b.finish(std::move(results));
}

Result<std::optional<ScanGradient>> find_scan_gradient(const WrittenScan& scan, RangeWalk& walk) {
  return GradientSearch(scan, walk).find();
}

}  // namespace stitch::graph
