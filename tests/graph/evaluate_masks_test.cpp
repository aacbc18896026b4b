// Masks of the lowest number, as exporters write them: what is added to them may overflow, and still says enough for
// the rows that something of is left in.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "base/random.h"
#include "graph/builder.h"
#include "graph/literal.h"
#include "graph/reference/evaluate.h"

namespace stitch::graph {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<Tensor> evaluated(Builder& builder, const std::vector<Value>& results,
                              const std::vector<Tensor>& arguments) {
  const Result<Graph> graph = builder.finish(results);
  if (!graph) throw std::runtime_error(graph.error().message);
  EvaluateOptions options;
  options.bounds = true;
  options.error_model.flush_denormals = true;
  auto values = evaluate(*graph, arguments, options);
  if (!values) throw std::runtime_error(values.error().message);
  return std::move(*values);
}

Tensor vector_of(DType dtype, std::vector<double> values) {
  Tensor tensor = Tensor::zeros({dtype, {std::ssize(values)}});
  tensor.floats = std::move(values);
  return tensor;
}

// ---- the softmax

enum class Steps : unsigned char { three, joined };

struct Masked {
  DType dtype = DType::f32, computed = DType::f32;  ///< of the scores and the mask; of the softmax
  Steps steps = Steps::three;
  double scale = 8;  ///< of the scores
  bool masks_twice = false, keeps_masked = false, selects = false;
};

void PrintTo(const Masked& m, std::ostream* out) {
  *out << to_string(m.dtype) << " " << to_string(m.computed) << (m.steps == Steps::three ? "" : " joined") << " "
       << m.scale << (m.masks_twice ? " twice" : "") << (m.keeps_masked ? " kept" : "")
       << (m.selects ? " selected" : "");
}

constexpr std::int64_t rows = 6, columns = 40;

/// Of the last row nothing is left, of the first everything.
bool is_kept(std::int64_t row, std::int64_t column) { return row == 0 || (row + 1 < rows && column % (row + 2) == 1); }

class MaskedSoftmax : public testing::TestWithParam<Masked> {
 protected:
  void SetUp() override {
    scores_ = Tensor::zeros({GetParam().dtype, {rows, columns}});
    kept_ = Tensor::zeros({DType::pred, {rows, columns}});
    Random random(5);
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      scores_.floats[i] = round_to(GetParam().dtype, GetParam().scale * (2 * random.uniform() - 1));
      kept_.integers[i] = is_kept(i / columns, i % columns);
    }
  }

  Tensor reference() const {
    const Masked& m = GetParam();
    const Dims dims = {rows, columns}, row = {rows};
    Builder b;
    const Value scores = b.parameter(m.dtype, dims), kept = b.parameter(DType::pred, dims);
    const Value mask = b.select(kept, b.filled(m.dtype, dims, 0), b.filled(m.dtype, dims, -largest_finite(m.dtype)));
    Value x = m.selects ? b.select(kept, scores, b.filled(m.dtype, dims, -largest_finite(m.dtype)))
                        : b.binary(Op::add, scores, mask);
    if (m.masks_twice) x = b.binary(Op::add, x, mask);
    if (m.keeps_masked) x = b.binary(Op::maximum, x, b.filled(m.dtype, dims, -largest_finite(m.dtype)));
    if (m.computed != m.dtype) x = b.convert(x, m.computed);
    Value greatest, sum;
    if (m.steps == Steps::joined) {
      greatest = b.add(Op::max_exp_sum, {x}, MaxExpSumAttributes{{1}});
      sum = {greatest.node, 1};
    } else {
      greatest = b.reduce(ReduceKind::max, x, {1});
    }
    const Value e = b.unary(Op::exp, b.binary(Op::subtract, x, b.broadcast(greatest, dims, {0})));
    if (m.steps == Steps::three) sum = b.reduce(ReduceKind::sum, e, {1});
    const Value y = b.binary(Op::divide, e, b.broadcast(sum, dims, {0}));
    Value shown = b.select(b.unary(Op::is_nan, y), b.filled(m.computed, dims, 0), y);
    if (m.computed != m.dtype) shown = b.convert(shown, m.dtype);
    return evaluated(b, {shown}, {scores_, kept_})[0];
  }

  Tensor scores_, kept_;
};

