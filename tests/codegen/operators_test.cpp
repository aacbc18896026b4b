// Every element-wise operator on the edges of every dtype, constants to the bit, quotients that meet a rounding: what
// codegen/spelling.cpp and the item emitter print, run on the emulated device.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/codegen/kernel_run.h"
#include "tests/graph/op_lists.h"

namespace stitch::codegen::test {
namespace {

using graph::Builder;
using graph::Comparison;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::Value;
using graph::test::elementwise_operators;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

std::vector<std::uint64_t> edges_of(DType dtype) {
  std::vector<std::uint64_t> bits;
  if (dtype == DType::pred) return {0, 1};
  const std::size_t bytes = graph::byte_size(dtype);
  if (graph::is_integer(dtype)) {
    const std::uint64_t ones = ~std::uint64_t{0} >> (64 - 8 * bytes), high = ones ^ (ones >> 1);
    for (const std::uint64_t low : {0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 100}) bits.push_back(low & ones);
    for (const std::uint64_t back : {0, 1, 2, 6, 7, 99}) bits.push_back((ones - back) & ones);  // -1, -2, … when signed
    bits.push_back(high);
    bits.push_back(high - 1);
    bits.push_back(high + 1);
    return bits;
  }
  const double largest = graph::largest_finite(dtype), normal = graph::smallest_normal(dtype);
  for (const double value : {0.0,
                             -0.0,
                             1.0,
                             -1.0,
                             0.5,
                             1.5,
                             -2.5,
                             3.5,
                             0.1,
                             -7.25,
                             20.0,
                             -100.0,
                             largest,
                             -largest,
                             normal,
                             -normal / 2,
                             graph::smallest_subnormal(dtype),
                             1 / 3.0,
                             infinity,
                             -infinity,
                             nan}) {
    std::uint64_t word = 0;
    graph::store_element(dtype, value, reinterpret_cast<std::byte*>(&word));
    bits.push_back(word);
  }
  return bits;
}

/// All pairs of edges: x runs through them slowly, y fast.
std::vector<Bytes> pairs_of_edges(DType dtype) {
  const std::vector<std::uint64_t> edges = edges_of(dtype);
  std::vector<std::uint64_t> x, y;
  for (const std::uint64_t a : edges) {
    for (const std::uint64_t b : edges) {
      x.push_back(a);
      y.push_back(b);
    }
  }
  return {bytes_of_bits(dtype, x), bytes_of_bits(dtype, y)};
}

constexpr DType all_dtypes[] = {DType::pred,   DType::s8,  DType::u8,   DType::s16, DType::u16,
                                DType::s32,    DType::u32, DType::s64,  DType::u64, DType::f8e4m3,
                                DType::f8e5m2, DType::f16, DType::bf16, DType::f32, DType::f64};

/// Whether bits came through. Floats of 16 and 8 bits are computed in f32, which keeps no payload of a NaN.
bool came_through(DType dtype, std::uint64_t bits, std::uint64_t got) {
  if (bits == got) return true;
  if (!graph::is_floating(dtype) || graph::byte_size(dtype) > 2) return false;
  return std::isnan(graph::load_element(dtype, reinterpret_cast<const std::byte*>(&bits))) &&
         std::isnan(graph::load_element(dtype, reinterpret_cast<const std::byte*>(&got)));
}

class OperatorsEmulated : public testing::TestWithParam<DType> {};
class ArithmeticEmulated : public testing::TestWithParam<DType> {};
class FunctionsEmulated : public testing::TestWithParam<DType> {};

std::string dtype_name(const testing::TestParamInfo<DType>& each) { return std::string(graph::to_string(each.param)); }

TEST_P(ArithmeticEmulated, OneOperandOnEveryEdge) {
  const DType dtype = GetParam();
  const std::vector<std::uint64_t> edges = edges_of(dtype);
  Builder b;
  const Value x = b.parameter(dtype, {std::ssize(edges)});
  std::vector<Value> results;
  for (const Op op : elementwise_operators(1, dtype)) results.push_back(b.unary(op, x));
  expect_right(make_case(b.finish(results)), {bytes_of_bits(dtype, edges)});
}

/// So many numbers of this type from low to high.
Bytes numbers_between(DType dtype, std::int64_t count, double low, double high) {
  std::vector<std::uint64_t> bits(count, 0);
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = low + (high - low) * i / (count - 1);
    graph::store_element(dtype, value, reinterpret_cast<std::byte*>(&bits[i]));
  }
  return bytes_of_bits(dtype, bits);
}

/// Runs operators of one operand on the same numbers.
void expect_right_between(DType dtype, const std::vector<Op>& operators, double low, double high) {
  constexpr std::int64_t count = 4096;
  Builder b;
  const Value x = b.parameter(dtype, {count});
  std::vector<Value> results;
  for (const Op op : operators) results.push_back(b.unary(op, x));
  expect_right(make_case(b.finish(results)), {numbers_between(dtype, count, low, high)});
}

// Where the edges are far apart: functions that device/math.cuh computes itself, and those of a short interval.
TEST_P(FunctionsEmulated, OfOurOwnDensely) {
  std::vector<Op> own;
  for (const Op op : elementwise_operators(1, GetParam())) {
    const graph::OpInfo& row = graph::info(op);
    const bool spelled = !row.spelling.empty() && row.spelling.find("{f}") == std::string_view::npos;
    if (spelled && row.cost == graph::OpCost::expensive) own.push_back(op);
  }
  own.push_back(Op::round_away);
  expect_right_between(GetParam(), own, -11, 11);
}

TEST_P(FunctionsEmulated, OfAnIntervalDenselyInside) {
  std::vector<Op> inside;
  for (const Op op : elementwise_operators(1, GetParam())) {
    const graph::RealInterval defined = graph::info(op).defined;
    if (defined.low == -1 && defined.high == 1) inside.push_back(op);
  }
  ASSERT_FALSE(inside.empty());
  expect_right_between(GetParam(), inside, -1, 1);
}

TEST_P(ArithmeticEmulated, TwoOperandsOnEveryPairOfEdges) {
  const DType dtype = GetParam();
  const std::int64_t count = edges_of(dtype).size();
  Builder b;
  const Value x = b.parameter(dtype, {count * count}), y = b.parameter(dtype, {count * count});
  std::vector<Value> results;
  for (const Op op : elementwise_operators(2, dtype)) results.push_back(b.binary(op, x, y));
  for (const Comparison direction :
       {Comparison::eq, Comparison::ne, Comparison::lt, Comparison::le, Comparison::gt, Comparison::ge}) {
    results.push_back(b.compare(direction, x, y));
  }
  results.push_back(b.select(b.compare(Comparison::lt, x, y), x, y));
  if (dtype != DType::pred) {
    const Value low = b.filled(dtype, {count * count}, 1), high = b.filled(dtype, {count * count}, 3);
    results.push_back(b.add(Op::clamp, {low, x, high}));
    results.push_back(b.add(Op::clamp, {y, x, high}));
  }
  expect_right(make_case(b.finish(results)), pairs_of_edges(dtype));
}

// Stored as well as read. f8e4m3 has NaN in memory where it leaves its range, and what the kernel reads is an infinity.
TEST(SmallFloatsEmulated, LeaveTheirRange) {
  for (const DType dtype : {DType::f8e4m3, DType::f8e5m2}) {
    const std::vector<std::uint64_t> edges = edges_of(dtype);
    Builder b;
    const Value x = b.parameter(dtype, {std::ssize(edges)});
    const Value one = b.filled(dtype, b.dims(x), 1), many = b.filled(dtype, b.dims(x), 50);
    std::vector<Value> results;
    for (const Value y : {b.unary(Op::log, x), b.binary(Op::divide, one, x), b.binary(Op::multiply, x, many)}) {
      results.insert(results.end(),
                     {y, b.unary(Op::is_finite, y), b.unary(Op::logistic, y), b.binary(Op::minimum, y, one),
                      b.convert(y, DType::s32), b.unary(Op::tanh, b.convert(y, DType::f32))});
    }
    expect_right(make_case(b.finish(results)), {bytes_of_bits(dtype, edges)});
  }
}

TEST_P(OperatorsEmulated, ConvertsToEveryDtype) {
  const DType dtype = GetParam();
  const std::vector<std::uint64_t> edges = edges_of(dtype);
  Builder b;
  const Value x = b.parameter(dtype, {std::ssize(edges)});
  std::vector<Value> results;
  for (const DType to : all_dtypes) {
    if (to != dtype) results.push_back(b.convert(x, to));
  }
  expect_right(make_case(b.finish(results)), {bytes_of_bits(dtype, edges)});
}

// Reading and writing without arithmetic keeps every bit, NaNs and denormals of all dtypes included.
TEST_P(OperatorsEmulated, MovingKeepsEveryBit) {
  const DType dtype = GetParam();
  std::vector<std::uint64_t> bits = edges_of(dtype);
  if (dtype == DType::f32) bits.insert(bits.end(), {0x7fc00001u, 0xffc12345u, 0x00000001u, 0x807fffffu});
  if (dtype == DType::f64) bits.insert(bits.end(), {0x7ff8000000000001u, 0x8000000000000001u});
  const std::int64_t count = bits.size();
  Builder b;
  const Value x = b.parameter(dtype, {count});
  const KernelOutcome outcome = run(make_case(b.finish({b.reverse(x, {0})})), {bytes_of_bits(dtype, bits)});
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const std::uint64_t got = bits_at(dtype, outcome.results[0], bits.size() - 1 - i);
    EXPECT_TRUE(came_through(dtype, bits[i], got)) << fmt::format("{:#x} became {:#x}", bits[i], got);
  }
}

