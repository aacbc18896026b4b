#include "graph/passes/expansions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "graph/builder.h"
#include "graph/literal.h"
#include "graph/passes/rewriter.h"
#include "graph/passes/splat.h"
#include "graph/reference/evaluate.h"

namespace stitch::graph {
namespace {

constexpr std::size_t fewest_operators = 12;
constexpr std::size_t most_operators = 160;
constexpr std::size_t fewest_constants = 6;  // coefficients of a polynomial
constexpr int most_trials = 3;               // inputs that are tried for one result

/// A function that is looked for; each of x and of -x.
struct Function {
  Op op;
  double (*value)(double);
};
constexpr std::array functions = {Function{Op::erfc, [](double x) { return std::erfc(x); }},
                                  Function{Op::erf, [](double x) { return std::erf(x); }}};

/// Where functions are compared: densely as far as erfc is a normal number, then coarsely to the ends of the type.
std::vector<double> samples(DType dtype) {
  std::vector<double> x;
  const double end = dtype == DType::f64 ? 27 : 9.5, step = end / 600;
  for (int i = -600; i <= 600; ++i) x.push_back(round_to(dtype, i * step));
  for (const double sign : {-1.0, 1.0}) {
    for (double large = 2 * end; large < 1e18; large *= 7) x.push_back(round_to(dtype, sign * large));
    for (double small = 0.01; small > 1e-12; small /= 7) x.push_back(round_to(dtype, sign * small));
  }
  return x;
}

/// A few of them, to tell most other regions apart.
std::vector<double> some_samples(DType dtype) {
  std::vector<double> x;
  for (const double value : {-3.2, -0.9, -0.3, 0.2, 0.7, 1.1, 1.9, 2.6, 5.5}) x.push_back(round_to(dtype, value));
  return x;
}

/// What lies between a node and the only value that it depends on besides constants.
class Region {
 public:
  Region(const Rewriter& graph, const Node& root) : graph_(graph), root_(root) { reaches_back_ = expand(root); }

  /// Goes back to the next value on which all of it depends; nothing when there is none near enough.
  std::optional<Value> next_input() {
    while (reaches_back_ && !frontier_.empty()) {
      if (input_) reaches_back_ = take(*input_);
      while (reaches_back_ && frontier_.size() > 1) reaches_back_ = take(*frontier_.rbegin());
      if (!reaches_back_ || frontier_.empty()) break;
      input_ = *frontier_.begin();
      if (graph_.dtype(*input_) == dtype()) return input_;
    }
    return std::nullopt;
  }

  [[nodiscard]] DType dtype() const { return root_.type().dtype; }
  [[nodiscard]] bool may_hold_a_polynomial() const {
    return members_.size() + 1 >= fewest_operators && constants_.size() >= fewest_constants;
  }

  /// Its values where the last input is `x`; nothing when it cannot be evaluated.
  [[nodiscard]] std::vector<double> values(std::vector<double> x) const {
    const Dims dims = {static_cast<std::int64_t>(x.size())};
    Builder b;
    std::map<Value, Value> copies = {{*input_, b.parameter(dtype(), dims)}};
    for (const auto& [constant, number] : constants_) copies[constant] = b.filled(graph_.dtype(constant), dims, number);
    const auto copied = [&](const Node& node) {
      std::vector<Value> operands;
      for (const Value& operand : node.operands) operands.push_back(copies.at(operand));
      return b.add(node.op, operands, node.attributes);
    };
    for (const Value& member : members_) copies[member] = copied(graph_.node(member));
    const Result<Graph> graph = b.finish({copied(root_)});
    if (!graph) return {};
    Tensor argument = Tensor::zeros({dtype(), dims});
    argument.floats = std::move(x);
    const Result<std::vector<Tensor>> results = evaluate(*graph, {&argument, 1});
    return results ? results->front().floats : std::vector<double>();
  }

 private:
  /// Makes a value of the frontier a member; false when it cannot be one.
  bool take(Value value) {
    frontier_.erase(value);
    members_.insert(value);
    return members_.size() < most_operators && expand(graph_.node(value));
  }

  bool expand(const Node& node) {
    const bool fits = is_elementwise(node.op) && node.results.size() == 1 && node.type().dims == root_.type().dims &&
                      (node.type().dtype == dtype() || node.type().dtype == DType::pred);
    if (!fits) return false;
    for (const Value& operand : node.operands) {
      if (const std::optional<double> number = splat_number(graph_, operand)) {
        constants_[operand] = *number;
      } else if (!members_.contains(operand)) {
        frontier_.insert(operand);
      }
    }
    return true;
  }

  const Rewriter& graph_;
  const Node& root_;
  bool reaches_back_ = true;
  std::optional<Value> input_;
  std::set<Value> members_;   // in topological order; the root is none
  std::set<Value> frontier_;  // operands that are no members, the last of them used by nothing before it
  std::map<Value, double> constants_;
};

/// Whether `values` at `x` are those of `op` at sign·x: to 16 roundoffs, or where both are too small for a normal
/// number. Expansions in f64 are evaluated with rounding errors of their own, which exp(-x²) magnifies by x².
bool agrees(DType dtype, const std::vector<double>& x, const std::vector<double>& values, const Function& function,
            double sign) {
  const bool wide = dtype == DType::f64;
  const double smallest = wide ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double wanted = function.value(sign * x[i]);
    const double magnified = wide ? 1 + std::min(x[i] * x[i], 729.0) : 1;
    const double allowed = 16 * unit_roundoff(dtype) * magnified * std::fabs(wanted) + smallest;
    if (!(std::fabs(values[i] - wanted) <= allowed)) return false;
  }
  return !values.empty();
}

/// A function of an argument, of which `sign` says whether it is negated.
struct Match {
  Op op;
  double sign;
};

std::optional<Match> matching(const Region& region, const std::vector<double>& x) {
  const std::vector<double> values = region.values(x);
  for (const Function& function : functions) {
    for (const double sign : {1.0, -1.0}) {
      if (agrees(region.dtype(), x, values, function, sign)) return Match{function.op, sign};
    }
  }
  return std::nullopt;
}

/// The last operator of an expansion: branches are selected, quotients of polynomials divided, results clamped.
bool may_end_an_expansion(const Node& node) {
  const bool ends = node.op == Op::select || node.op == Op::divide || node.op == Op::clamp;
  return ends && (node.type().dtype == DType::f32 || node.type().dtype == DType::f64);
}

Replacement expansions_rule(Rewriter& graph, const Node& node) {
  if (!may_end_an_expansion(node)) return {};
  Region region(graph, node);
  for (int trial = 0; trial < most_trials;) {
    const std::optional<Value> input = region.next_input();
    if (!input) return {};
    if (!region.may_hold_a_polynomial()) continue;
    ++trial;
    if (!matching(region, some_samples(region.dtype()))) continue;
    const std::optional<Match> match = matching(region, samples(region.dtype()));
    if (match) return graph.unary(match->op, match->sign > 0 ? *input : graph.unary(Op::negate, *input));
  }
  return {};
}

}  // namespace

Result<int> recognise_expansions(Graph& graph, const PassContext& context) {
  if (!context.reassociate) return 0;
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), may_end_an_expansion)) return 0;
  return rewrite(graph, expansions_rule);
}

}  // namespace stitch::graph
