// Graphs with rows of which a block holds no whole one, beside sums over the rows: a plan for an H100 reads each of
// their tensors once. Counted, not timed; planned, not run (bert_train's own loss is tuned by tests/models).
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "graph/builder.h"
#include "graph/codec/codec.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/models/model_tuning.h"

namespace stitch::tuning {
namespace {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::ReduceKind;
using graph::Value;

/// What the graphs below are put together from: f32 tensors of one shape, and what remains of them along `over`.
class Rows {
 public:
  Rows(Dims dims, Dims over) : dims(std::move(dims)), over_(std::move(over)) {
    for (std::size_t d = 0; d < this->dims.size(); ++d) {
      const auto dimension = static_cast<std::int64_t>(d);
      const bool reduced = std::ranges::count(over_, dimension) > 0;
      if (!reduced) kept.push_back(dimension);
      if (reduced) length_ *= this->dims[d];
    }
  }
  Value parameter() { return b.parameter(DType::f32, dims); }
  /// A row's value, for each element of it.
  Value sum(Value x) { return repeated(b.reduce(ReduceKind::sum, x, over_)); }
  Value greatest(Value x) { return repeated(b.reduce(ReduceKind::max, x, over_)); }
  Value mean(Value x) { return times(sum(x), 1.0 / static_cast<double>(length_)); }
  Value times(Value x, double by) { return b.binary(Op::multiply, x, b.filled(DType::f32, b.dims(x), by)); }
  Value plus(Value x, double more) { return b.binary(Op::add, x, b.filled(DType::f32, b.dims(x), more)); }
  Value multiply(Value x, Value y) { return b.binary(Op::multiply, x, y); }
  Value subtract(Value x, Value y) { return b.binary(Op::subtract, x, y); }
  Value repeated(Value row) { return b.broadcast(row, dims, kept); }
  /// Logarithms of a row's softmax.
  Value log_softmax(Value x) {
    const Value shifted = subtract(x, greatest(x));
    return subtract(shifted, b.unary(Op::log, sum(b.unary(Op::exp, shifted))));
  }

  Builder b;
  const Dims dims;
  Dims kept;