// Constants are printed so that NVRTC reads back the very bits: the literal of every edge, chosen by a select.
TEST_P(OperatorsEmulated, ConstantsAreExact) {
  const DType dtype = GetParam();
  std::vector<std::uint64_t> bits = edges_of(dtype);
  if (dtype == DType::f32) {
    bits.insert(bits.end(), {0x7fc00001u, 0xffc12345u, 0x00000001u, 0x807fffffu, 0x3f800001u, 0x34000001u});
  }
  if (dtype == DType::f64) bits.insert(bits.end(), {0x3ff0000000000001u, 0x000fffffffffffffu});
  Builder b;
  const Value other = b.parameter(dtype, {4}), chosen = b.parameter(DType::pred, {4});
  std::vector<Value> results;
  for (const std::uint64_t word : bits) {
    graph::ConstantAttributes constant{{dtype, {}}, bytes_of_bits(dtype, std::vector{word})};
    results.push_back(b.select(chosen, b.broadcast(b.constant(constant), {4}, {}), other));
  }
  const KernelCase each = make_case(b.finish(results));
  const KernelOutcome outcome =
      run(each, {bytes_of_bits(dtype, std::vector<std::uint64_t>(4, 1)), Bytes(4, std::byte{1})});
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const std::uint64_t got = bits_at(dtype, outcome.results[i], 0);
    EXPECT_TRUE(came_through(dtype, bits[i], got))
        << fmt::format("{:#x} became {:#x}\n", bits[i], got) << each.kernel.source;
  }
}

