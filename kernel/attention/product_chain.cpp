#include "kernel/attention/product_chain.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph/canonical.h"
#include "graph/codec/codec.h"
#include "graph/fill.h"
#include "graph/strided_view.h"
#include "graph/subgraph.h"
#include "kernel/attention/visible_keys.h"
#include "kernel/structure/kernel_graph.h"

namespace stitch::kernel {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::Op;
using graph::Value;

constexpr std::size_t most_scores = 2, most_products = 2;

class Derivation {
 public:
  explicit Derivation(Graph graph) : graph_(std::make_shared<const Graph>(std::move(graph))), g_(*graph_) {}

  Result<ProductChain> derive() {
    STITCH_TRY(find_dots());
    ProductChain chain;
    chain.graph = graph_;
    chain.roots = inner_;
    for (std::size_t r = 0; r < outer_.size(); ++r) STITCH_TRY(add_product(chain, r));
    chain.scores.resize(inner_.size());
    for (std::size_t r = 0; r < outer_.size(); ++r) {
      for (std::size_t i = 0; i < inner_.size(); ++i) STITCH_TRY(add_score(chain, i, r));
    }
    for (std::size_t i = 0; i < inner_.size(); ++i) {
      if (chain.scores[i].graph == nullptr)
        return make_error(ErrorKind::unsupported, "a dot of a chain that no other one takes");
    }
    STITCH_TRY(check_extents(chain));
    for (ContractionProblem& product : chain.products) {
      // The weights are never in memory.
      product.left.batch = graph::collapsed({{chain.batch(), chain.rows() * chain.columns()}});
      product.left.free = graph::collapsed({{chain.rows(), chain.columns()}});
      product.left.contracted = graph::collapsed({{chain.columns(), 1}});
    }
    if (chain.columns() == 0) return make_error(ErrorKind::unsupported, "a chain of products along nothing");
    chain.mask = mask_of(chain);
    return chain;
  }

 private:
  /// Inner dots are taken by outer ones, each of which makes a result.
  Status find_dots() {
    std::vector<std::vector<bool>> before;  // of each dot, what it is made of
    std::vector<NodeId> dots;
    for (NodeId id = 0; id < g_.size(); ++id) {
      if (g_.node(id).op == Op::convolution) return make_error(ErrorKind::unsupported, "a chain with a convolution");
      if (g_.node(id).op == Op::dot) dots.push_back(id);
      if (g_.node(id).op == Op::reduce)
        return make_error(ErrorKind::unsupported, "a chain of products with a reduction");
    }
    std::set<NodeId> inner;
    for (const NodeId dot : dots) {
      const std::vector<bool> needed = graph::needed_for(g_, g_.node(dot).operands);
      for (const NodeId other : dots) {
        if (other != dot && needed[other]) inner.insert(other);
      }
    }
    inner_.assign(inner.begin(), inner.end());
    for (const Value result : g_.results()) {
      const std::vector<bool> needed = graph::needed_for(g_, std::vector<Value>{result});
      NodeId last = -1;
      for (const NodeId dot : dots) {
        if (!needed[dot] || inner.contains(dot)) continue;
        if (last >= 0) return make_error(ErrorKind::unsupported, "a chain's result of several last dots");
        last = dot;
      }
      if (last < 0) return make_error(ErrorKind::unsupported, "a chain's result that no last dot makes");
      if (std::ranges::count(outer_, last) > 0)
        return make_error(ErrorKind::unsupported, "several results of one of a chain's dots");
      outer_.push_back(last);
    }
    if (outer_.size() + inner_.size() != dots.size() || inner_.empty() || inner_.size() > most_scores ||
        outer_.size() > most_products)
      return make_error(ErrorKind::unsupported, "{} dots, of which {} are taken by others, are no chain", dots.size(),
                        inner_.size());
    // Weights take the places of scores.
    if (outer_.size() > inner_.size())
      return make_error(ErrorKind::unsupported, "a chain of {} products and {} scores", outer_.size(), inner_.size());
    return {};
  }

  /// One walk serves all.
  static Status check_extents(const ProductChain& chain) {
    const auto agrees = [&](std::int64_t batch, std::int64_t rows, std::int64_t columns) {
      return batch == chain.batch() && rows == chain.rows() && columns == chain.columns();
    };
    const bool all = std::ranges::all_of(
                         chain.scores,
                         [&](const ContractionProblem& each) { return agrees(each.batch, each.rows, each.columns); }) &&
                     std::ranges::all_of(chain.products, [&](const ContractionProblem& each) {
                       return agrees(each.batch, each.rows, each.contracted);
                     });
    return all ? Status{} : make_error(ErrorKind::unsupported, "a chain's dots of different batch, rows or columns");
  }