/// A kernel's row in f32. `rounds`: every value on the way to the dtype. `backward` is the order of the sum; `by_two`:
/// exponentials of base two, of which factor and addend are one operation, and which follow the maximum so far.
std::vector<double> in_single(const Masked& m, const Tensor& scores, std::int64_t row, bool rounds, bool backward,
                              bool by_two) {
  const auto kept = [&](float v, DType dtype) { return rounds ? static_cast<float>(round_to(dtype, v)) : v; };
  const auto lowest = static_cast<float>(-largest_finite(m.dtype));
  std::vector<float> x, e(columns);
  for (std::int64_t i = 0; i < columns; ++i) {
    const float mask = is_kept(row, i) ? 0 : lowest;
    const auto score = static_cast<float>(scores.floats[row * columns + i]);
    float v = m.selects && mask != 0 ? mask : kept(score + mask, m.dtype);
    if (m.masks_twice) v = kept(v + mask, m.dtype);
    if (m.keeps_masked) v = std::max(v, lowest);
    x.push_back(kept(v, m.computed));
  }
  float greatest = -std::numeric_limits<float>::infinity(), sum = 0;
  for (const float v : x) greatest = std::max(greatest, v);
  constexpr auto factor = std::numbers::log2e_v<float>;
  for (std::int64_t k = 0; k < columns; ++k) {
    const std::int64_t i = backward ? columns - 1 - k : k;
    e[i] = by_two ? std::exp2(std::fma(x[i], factor, -greatest * factor))
                  : kept(std::exp(kept(x[i] - greatest, m.computed)), m.computed);
    sum += e[i];
  }
  std::vector<double> y;
  for (const float v : e) y.push_back(round_to(m.dtype, kept(v / kept(sum, m.computed), m.computed)));
  return y;
}

TEST_P(MaskedSoftmax, IsThatOfWhatIsLeft) {
  const Masked& m = GetParam();
  const Tensor y = reference();
  for (std::int64_t row = 0; row + 1 < rows; ++row) {
    double greatest = -infinity, sum = 0;
    for (std::int64_t i = 0; i < columns; ++i) {
      if (is_kept(row, i)) greatest = std::max(greatest, scores_.floats[row * columns + i]);
    }
    const auto term = [&](std::int64_t i) {
      return is_kept(row, i) ? std::exp(scores_.floats[row * columns + i] - greatest) : 0;
    };
    for (std::int64_t i = 0; i < columns; ++i) sum += term(i);
    for (std::int64_t i = 0; i < columns; ++i) {
      const std::int64_t at = row * columns + i;
      EXPECT_NEAR(y.at(at), term(i) / sum, 1e-12) << row << " " << i;
      if (is_kept(row, i)) {
        EXPECT_LT(y.bound(at), 0.6 * y.at(at) + 2 * smallest_subnormal(m.dtype) + 4 * smallest_normal(DType::f32))
            << row << " " << i;
      } else {
        EXPECT_EQ(y.bound(at), 0) << row << " " << i;
      }
    }
    for (const int way : {0, 1, 2, 3, 4, 6}) {
      const std::vector<double> kernel = in_single(m, scores_, row, (way & 1) != 0, (way & 2) != 0, (way & 4) != 0);
      for (std::int64_t i = 0; i < columns; ++i) {
        const std::int64_t at = row * columns + i;
        EXPECT_TRUE(accepts(y.at(at), y.bound(at), kernel[i]))
            << way << " " << row << " " << i << ": " << kernel[i] << " instead of " << y.at(at) << " ± " << y.bound(at);
      }
    }
  }
}

TEST_P(MaskedSoftmax, OfNothingIsUnchecked) {
  if (GetParam().keeps_masked || GetParam().selects) GTEST_SKIP() << "each is the lowest number exactly";
  const Tensor y = reference();
  for (std::int64_t i = (rows - 1) * columns; i < rows * columns; ++i) EXPECT_EQ(y.bound(i), infinity);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, MaskedSoftmax,
    testing::Values(Masked{}, Masked{.steps = Steps::joined}, Masked{.scale = 80}, Masked{.scale = 0},
                    Masked{.masks_twice = true}, Masked{.keeps_masked = true}, Masked{.selects = true},
                    Masked{DType::f16, DType::f16}, Masked{DType::f16, DType::f32, Steps::joined, 60},
                    Masked{DType::f16, DType::f32}, Masked{DType::f16, DType::f16, Steps::three, 300},
                    Masked{DType::bf16, DType::bf16}, Masked{DType::bf16, DType::f32, Steps::three, 40},
                    Masked{DType::bf16, DType::f32, Steps::joined}));