// Constants with many different elements are tables in the source.
TEST_P(OperatorsEmulated, TablesAreExact) {
  const DType dtype = GetParam();
  const std::vector<std::uint64_t> bits = edges_of(dtype);
  const std::int64_t count = bits.size();
  Builder b;
  const Value other = b.parameter(dtype, {count}), chosen = b.parameter(DType::pred, {count});
  const Value table = b.constant({{dtype, {count}}, bytes_of_bits(dtype, bits)});
  const KernelCase each = make_case(b.finish({b.select(chosen, table, other)}));
  const KernelOutcome outcome = run(each, {bytes_of_bits(dtype, bits), Bytes(count, std::byte{1})});
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const std::uint64_t got = bits_at(dtype, outcome.results[0], i);
    EXPECT_TRUE(came_through(dtype, bits[i], got))
        << fmt::format("{:#x} became {:#x}\n", bits[i], got) << each.kernel.source;
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, OperatorsEmulated, testing::ValuesIn(all_dtypes), dtype_name);
INSTANTIATE_TEST_SUITE_P(Dtypes, ArithmeticEmulated,
                         testing::Values(DType::pred, DType::s8, DType::u8, DType::s16, DType::u16, DType::s32,
                                         DType::u32, DType::s64, DType::u64, DType::f8e4m3, DType::f8e5m2, DType::f16,
                                         DType::bf16, DType::f32, DType::f64),
                         dtype_name);
INSTANTIATE_TEST_SUITE_P(Dtypes, FunctionsEmulated,
                         testing::Values(DType::f8e4m3, DType::f8e5m2, DType::f16, DType::bf16, DType::f32, DType::f64),
                         dtype_name);

// ---- quotients that are rounded -----------------------------------------------------------------------------------