  /// Whether the part's last parameter is read by its dot alone, in whatever layout.
  static bool is_multiplied_alone(const ContractionProblem& part) {
    const Graph& graph = *part.graph;
    const auto uses = graph::users(graph);
    std::vector<NodeId> open = {graph.parameters().back()};
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      for (const NodeId user : uses[id]) {
        if (user == part.root) continue;
        if (graph::info(graph.node(user).op).category != graph::OpCategory::layout) return false;
        open.push_back(user);
      }
    }
    return true;
  }

  [[nodiscard]] bool takes_score(Value value) const {
    const std::vector<bool> needed = graph::needed_for(g_, std::vector<Value>{value});
    return std::ranges::any_of(inner_, [&](NodeId id) { return needed[id]; });
  }

  /// The part of the graph that leads to `wanted`, with the same parameters and, behind them, `source`.
  [[nodiscard]] Result<ContractionProblem> part_of(const std::vector<Value>& sources, Value wanted) const {
    std::vector<Value> all;
    for (const NodeId parameter : g_.parameters()) all.push_back({parameter, 0});
    all.insert(all.end(), sources.begin(), sources.end());
    STITCH_ASSIGN(Graph part, graph::subgraph(g_, all, {wanted}));
    STITCH_ASSIGN(ContractionProblem problem, derive_contraction(std::move(part)));
    if (problem.accumulator != graph::DType::f32)
      return make_error(ErrorKind::unsupported, "a chain that is summed in something else than f32");
    if (problem.has_rows()) return make_error(ErrorKind::unsupported, "a chain's dot with more than an epilogue");
    return problem;
  }

  Status add_product(ProductChain& chain, std::size_t r) const {
    const graph::Node& dot = g_.node(outer_[r]);
    const bool left = takes_score(dot.operands[0]), right = takes_score(dot.operands[1]);
    if (left == right) return make_error(ErrorKind::unsupported, "a dot of which both operands are computed");
    const Value weights = view_of(g_, dot.operands[left ? 0 : 1]).source;
    STITCH_ASSIGN(ContractionProblem product, part_of({weights}, g_.results()[r]));
    const int number = static_cast<int>(g_.parameters().size());
    if (product.left.parameter != number) product = turned(std::move(product));
    if (product.left.parameter != number || product.right.parameter == number)
      return make_error(ErrorKind::unsupported, "a chain's dot does not read its weights as they are");
    if (!is_multiplied_alone(product))
      return make_error(ErrorKind::unsupported, "weights of a chain that more than its dot reads");
    if (product.left.offset != 0)
      return make_error(ErrorKind::unsupported, "a chain's dot reads a part of its weights");
    chain.weights.push_back(weights);
    chain.weights_lie.push_back(
        {product.left.dtype, product.left.batch, product.left.free, product.left.contracted, false});
    chain.products.push_back(std::move(product));
    return {};
  }

  /// Score i as weights r take it: all that take it must see it with the same operands, rows and columns.
  Status add_score(ProductChain& chain, std::size_t i, std::size_t r) const {
    const std::vector<bool> needed = graph::needed_for(g_, std::vector<Value>{chain.weights[r]});
    if (!needed[inner_[i]]) return {};
    STITCH_ASSIGN(ContractionProblem score, part_of(others(i), chain.weights[r]));
    const int given = static_cast<int>(g_.parameters().size());
    if (score.left.parameter >= given || score.right.parameter >= given)
      return make_error(ErrorKind::unsupported, "a chain's score of another score");
    const ContractionResult& lie = chain.weights_lie[r];
    const auto fits = [&] {
      return score.result.batch == lie.batch && score.result.rows == lie.rows && score.result.columns == lie.columns;
    };
    if (!fits()) score = turned(std::move(score));
    const bool whole = score.batch == chain.products[r].batch && score.rows == chain.products[r].rows &&
                       score.columns == chain.products[r].contracted;
    if (!fits() || !whole)
      return make_error(ErrorKind::unsupported, "batch, rows and columns of a chain's dots do not go together");
    ContractionProblem& known = chain.scores[i];
    if (known.graph == nullptr) {
      known = std::move(score);
    } else if (known.left != score.left || known.right != score.right || known.batch != score.batch ||
               known.rows != score.rows || known.columns != score.columns) {
      return make_error(ErrorKind::unsupported, "a chain's scores that are rows here and columns there");
    }
    return {};
  }
  [[nodiscard]] std::vector<Value> others(std::size_t i) const {
    std::vector<Value> values;
    for (std::size_t k = 0; k < inner_.size(); ++k) {
      if (k != i) values.push_back({inner_[k], 0});
    }
    return values;
  }