TEST(MaskedSoftmaxOfDoubles, IsThatOfWhatIsLeft) {
  const double lowest = -largest_finite(DType::f64);
  Builder b;
  const Value x = b.binary(Op::add, b.parameter(DType::f64, {3}), b.parameter(DType::f64, {3}));
  const Value greatest = b.broadcast(b.reduce(ReduceKind::max, x, {0}), {3}, {});
  const Tensor e = evaluated(b, {b.unary(Op::exp, b.binary(Op::subtract, x, greatest))},
                             {vector_of(DType::f64, {1, 2, -3}), vector_of(DType::f64, {lowest, 0, lowest})})[0];
  EXPECT_EQ(e.floats, (std::vector<double>{0, 1, 0}));
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_LT(e.bound(i), 1e-12);
}

// ---- what says enough, and what does not

/// What is made of x = number + mask, which may be −∞ in a kernel, and of `other`, by an operator that is looked at.
struct Use {
  const char* name;
  std::function<Value(Builder&, Value x, Value other)> made;
  double other;
  double value;
  bool checked;
};

void PrintTo(const Use& use, std::ostream* out) { *out << use.name; }

class UsesOfTheMasked : public testing::TestWithParam<Use> {};

TEST_P(UsesOfTheMasked, AreCheckedWhereAllKernelsAgree) {
  const Use& use = GetParam();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    Builder b;
    const Value x = b.binary(Op::add, b.parameter(dtype, {1}), b.parameter(dtype, {1}));
    const Tensor result = evaluated(
        b, {use.made(b, x, b.parameter(dtype, {1}))},
        {vector_of(dtype, {-32}), vector_of(dtype, {-largest_finite(dtype)}), vector_of(dtype, {use.other})})[0];
    EXPECT_FALSE(std::isnan(result.bound(0)));
    EXPECT_GE(result.bound(0), 0);
    EXPECT_EQ(std::isfinite(result.bound(0)), use.checked) << to_string(dtype);
    if (!use.checked) continue;
    EXPECT_EQ(result.at(0), use.value) << to_string(dtype);
  }
}

