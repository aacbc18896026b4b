// What a plan is asked for besides being right (graph::Constraints), through the whole planner: simplified, cut,
// planned, generated, compiled and run on the emulated device.
#include "graph/constraints.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/clock.h"
#include "base/file.h"
#include "base/random.h"
#include "client/emulated_executor.h"
#include "graph/builder.h"
#include "graph/canonical.h"
#include "graph/literal.h"
#include "profiler/device/emulated_device.h"
#include "tuning/models/model_tuning.h"
#include "tuning/plans/tuner.h"

namespace stitch::lab {
namespace {

using graph::Builder;
using graph::Constraints;
using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::ReduceKind;
using graph::Value;
using Bytes = std::vector<std::byte>;

template <class T>
T must(Result<T> result) {
  if (!result) {
    throw std::runtime_error(result.error().message);
  }
  return std::move(*result);
}

tuning::Tuner& tuner_for(const std::string& target) {
  static profiler::EmulatedDevice device;
  static SystemClock clock;
  static RealFileSystem files;
  static std::map<std::string, std::unique_ptr<tuning::Tuner>> tuners;
  auto& tuner = tuners[target];
  if (!tuner) {
    tuning::TunerOptions options;
    options.target = target;
    tuner = must(tuning::Tuner::create(options, device, nullptr, files, clock));
  }
  return *tuner;
}

/// The results of a model that is one fragment, by the plan that is predicted to be best.
std::vector<Bytes> run(const Graph& model, const std::string& target, const std::vector<Bytes>& inputs,
                       const profiler::EmulatedOptions& options = {}) {
  tuning::Tuner& tuner = tuner_for(target);
  const tuning::ModelFragments cut = must(tuning::cut_model(import::Imported{model, {}, {}, {}, {}, {}, {}}, tuner));
  if (cut.entries.size() != 1) {
    throw std::runtime_error(fmt::format("{} fragments", cut.entries.size()));
  }
  const graph::CanonicalForm form = must(graph::canonicalise(cut.entries[0].graph));
  EXPECT_EQ(form.graph.constraints, model.constraints) << "constraints were lost on the way";
  const tuning::TunedFragment made = must(tuner.predict({.fragment = form.graph, .name = model.name}));
  profiler::EmulatedDevice device(options);
  client::EmulatedExecutor executor(device);
  const auto artifact = [&](const Sha256& hash) -> Result<std::string> {
    for (const db::Artifact& each : made.bundle.artifacts) {
      if (each.hash == hash) return each.bytes;
    }
    return make_error(ErrorKind::internal, "the plan lacks artifact {}", hash.hex());
  };
  const auto plan = must(executor.load(made.plan, artifact));
  // Parameters and results of the fragment are those of the model, told apart by their types' names in these tests.
  std::vector<std::span<const std::byte>> parameters;
  std::vector<Bytes> results;
  std::vector<std::span<std::byte>> into;
  for (const graph::NodeId id : form.graph.parameters()) {
    const graph::TensorType& type = form.graph.node(id).type();
    const auto found =
        std::ranges::find_if(model.parameters(), [&](graph::NodeId p) { return model.node(p).type() == type; });
    if (found == model.parameters().end()) {
      throw std::runtime_error("no parameter of type " + graph::to_string(type));
    }
    parameters.emplace_back(inputs[found - model.parameters().begin()]);
  }
  for (const graph::Value value : form.graph.results()) results.emplace_back(form.graph.type(value).bytes());
  for (Bytes& bytes : results) into.emplace_back(bytes);
  const Status done = plan->run(parameters, into);
  if (!done) {
    throw std::runtime_error(done.error().message);
  }
  return results;
}

Bytes bytes_of(DType dtype, std::int64_t count, const std::function<double(std::int64_t)>& value) {
  const std::size_t size = graph::byte_size(dtype);
  Bytes bytes(count * size);
  for (std::int64_t i = 0; i < count; ++i) graph::store_element(dtype, value(i), &bytes[i * size]);
  return bytes;
}

// ---- rows of a batch

struct RowWise {
  const char* name;
  /// Rows of x, computed in f32, to rows or to a number each.
  std::function<Value(Builder&, Value x, Value labels, Value gain)> compute;
};

Value mean(Builder& b, Value x) {
  const std::int64_t rows = b.dims(x)[0], columns = b.dims(x)[1];
  return b.binary(Op::divide, b.reduce(ReduceKind::sum, x, {1}), b.filled(DType::f32, {rows}, columns));
}

Value along_rows(Builder& b, Value x, Value like) { return b.broadcast(x, b.dims(like), {0}); }

Value softmax(Builder& b, Value x, Value, Value) {
  const Value top = along_rows(b, b.reduce(ReduceKind::max, x, {1}), x);
  const Value power = b.unary(Op::exp, b.binary(Op::subtract, x, top));
  return b.binary(Op::divide, power, along_rows(b, b.reduce(ReduceKind::sum, power, {1}), x));
}

Value layer_norm(Builder& b, Value x, Value, Value gain) {
  const Value centred = b.binary(Op::subtract, x, along_rows(b, mean(b, x), x));
  const Value variance = mean(b, b.binary(Op::multiply, centred, centred));
  const Value floor = b.filled(DType::f32, b.dims(variance), 1e-5);
  const Value scale = b.unary(Op::rsqrt, b.binary(Op::add, variance, floor));
  const Value normal = b.binary(Op::multiply, centred, along_rows(b, scale, x));
  return b.binary(Op::multiply, normal, b.broadcast(gain, b.dims(x), {1}));
}

Value rms_norm(Builder& b, Value x, Value, Value gain) {
  const Value square = mean(b, b.binary(Op::multiply, x, x));
  const Value scale = b.unary(Op::rsqrt, b.binary(Op::add, square, b.filled(DType::f32, b.dims(square), 1e-6)));
  return b.binary(Op::multiply, b.binary(Op::multiply, x, along_rows(b, scale, x)), b.broadcast(gain, b.dims(x), {1}));
}

/// log Σ exp x − x[label] of every row.
Value cross_entropy(Builder& b, Value x, Value labels, Value) {
  const Value top = b.reduce(ReduceKind::max, x, {1});
  const Value power = b.unary(Op::exp, b.binary(Op::subtract, x, along_rows(b, top, x)));
  const Value log_sum = b.binary(Op::add, top, b.unary(Op::log, b.reduce(ReduceKind::sum, power, {1})));
  const Value place = b.iota(DType::s32, b.dims(x), 1);
  const Value hit = b.compare(graph::Comparison::eq, place, along_rows(b, labels, x));
  const Value chosen = b.select(hit, x, b.filled(DType::f32, b.dims(x), 0));
  return b.binary(Op::subtract, log_sum, b.reduce(ReduceKind::sum, chosen, {1}));
}

const RowWise row_wise[] = {
    {"softmax", softmax}, {"layer_norm", layer_norm}, {"rms_norm", rms_norm}, {"cross_entropy", cross_entropy}};

Graph of_batch(const RowWise& each, DType dtype, std::int64_t rows, std::int64_t columns, Constraints constraints) {
  Builder b(each.name);
  const Value x = b.parameter(dtype, {rows, columns}), labels = b.parameter(DType::s32, {rows});
  const Value gain = b.parameter(DType::f32, {columns});
  Value y = each.compute(b, dtype == DType::f32 ? x : b.convert(x, DType::f32), labels, gain);
  if (b.dims(y).size() == 2 && dtype != DType::f32) y = b.convert(y, dtype);
  Graph graph = must(b.finish({y}));
  graph.constraints = constraints;
  return graph;
}

/// The rows from `first` on of one endless batch, as results.
std::vector<Bytes> rows_of(const RowWise& each, DType dtype, const std::string& target, std::int64_t first,
                           std::int64_t rows, std::int64_t columns, Constraints constraints) {
  const auto x = [&](std::int64_t i) { return std::ldexp(uniform_at(5, first * columns + i) - 0.5, 3); };
  const auto label = [&](std::int64_t i) { return static_cast<double>(random_at(6, first + i) % columns); };
  const auto gain = [](std::int64_t i) { return uniform_at(7, i) + 0.5; };
  const Bytes result =
      run(of_batch(each, dtype, rows, columns, constraints), target,
          {bytes_of(dtype, rows * columns, x), bytes_of(DType::s32, rows, label), bytes_of(DType::f32, columns, gain)})
          .at(0);
  std::vector<Bytes> all;
  const std::ptrdiff_t size = result.size() / rows;
  for (std::int64_t r = 0; r < rows; ++r) all.emplace_back(result.begin() + r * size, result.begin() + (r + 1) * size);
  return all;
}

struct BatchCase {
  std::string target;
  DType dtype;
  std::int64_t columns;
};

void PrintTo(const BatchCase& each, std::ostream* out) {
  *out << each.target << " " << graph::to_string(each.dtype) << " " << each.columns;
}

class BatchInvariantEmulated : public testing::TestWithParam<BatchCase> {};

TEST_P(BatchInvariantEmulated, ARowHasTheSameBitsInEveryBatch) {
  const auto& [target, dtype, columns] = GetParam();
  constexpr std::int64_t most = 513;
  for (const RowWise& each : row_wise) {
    const auto whole = rows_of(each, dtype, target, 0, most, columns, {.batch_invariant = true});
    for (const auto& [first, rows] : {std::pair<std::int64_t, std::int64_t>{0, 1}, {512, 1}, {3, 7}, {100, 64}}) {
      const auto part = rows_of(each, dtype, target, first, rows, columns, {.batch_invariant = true});
      std::int64_t different = 0;
      for (std::int64_t r = 0; r < rows; ++r) different += part[r] != whole[first + r] ? 1 : 0;
      EXPECT_EQ(different, 0) << each.name << ": " << different << " of " << rows << " rows from row " << first;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, BatchInvariantEmulated,
                         testing::Values(BatchCase{"h100", DType::f32, 768}, BatchCase{"h100", DType::bf16, 768},
                                         BatchCase{"a100", DType::f32, 768}, BatchCase{"a100", DType::bf16, 1001}),
                         [](const auto& row) {
                           return fmt::format("{}_{}_{}", row.param.target, graph::to_string(row.param.dtype),
                                              row.param.columns);
                         });

// Not so of its own accord: a row by itself is shared by other threads, in vectors.
TEST(BatchVariantEmulated, WithoutBeingAskedARowByItselfDiffers) {
  const auto whole = rows_of(row_wise[1], DType::f32, "h100", 0, 64, 1001, {});
  const auto alone = rows_of(row_wise[1], DType::f32, "h100", 3, 1, 1001, {});
  EXPECT_FALSE(alone[0] == whole[3]);
}

// ---- the order of blocks

/// Rows of a table that updates are added to, and the sums of columns over all of them.
Graph gradient(std::int64_t rows, std::int64_t columns, std::int64_t count) {
  Builder b("gradient");
  const Value at = b.parameter(DType::s32, {count, 1}), updates = b.parameter(DType::f32, {count, columns});
  graph::ScatterAttributes a;
  a.update_window_dims = {1};
  a.inserted_window_dims = {0};
  a.scatter_dims_to_operand_dims = {0};
  a.index_vector_dim = 1;
  const Value table = b.add(Op::scatter, {b.filled(DType::f32, {rows, columns}, 0), at, updates}, a);
  return must(b.finish({table, b.reduce(ReduceKind::sum, b.binary(Op::multiply, updates, updates), {0})}));
}

std::size_t different_results(const Constraints& constraints) {
  constexpr std::int64_t rows = 60, columns = 40, count = 2500;
  Graph model = gradient(rows, columns, count);
  model.constraints = constraints;
  const std::vector<Bytes> inputs = {
      bytes_of(DType::s32, count, [](std::int64_t i) { return static_cast<double>(random_at(8, i) % rows); }),
      bytes_of(DType::f32, count * columns,
               [](std::int64_t i) { return std::ldexp(uniform_at(9, i) - 0.5, random_at(10, i) % 20); })};
  std::set<std::vector<Bytes>> seen;
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    seen.insert(run(model, "h100", inputs, {.host_threads = 1, .shuffle_seed = seed}));
  return seen.size();
}

TEST(DeterministicEmulated, APlanGivesTheSameBitsInEveryOrderOfBlocks) {
  EXPECT_EQ(different_results({.deterministic = true}), 1U);
  EXPECT_EQ(different_results({.batch_invariant = true}), 1U);
  EXPECT_GT(different_results({}), 1U) << "nobody asked";
}

// ---- operators rounded one by one

/// A chain of operators that round, over one operand: `unary` and `binary` compute, or add to a graph.
template <class T>
T chain(const T& x, const auto& constant, const auto& unary, const auto& binary) {
  const T y = binary(Op::add, binary(Op::multiply, x, constant(1.7)), x);
  const T third = binary(Op::divide, y, constant(3));
  const T root = unary(Op::sqrt, unary(Op::abs, third));
  const T inverse = binary(Op::divide, constant(1), unary(Op::sqrt, binary(Op::add, root, constant(0.3))));
  const T both = binary(Op::subtract, binary(Op::multiply, root, x), binary(Op::multiply, inverse, third));
  return binary(Op::add, binary(Op::multiply, both, constant(0.7)), binary(Op::multiply, both, both));
}

double in_floats(Op op, float a, float b) {
  switch (op) {
    case Op::add: return a + b;
    case Op::subtract: return a - b;
    case Op::multiply: return a * b;
    case Op::divide: return a / b;
    case Op::sqrt: return std::sqrt(a);
    case Op::abs: return std::fabs(a);
    default: throw std::logic_error("not in the chain");
  }
}

/// How many of 4,099 elements differ in a bit from operators run one at a time.
std::int64_t differing(DType dtype, const std::string& target, const Constraints& constraints) {
  constexpr std::int64_t count = 4099;
  Builder b("chain");
  const Value x = b.parameter(dtype, {count});
  const auto filled = [&](double value) { return b.filled(dtype, {count}, value); };
  const auto unary = [&](Op op, Value a) { return b.unary(op, a); };
  const auto binary = [&](Op op, Value l, Value r) { return b.binary(op, l, r); };
  Graph model = must(b.finish({chain(x, filled, unary, binary)}));
  model.constraints = constraints;
  const Bytes input = bytes_of(dtype, count, [](std::int64_t i) { return std::ldexp(uniform_at(11, i) - 0.5, 4); });
  const Bytes result = run(model, target, {input}).at(0);

  const std::size_t size = graph::byte_size(dtype);
  const auto rounded = [&](double value) {
    std::byte bytes[8];
    graph::store_element(dtype, value, bytes);
    return graph::load_element(dtype, bytes);
  };
  const auto one = [&](Op op, double a) { return rounded(in_floats(op, a, 0)); };
  const auto two = [&](Op op, double l, double r) { return rounded(in_floats(op, l, r)); };
  std::int64_t different = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::byte expected[8];
    graph::store_element(dtype, chain(graph::load_element(dtype, &input[i * size]), rounded, one, two), expected);
    different += std::memcmp(expected, &result[i * size], size) != 0 ? 1 : 0;
  }
  return different;
}

class EagerPrecisionEmulated : public testing::TestWithParam<DType> {};

TEST_P(EagerPrecisionEmulated, AChainHasTheBitsOfOperatorsRunOneAtATime) {
  for (const char* target : {"h100", "a100"})
    EXPECT_EQ(differing(GetParam(), target, {.eager_precision = true}), 0) << target;
  EXPECT_GT(differing(GetParam(), "h100", {}), 0) << "nobody asked";
}

INSTANTIATE_TEST_SUITE_P(Types, EagerPrecisionEmulated, testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& type) { return std::string(graph::to_string(type.param)); });

}  // namespace
}  // namespace stitch::lab