  /// exp(logits − something of the row), of which all weights are products: what it is 0 of need not be walked. Where a
  /// row or a column sees nothing, that is not so: of a row of constants all count alike.
  [[nodiscard]] std::optional<AttentionProblem> mask_of(const ProductChain& chain) const {
    for (NodeId id = 0; id < g_.size(); ++id) {
      if (g_.node(id).op != Op::exp) continue;
      const graph::Node& difference = g_.node(g_.node(id).operands[0].node);
      if (difference.op != Op::subtract || takes_score(difference.operands[1])) continue;
      std::map<NodeId, bool> known;
      const bool factor =
          std::ranges::all_of(chain.weights, [&](Value weights) { return vanishes_with(weights, id, known); });
      if (!factor || !has_select(difference.operands[0])) continue;
      if (auto mask = mask_with(chain, difference.operands[0])) return mask;
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<AttentionProblem> mask_with(const ProductChain& chain, Value logits) const {
    for (std::size_t i = 0; i < inner_.size(); ++i) {
      // Of a product of a tensor with itself nobody knows which side is which.
      if (chain.scores[i].left == chain.scores[i].right) continue;
      auto scores = part_of(others(i), logits);
      if (!scores) continue;
      if (scores->left != chain.scores[i].left) scores = turned(*std::move(scores));
      if (scores->left != chain.scores[i].left || scores->right != chain.scores[i].right) continue;
      AttentionProblem mask;
      mask.scores = *std::move(scores);
      mask.product = chain.products[0];
      mask.graph = graph_;
      AttentionProblem other = mask;
      other.scores = turned(std::move(other.scores));
      if (each_row_sees_some(mask) && each_row_sees_some(other)) return mask;
    }
    return std::nullopt;
  }

  [[nodiscard]] bool has_select(Value value) const {
    const std::vector<bool> needed = graph::needed_for(g_, std::vector<Value>{value});
    for (NodeId id = 0; id < g_.size(); ++id) {
      if (needed[id] && g_.node(id).op == Op::select) return true;
    }
    return false;
  }

  /// Whether a value is 0 wherever node `factor` is.
  bool vanishes_with(Value value, NodeId factor, std::map<NodeId, bool>& known) const {  // NOLINT(misc-no-recursion)
    if (value.node == factor) return true;
    if (const auto found = known.find(value.node); found != known.end()) return found->second;
    const graph::Node& node = g_.node(value.node);
    const auto operand = [&](int i) { return vanishes_with(node.operands[i], factor, known); };
    const auto branch = [&](int i) { return operand(i) || graph::fill_number(g_, node.operands[i]) == 0.0; };
    bool vanishes = false;
    switch (node.op) {
      case Op::multiply: vanishes = operand(0) || operand(1); break;
      case Op::divide:
      case Op::negate:
      case Op::convert:
      case Op::transpose:
      case Op::reshape: vanishes = operand(0); break;
      case Op::select: vanishes = branch(1) && branch(2); break;
      default: break;
    }
    known[value.node] = vanishes;
    return vanishes;
  }

  const std::shared_ptr<const Graph> graph_;
  const Graph& g_;
  std::vector<NodeId> inner_, outer_;
};

}  // namespace

int ProductChain::shared_operand(std::size_t r) const {
  const ContractionOperand& other = products[r].right;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const ContractionOperand& right = scores[i].right;
    const bool same = right.parameter == other.parameter && right.offset == other.offset &&
                      right.batch == other.batch && right.free == other.contracted && right.contracted == other.free;
    if (same && right.windows.empty() && other.windows.empty() && scores[i].contracted == products[r].columns)
      return static_cast<int>(i);
  }
  return -1;
}

double ProductChain::multiplications() const {
  double all = 0;
  for (const ContractionProblem& score : scores) all += score.products();
  for (const ContractionProblem& product : products) all += product.products();
  return all;
}

std::int64_t ProductChain::least_bytes() const { return kernel::least_bytes(*graph); }

Result<ProductChain> derive_chain(Graph graph) { return Derivation(std::move(graph)).derive(); }

std::string to_string(const ProductChain& chain) {
  std::string scores, products, results;
  for (const ContractionProblem& score : chain.scores) {
    scores += fmt::format("{}[{},{}]·[{},{}]", scores.empty() ? "" : " & ", score.rows, score.contracted,
                          score.contracted, score.columns);
  }
  for (const ContractionProblem& product : chain.products) {
    products += fmt::format("{}·[{},{}]", products.empty() ? "" : " & ", product.contracted, product.columns);
    results += fmt::format("{}{}", results.empty() ? "" : ", ", to_string(product.result.dtype));
  }
  return fmt::format("{} {}×{}, then {} → {}", to_string(chain.scores[0].left.dtype), chain.batch(), scores, products,
                     results);
}

Hash128 chain_hash(const ProductChain& chain) {
  Hasher hasher;
  hasher.text("stitch-chain-1");
  // Which dot is which follows from the graph; where parameters and results lie, too.
  const auto form = graph::canonicalise(*chain.graph);
  hasher.text(form ? form->key.hex() : graph::encode(*chain.graph, graph::Encoding::cbor));
  for (const int parameter : form ? form->parameter_order : std::vector<int>{})
    hasher.integer(static_cast<std::uint64_t>(parameter));
  for (const int result : form ? form->result_order : std::vector<int>{})
    hasher.integer(static_cast<std::uint64_t>(result));
  return hasher.finish();
}

}  // namespace stitch::kernel