Value exp_of(Builder& b, Value x) { return b.unary(Op::exp, x); }
Value compared(Builder& b, Comparison direction, Value x, Value y) {
  return b.select(b.compare(direction, x, y), b.filled(b.type(x).dtype, {1}, 1), b.filled(b.type(x).dtype, {1}, 2));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, UsesOfTheMasked,
    testing::Values(
        Use{"itself", [](Builder&, Value x, Value) { return x; }, 0, 0, false},
        Use{"exp", [](Builder& b, Value x, Value) { return exp_of(b, x); }, 0, 0, true},
        Use{"exp_of_difference", [](Builder& b, Value x, Value y) { return exp_of(b, b.binary(Op::subtract, x, y)); },
            -40, 0, true},
        Use{"exp_of_the_other_difference",
            [](Builder& b, Value x, Value y) { return exp_of(b, b.binary(Op::subtract, y, x)); }, 3, 0, false},
        Use{"exp_of_sum", [](Builder& b, Value x, Value y) { return exp_of(b, b.binary(Op::add, y, x)); }, 40, 0, true},
        Use{"exp_of_what_is_brought_back",
            [](Builder& b, Value x, Value) {
              const DType dtype = b.type(x).dtype;
              return exp_of(b, b.binary(Op::add, x, b.filled(dtype, {1}, largest_finite(dtype))));
            },
            0, 0, false},
        Use{"difference_from_itself",
            [](Builder& b, Value x, Value) { return exp_of(b, b.binary(Op::subtract, x, x)); }, 0, 0, false},
        Use{"with_infinity", [](Builder& b, Value x, Value y) { return exp_of(b, b.binary(Op::add, x, y)); }, infinity,
            0, false},
        Use{"with_nan", [](Builder& b, Value x, Value y) { return exp_of(b, b.binary(Op::minimum, x, y)); },
            std::numeric_limits<double>::quiet_NaN(), 0, false},
        Use{"negated", [](Builder& b, Value x, Value) { return b.unary(Op::negate, x); }, 0, 0, false},
        Use{"product", [](Builder& b, Value x, Value y) { return exp_of(b, b.binary(Op::multiply, x, y)); }, 1, 0,
            false},
        Use{"quotient", [](Builder& b, Value x, Value y) { return b.binary(Op::divide, y, x); }, 1, 0, false},
        Use{"clamped",
            [](Builder& b, Value x, Value y) {
              return b.add(Op::clamp, {y, x, b.filled(b.type(x).dtype, {1}, 9)});
            },
            1, 0, false},
        Use{"maximum", [](Builder& b, Value x, Value y) { return b.binary(Op::maximum, x, y); }, 3, 3, true},
        Use{"minimum", [](Builder& b, Value x, Value y) { return b.binary(Op::minimum, x, y); }, 3, 3, false},
        Use{"exp_of_minimum", [](Builder& b, Value x, Value y) { return exp_of(b, b.binary(Op::minimum, x, y)); }, 3, 0,
            true},
        Use{"reduced",
            [](Builder& b, Value x, Value y) {
              return b.reduce(ReduceKind::max, b.concatenate({x, y}, 0), {0});
            },
            3, 3, true},
        Use{"summed", [](Builder& b, Value x, Value) { return exp_of(b, b.reduce(ReduceKind::sum, x, {0})); }, 0, 0,
            false},
        Use{"scanned",
            [](Builder& b, Value x, Value) {
              return exp_of(b, b.add(Op::scan, {x}, ScanAttributes{ReduceKind::max, 0, false, false}));
            },
            0, 0, false},
        Use{"is_nan",
            [](Builder& b, Value x, Value) {
              const DType dtype = b.type(x).dtype;
              return b.select(b.unary(Op::is_nan, x), b.filled(dtype, {1}, 1), b.filled(dtype, {1}, 2));
            },
            0, 2, true},
        Use{"selected_for_certain",
            [](Builder& b, Value x, Value y) {
              return exp_of(b, b.select(b.compare(Comparison::gt, y, b.filled(b.type(x).dtype, {1}, 0)), x, y));
            },
            3, 0, true},
        Use{"selected_perhaps",
            [](Builder& b, Value x, Value y) {
              const Value one = b.filled(b.type(x).dtype, {1}, 1);
              return exp_of(b, b.select(b.compare(Comparison::gt, b.unary(Op::exp, y), one), x, y));
            },
            0, 0, false},
        Use{"converted", [](Builder& b, Value x, Value) { return exp_of(b, b.convert(x, DType::f64)); }, 0, 0, true},
        Use{"converted_to_what_has_no_infinity",
            [](Builder& b, Value x, Value) { return exp_of(b, b.convert(x, DType::f8e4m3)); }, 0, 0, false},
        Use{"integer", [](Builder& b, Value x, Value) { return b.convert(b.convert(x, DType::s32), DType::f32); }, 0, 0,
            false}),
    [](const auto& each) { return each.param.name; });

/// A comparison that the infinity decides otherwise than the number: either way is right.
TEST(ComparisonsOfTheMasked, AreUncertain) {
  Builder b;
  const Value x = b.binary(Op::add, b.parameter(DType::f16, {1}), b.parameter(DType::f16, {1}));
  const Value bits = compared(b, Comparison::ge, x, b.filled(DType::f16, {1}, -65504));
  const Tensor result = evaluated(b, {bits}, {vector_of(DType::f16, {-1}), vector_of(DType::f16, {-65504})})[0];
  EXPECT_TRUE(accepts(result.at(0), result.bound(0), 1) && accepts(result.at(0), result.bound(0), 2));
}

/// The masked values are a result, too, and are that unchecked; what is made of them is checked.
TEST(MaskedResults, AreUncheckedAndWhatIsMadeOfThemIsNot) {
  Builder b;
  const Value x = b.binary(Op::add, b.parameter(DType::f32, {2}), b.parameter(DType::f32, {2}));
  const Value greatest = b.broadcast(b.reduce(ReduceKind::max, x, {0}), {2}, {});
  const std::vector<Tensor> both =
      evaluated(b, {x, b.unary(Op::exp, b.binary(Op::subtract, x, greatest))},
                {vector_of(DType::f32, {1, 2}), vector_of(DType::f32, {-largest_finite(DType::f32), 0})});
  EXPECT_EQ(both[0].bound(0), infinity);
  EXPECT_EQ(both[0].bound(1), 0);
  EXPECT_EQ(both[1].floats, (std::vector<double>{0, 1}));
  EXPECT_EQ(both[1].bound(0), 0);
}

}  // namespace
}  // namespace stitch::graph