 private:
  Dims over_;
  std::int64_t length_ = 1;
};

/// Gradients of a norm's input, gain and bias. `over`: what it takes the statistics of; `gains`: what has a gain.
Graph norm_backward(const Dims& dims, const Dims& over, const Dims& gains) {
  Rows r(dims, over);
  Dims sizes, others;
  for (const std::int64_t d : gains) sizes.push_back(dims[d]);
  for (std::int64_t d = 0; d < std::ssize(dims); ++d) {
    if (std::ranges::count(gains, d) == 0) others.push_back(d);
  }
  const Value x = r.parameter(), upstream = r.parameter(), gain = r.b.parameter(DType::f32, sizes);
  const Value centred = r.subtract(x, r.mean(x));
  const Value scale = r.b.unary(Op::rsqrt, r.plus(r.mean(r.multiply(centred, centred)), 1e-5));
  const Value normal = r.multiply(centred, scale), scaled = r.multiply(upstream, r.b.broadcast(gain, dims, gains));
  const Value tilt = r.multiply(normal, r.mean(r.multiply(scaled, normal)));
  const Value gradient = r.multiply(r.subtract(r.subtract(scaled, r.mean(scaled)), tilt), scale);
  return *r.b.finish({gradient, r.b.reduce(ReduceKind::sum, r.multiply(upstream, normal), others),
                      r.b.reduce(ReduceKind::sum, upstream, others)});
}

/// The same of rows whose statistics are given: all of a row's values and both sums over rows are wanted at once.
Graph norm_backward_of_statistics(std::int64_t rows, std::int64_t columns) {
  Rows r({rows, columns}, {1});
  const Value x = r.parameter(), upstream = r.parameter(), gain = r.b.parameter(DType::f32, {columns});
  const Value centre = r.b.parameter(DType::f32, {rows}), scale = r.repeated(r.b.parameter(DType::f32, {rows}));
  const Value normal = r.multiply(r.subtract(x, r.repeated(centre)), scale);
  const Value scaled = r.multiply(upstream, r.b.broadcast(gain, r.dims, {1}));
  const Value tilt = r.multiply(normal, r.mean(r.multiply(scaled, normal)));
  const Value gradient = r.multiply(r.subtract(r.subtract(scaled, r.mean(scaled)), tilt), scale);
  return *r.b.finish({gradient, r.b.reduce(ReduceKind::sum, r.multiply(upstream, normal), {0}),
                      r.b.reduce(ReduceKind::sum, upstream, {0})});
}

Graph layer_norm_backward(std::int64_t columns) {
  return norm_backward({(std::int64_t{1} << 26) / columns, columns}, {1}, {1});
}

/// Groups of eight of 256 channels of images of 64 × 64.
Graph group_norm_backward() { return norm_backward({32, 4096, 32, 8}, {1, 3}, {2, 3}); }

/// The mean over rows of Σ q·(log q − log p), p and q being softmaxes, and its gradients.
Graph kullback_leibler(std::int64_t rows, std::int64_t classes) {
  Rows r({rows, classes}, {1});
  const Value p = r.log_softmax(r.parameter()), q = r.log_softmax(r.parameter());
  const Value weight = r.b.unary(Op::exp, q), apart = r.subtract(q, p), each = r.multiply(weight, apart);
  const Value divergence = r.b.reduce(ReduceKind::sum, each, {1});
  const double share = 1.0 / static_cast<double>(rows);
  const Value of_p = r.times(r.subtract(r.b.unary(Op::exp, p), weight), share);
  const Value of_q = r.times(r.multiply(weight, r.subtract(apart, r.repeated(divergence))), share);
  return *r.b.finish({r.times(r.b.reduce(ReduceKind::sum, divergence, {0}), share), of_p, of_q});
}

/// bert_train's loss: rows of two dimensions, logits with a bias, whose gradient's norm is wanted.
Graph masked_language_loss(const Dims& dims) {
  Rows r(dims, {2});
  const Dims places = {dims[0], dims[1]};
  const double share = 1.0 / static_cast<double>(dims[0] * dims[1]);
  const Value bias = r.b.parameter(DType::f32, {dims[2]}), labels = r.b.parameter(DType::s32, places);
  const Value logs = r.log_softmax(r.b.binary(Op::add, r.parameter(), r.b.broadcast(bias, dims, {2})));
  const Value is_label = r.b.compare(graph::Comparison::eq,
                                     r.b.broadcast(r.b.iota(DType::s32, {dims[2]}, 0), dims, {2}), r.repeated(labels));
  const Value zero = r.b.filled(DType::f32, dims, 0), one = r.b.filled(DType::f32, dims, 1);
  const Value loss = r.b.reduce(ReduceKind::sum, r.b.select(is_label, logs, zero), {0, 1, 2});
  const Value gradient = r.times(r.subtract(r.b.unary(Op::exp, logs), r.b.select(is_label, one, zero)), share);
  const Value of_bias = r.b.reduce(ReduceKind::sum, gradient, {0, 1});
  const Value norm = r.b.reduce(ReduceKind::sum, r.multiply(of_bias, of_bias), {0});
  return *r.b.finish({r.times(loss, -share), gradient, of_bias, norm});
}

/// Bytes of parameters and results.
std::int64_t least_bytes(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const graph::NodeId id : graph.parameters()) bytes += graph.node(id).type().bytes();
  for (const Value result : graph.results()) bytes += graph.type(result).bytes();
  return bytes;
}

struct Example {
  std::string name;
  std::function<Graph()> graph;
};

void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

class LongRows : public testing::TestWithParam<Example> {};

TEST_P(LongRows, AreReadOnceByOneKernel) {
  static const SystemClock clock;
  static RealFileSystem files;
  TunerOptions options;
  options.compiles = false;
  const auto planner = Tuner::create(options, shared_device(), nullptr, files, clock);
  ASSERT_TRUE(planner.ok()) << planner.error().message;
  const Graph graph = GetParam().graph();
  const std::string document = graph::to_document(graph, graph::Encoding::json).dump();
  const auto planned = plan_model(document, GetParam().name + ".json", **planner, {}, {});
  ASSERT_TRUE(planned.ok()) << planned.error().message;
  EXPECT_EQ(planned->report.failures, std::vector<std::string>());
  EXPECT_EQ(planned->report.launches, 1);
  const double ratio = static_cast<double>(planned->report.bytes) / static_cast<double>(least_bytes(graph));
  EXPECT_LE(ratio, 1.10);
  RecordProperty("ratio", fmt::format("{:.3f}", ratio));
}

INSTANTIATE_TEST_SUITE_P(
    Graphs, LongRows,
    testing::Values(Example{"layer_norm_16384_backward", [] { return layer_norm_backward(16'384); }},
                    Example{"layer_norm_32768_backward", [] { return layer_norm_backward(32'768); }},
                    Example{"layer_norm_65536_backward", [] { return layer_norm_backward(65'536); }},
                    Example{"layer_norm_16384_backward_of_statistics",
                            [] { return norm_backward_of_statistics(4096, 16'384); }},
                    Example{"divergence_of_32000_classes", [] { return kullback_leibler(4096, 32'000); }},
                    Example{"group_norm_backward", group_norm_backward},
                    Example{"masked_language_loss",
                            [] {
                              return masked_language_loss({32, 128, 30'522});
                            }}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace stitch::tuning