/// (k + 1/2) · d over d is k + 1/2 exactly: to even, away from zero, down. An approximate quotient is an ulp off and
/// goes the other way.
struct Halves {
  std::vector<double> x, y;
};
Halves halves() {
  Halves h;
  for (const double d : {3.0, 5.0, 7.0, 10.0, 11.0, 49.0, 1.5, 0.1f * 1.0, 127.0, 255.0}) {
    for (int k = -60; k < 60; ++k) {
      const double product = (k + 0.5) * d;
      if (static_cast<double>(static_cast<float>(product)) != product) continue;
      h.x.push_back(product);
      h.y.push_back(d);
    }
  }
  return h;
}

using Rounding = std::function<Value(Builder&, Value)>;
struct RoundedQuotient {
  std::string name;
  Rounding round;
  double (*expected)(double);
};
void PrintTo(const RoundedQuotient& each, std::ostream* out) { *out << each.name; }

class RoundedQuotientEmulated : public testing::TestWithParam<RoundedQuotient> {};

TEST_P(RoundedQuotientEmulated, MeetsExactHalves) {
  const Halves h = halves();
  const std::int64_t count = h.x.size();
  ASSERT_GT(count, 1000);
  Builder b;
  const Value x = b.parameter(DType::f32, {count}), y = b.parameter(DType::f32, {count});
  const KernelCase each = make_case(b.finish({GetParam().round(b, b.binary(Op::divide, x, y))}));
  const DType dtype = each.graph->type(each.graph->results()[0]).dtype;
  const KernelOutcome outcome = run(each, {bytes_of(DType::f32, h.x), bytes_of(DType::f32, h.y)});
  int wrong = 0;
  for (std::size_t i = 0; i < h.x.size() && wrong < 5; ++i) {
    const std::size_t size = graph::byte_size(dtype);
    const double got = graph::load_element(dtype, &outcome.results[0][i * size]);
    const double want = GetParam().expected(h.x[i] / h.y[i]);
    if (got == want) continue;
    ++wrong;
    ADD_FAILURE() << fmt::format("{} of {} / {}: {} instead of {}", GetParam().name, h.x[i], h.y[i], got, want);
  }
  EXPECT_THAT(each.kernel.source, HasSubstr("__fdiv_rn"));
}

Value unary(Builder& b, Op op, Value x) { return b.unary(op, x); }

const RoundedQuotient rounded_quotients[] = {
    {"to_even", [](Builder& b, Value q) { return unary(b, Op::round_even, q); },
     [](double q) { return std::nearbyint(q); }},
    {"away", [](Builder& b, Value q) { return unary(b, Op::round_away, q); }, [](double q) { return std::round(q); }},
    {"floor_after_half",
     [](Builder& b, Value q) {
       return unary(b, Op::floor, b.binary(Op::add, q, b.filled(DType::f32, b.dims(q), 0.5)));
     },
     [](double q) { return std::floor(q + 0.5); }},
    {"to_integer_after_half",
     [](Builder& b, Value q) {
       return b.convert(b.binary(Op::add, q, b.filled(DType::f32, b.dims(q), 0.5)), DType::s32);
     },
     [](double q) { return std::trunc(q + 0.5); }},
    {"clamped",
     [](Builder& b, Value q) {
       const Value low = b.filled(DType::f32, b.dims(q), -20), high = b.filled(DType::f32, b.dims(q), 20);
       return unary(b, Op::round_even, b.add(Op::clamp, {low, q, high}));
     },
     [](double q) { return std::nearbyint(std::min(std::max(q, -20.0), 20.0)); }},
    {"negated", [](Builder& b, Value q) { return unary(b, Op::round_even, b.unary(Op::negate, q)); },
     [](double q) { return std::nearbyint(-q); }},
    {"magnitude", [](Builder& b, Value q) { return unary(b, Op::round_even, b.unary(Op::abs, q)); },
     [](double q) { return std::nearbyint(std::fabs(q)); }},
};
INSTANTIATE_TEST_SUITE_P(Roundings, RoundedQuotientEmulated, testing::ValuesIn(rounded_quotients),
                         [](const auto& each) { return each.param.name; });

TEST(QuotientEmulated, ThatIsNotRoundedIsFast) {
  Builder b;
  const Value x = b.parameter(DType::f32, {100}), y = b.parameter(DType::f32, {100});
  EXPECT_THAT(make_case(b.finish({b.binary(Op::divide, x, y)})).kernel.source, Not(HasSubstr("__fdiv_rn")));
}

}  // namespace
}  // namespace stitch::codegen::test
