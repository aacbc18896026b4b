#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "import/emit.h"
#include "import/onnx/operators/recurrent.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

using graph::Builder;

struct ActivationRow {
  std::string_view name;
  std::optional<double> alpha, beta;  ///< defaults, of the parameters that it takes
  Value (*apply)(Builder& b, Value x, double alpha, double beta);
};

// The functions that ONNX lists for its recurrent operators.
const std::array<ActivationRow, 11> activation_rows = {{
    {"relu", {}, {}, [](Builder& b, Value x, double, double) { return max(b, x, 0.0); }},
    {"tanh", {}, {}, [](Builder& b, Value x, double, double) { return tanh(b, x); }},
    {"sigmoid", {}, {}, [](Builder& b, Value x, double, double) { return b.unary(Op::logistic, x); }},
    {"affine", 1, 0, [](Builder& b, Value x, double alpha, double beta) { return add(b, mul(b, x, alpha), beta); }},
    {"leakyrelu",
     0.01,
     {},
     [](Builder& b, Value x, double alpha, double) {
       return b.select(compare(b, Comparison::lt, x, 0.0), mul(b, x, alpha), x);
     }},
    {"thresholdedrelu",
     1,
     {},
     [](Builder& b, Value x, double alpha, double) {
       return b.select(compare(b, Comparison::ge, x, alpha), x, like(b, x, 0.0));
     }},
    {"scaledtanh", 1, 1,
     [](Builder& b, Value x, double alpha, double beta) { return mul(b, tanh(b, mul(b, x, beta)), alpha); }},
    {"hardsigmoid", 0.2, 0.5,
     [](Builder& b, Value x, double alpha, double beta) {
       return max(b, min(b, add(b, mul(b, x, alpha), beta), 1.0), 0.0);
     }},
    {"elu",
     1,
     {},
     [](Builder& b, Value x, double alpha, double) {
       return b.select(compare(b, Comparison::lt, x, 0.0), mul(b, b.unary(Op::expm1, x), alpha), x);
     }},
    {"softsign",
     {},
     {},
     [](Builder& b, Value x, double, double) { return div(b, x, add(b, b.unary(Op::abs, x), 1.0)); }},
    {"softplus",
     {},
     {},
     [](Builder& b, Value x, double, double) {
       const Value tail = b.unary(Op::log1p, exp(b, b.unary(Op::negate, b.unary(Op::abs, x))));
       return add(b, max(b, x, 0.0), tail);
     }},
}};

const ActivationRow* find_row(std::string_view name) {
  const auto* row = std::find_if(activation_rows.begin(), activation_rows.end(),
                                 [&](const ActivationRow& r) { return r.name == name; });
  return row == activation_rows.end() ? nullptr : row;
}

}  // namespace

Result<std::vector<Activation>> read_activations(Call& c, const std::vector<std::string>& defaults,
                                                 std::int64_t directions) {
  STITCH_ASSIGN(std::vector<std::string> names, c.node.texts("activations", {}));
  STITCH_ASSIGN(const std::vector<double> alphas, c.node.numbers("activation_alpha", {}));
  STITCH_ASSIGN(const std::vector<double> betas, c.node.numbers("activation_beta", {}));
  if (names.empty()) {
    for (std::int64_t d = 0; d < directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  }
  if (names.size() != defaults.size() * static_cast<std::size_t>(directions)) {
    return Call::wrong("attribute 'activations' has {} names", names.size());
  }
  std::vector<Activation> activations;
  std::size_t next_alpha = 0, next_beta = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::string lower = names[i];
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char ch) { return std::tolower(ch); });
    const ActivationRow* row = find_row(lower);
    if (row == nullptr) return Call::wrong("attribute 'activations' names '{}'", names[i]);
    // The lists hold only the parameters of those that take one.
    const auto parameter = [](const std::optional<double>& standard, const std::vector<double>& list,
                              std::size_t& next) {
      if (!standard) return 0.0;
      return next < list.size() ? list[next++] : *standard;
    };
    const double alpha = parameter(row->alpha, alphas, next_alpha), beta = parameter(row->beta, betas, next_beta);
    activations.push_back({lower, alpha, beta});
  }
  return activations;
}

Value apply_activation(Builder& b, Value x, const Activation& activation) {
  return find_row(activation.name)->apply(b, x, activation.alpha, activation.beta);
}

}  // namespace stitch::import::onnx
