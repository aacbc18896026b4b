// Library calls as cuDNN takes them: every convolution that find_library_calls makes, run as the description says,
// gives what the reference does.
#include "graph/calls/strided_convolution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "graph/builder.h"
#include "tests/graph/call_reference.h"
#include "tests/graph/random_convolution.h"

namespace stitch::graph {
namespace {

using ::testing::HasSubstr;
using Kind = StridedConvolution::Kind;

/// The next index in row-major order; false behind the last.
bool advance(Dims& index, const Dims& extents) {
  for (std::size_t d = index.size(); d-- > 0;) {
    if (++index[d] < extents[d]) return true;
    index[d] = 0;
  }
  return false;
}

std::int64_t place_of(const StridedConvolution::Tensor& tensor, const Dims& index) {
  std::int64_t place = tensor.offset;
  for (std::size_t d = 0; d < index.size(); ++d) place += (tensor.extents[d] == 1 ? 0 : index[d]) * tensor.strides[d];
  return place;
}

/// Runs a description by the book, in double.
std::vector<double> run_convolution(const StridedConvolution& how, const std::vector<Tensor>& arguments,
                                    std::int64_t elements) {
  std::vector<double> out(elements, NAN), sums(elements, 0);
  if (how.is_empty()) return out;
  const std::size_t spatial = how.strides.size();
  const auto read = [&](const StridedConvolution::Tensor& tensor, const Dims& index) {
    return arguments[tensor.parameter].at(place_of(tensor, index));
  };
  const std::int64_t channels = how.filter.extents[1], features = how.filter.extents[0] / how.groups;
  Dims at(how.output.extents.size(), 0);  // n, k, p
  do {
    Dims window(how.filter.extents.begin() + 1, how.filter.extents.end()), w(window.size(), 0);  // c, r
    do {
      Dims x = {at[0], at[1] / features * channels + w[0]}, filter = {at[1], w[0]};
      bool inside = true;
      for (std::size_t s = 0; s < spatial; ++s) {
        const std::int64_t r = how.flipped ? how.filter.extents[s + 2] - 1 - w[s + 1] : w[s + 1];
        const std::int64_t q = at[s + 2] * how.strides[s] + r * how.dilation[s] - how.pre_padding[s];
        inside = inside && q >= 0 && q < how.input.extents[s + 2];
        x.push_back(q);
        filter.push_back(w[s + 1]);
      }
      if (!inside) continue;
      switch (how.kind) {
        case Kind::forward: sums.at(place_of(how.output, at)) += read(how.input, x) * read(how.filter, filter); break;
        case Kind::backward_data:
          sums.at(place_of(how.input, x)) += read(how.output, at) * read(how.filter, filter);
          break;
        case Kind::backward_filter:
          sums.at(place_of(how.filter, filter)) += read(how.output, at) * read(how.input, x);
          break;
      }
    } while (advance(w, window));
  } while (advance(at, how.output.extents));
  Dims index(how.result().extents.size(), 0);
  do {
    const std::int64_t place = place_of(how.result(), index);
    double value = sums.at(place) * how.scale;
    if (how.addend) value += read(*how.addend, index);
    if (how.bias) value += read(*how.bias, index);
    EXPECT_TRUE(std::isnan(out.at(place))) << "written twice";
    out.at(place) = how.relu ? std::max(0.0, value) : value;
  } while (advance(index, how.result().extents));
  return out;
}

/// What cuDNN demands of every convolution ("Backend Descriptor Types", notes on the binding of dimensions).
void expect_well_formed(const StridedConvolution& how) {
  ASSERT_GE(how.strides.size(), 2U);
  for (const StridedConvolution::Tensor* tensor : {&how.input, &how.filter, &how.output}) {
    ASSERT_EQ(tensor->extents.size(), how.strides.size() + 2);
    for (std::size_t d = 0; d < tensor->extents.size(); ++d) {
      EXPECT_GT(tensor->extents[d], 0);
      EXPECT_GT(tensor->strides[d], 0);
    }
  }
  EXPECT_EQ(how.input.extents[0], how.output.extents[0]);
  EXPECT_EQ(how.filter.extents[0], how.output.extents[1]);
  EXPECT_EQ(how.filter.extents[1] * how.groups, how.input.extents[1]);
  for (std::size_t s = 0; s < how.strides.size(); ++s) {
    EXPECT_GE(how.pre_padding[s], 0);
    EXPECT_GE(how.post_padding[s], 0);
    const std::int64_t padded = how.input.extents[s + 2] + how.pre_padding[s] + how.post_padding[s];
    const std::int64_t reach = (how.filter.extents[s + 2] - 1) * how.dilation[s] + 1;
    EXPECT_EQ(how.output.extents[s + 2], (padded - reach) / how.strides[s] + 1) << "spatial dimension " << s;
  }
}

void expect_convolution(const Graph& call) {
  const auto described = describe_convolution(call);
  ASSERT_TRUE(described.ok()) << described.error().message;
  if (!described->is_empty()) expect_well_formed(*described);
  test::expect_reference(call, [&](const std::vector<Tensor>& arguments, std::int64_t elements) {
    return run_convolution(*described, arguments, elements);
  });
}

/// Features behind batch ([n, c, spatial…]), filters [k, c, spatial…].
ConvolutionAttributes features_first(std::size_t spatial) {
  ConvolutionAttributes how;
  for (std::size_t s = 0; s < spatial; ++s) how.input_spatial.push_back(static_cast<std::int64_t>(s) + 2);
  how.output_spatial = how.kernel_spatial = how.input_spatial;
  how.strides = how.input_dilation = how.kernel_dilation = Dims(spatial, 1);
  how.low = how.high = Dims(spatial, 0);
  how.window_reversal = std::vector<bool>(spatial, false);
  return how;
}
/// Features last ([n, spatial…, c]), filters [spatial…, c, k].
ConvolutionAttributes features_last(std::size_t spatial) {
  ConvolutionAttributes how = features_first(spatial);
  const auto rank = static_cast<std::int64_t>(spatial) + 2;
  how.input_feature = how.output_feature = rank - 1;
  for (std::size_t s = 0; s < spatial; ++s) {
    how.input_spatial[s] = how.output_spatial[s] = static_cast<std::int64_t>(s) + 1;
    how.kernel_spatial[s] = static_cast<std::int64_t>(s);
  }
  how.kernel_input_feature = rank - 2;
  how.kernel_output_feature = rank - 1;
  return how;
}

Graph convolution(const Dims& input, const Dims& filter, const ConvolutionAttributes& how, DType dtype = DType::f32) {
  Builder builder;
  const Value x = builder.parameter(dtype, input), w = builder.parameter(dtype, filter);
  return *builder.finish({builder.add(Op::convolution, {x, w}, how)});
}

StridedConvolution described(const Graph& call) {
  const auto found = describe_convolution(call);
  EXPECT_TRUE(found.ok()) << found.error().message;
  return found ? *found : StridedConvolution{};
}

TEST(StridedConvolution, AConvolutionIsItself) {
  ConvolutionAttributes how = features_first(2);
  how.strides = {2, 1};
  how.low = {1, 0};
  how.high = {0, 2};
  how.kernel_dilation = {1, 2};
  const Graph call = convolution({2, 3, 9, 8}, {4, 3, 3, 2}, how);
  expect_convolution(call);
  const StridedConvolution found = described(call);
  EXPECT_EQ(found.kind, Kind::forward);
  EXPECT_EQ(found.input.extents, (Dims{2, 3, 9, 8}));
  EXPECT_EQ(found.input.strides, (Dims{216, 72, 8, 1}));
  EXPECT_EQ(found.filter.strides, (Dims{18, 6, 2, 1}));
  EXPECT_EQ(found.pre_padding, (Dims{1, 0}));
  EXPECT_EQ(found.post_padding, (Dims{0, 2}));
  EXPECT_EQ(found.strides, (Dims{2, 1}));
  EXPECT_EQ(found.dilation, (Dims{1, 2}));
}

TEST(StridedConvolution, OrdersOfDimensionsAreStrides) {
  ConvolutionAttributes how = features_last(2);
  how.low = how.high = {1, 1};
  const Graph call = convolution({2, 9, 8, 3}, {3, 3, 3, 4}, how);
  expect_convolution(call);
  const StridedConvolution found = described(call);
  EXPECT_EQ(found.input.extents, (Dims{2, 3, 9, 8}));
  EXPECT_EQ(found.input.strides, (Dims{216, 1, 24, 3}));
  EXPECT_EQ(found.filter.strides, (Dims{1, 4, 36, 12}));
  EXPECT_EQ(found.output.strides, (Dims{288, 1, 32, 4}));
}

TEST(StridedConvolution, TransposedOperandsAreLookedThrough) {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {2, 9, 8, 3}), w = builder.parameter(DType::f32, {3, 3, 3, 4});
  const Value y = builder.add(Op::convolution, {builder.transpose(x, {0, 3, 1, 2}), builder.transpose(w, {3, 2, 0, 1})},
                              features_first(2));
  const std::vector<Graph> calls = test::calls_of(*builder.finish({y}));
  ASSERT_EQ(calls.size(), 1U);
  expect_convolution(calls[0]);
  EXPECT_EQ(described(calls[0]).input.strides, (Dims{216, 1, 24, 3}));
}

TEST(StridedConvolution, SequencesAndVolumes) {
  expect_convolution(convolution({2, 3, 9}, {4, 3, 3}, features_first(1)));
  expect_convolution(convolution({2, 9, 3}, {3, 3, 4}, features_last(1)));
  expect_convolution(convolution({2, 2, 4, 5, 3}, {3, 2, 2, 3, 2}, features_first(3)));
  EXPECT_EQ(described(convolution({2, 9, 3}, {3, 3, 4}, features_last(1))).input.strides, (Dims{27, 1, 27, 3}));
}

TEST(StridedConvolution, GroupsOfFeatures) {
  ConvolutionAttributes how = features_first(2);
  how.feature_groups = 3;
  const Graph call = convolution({2, 6, 5, 4}, {9, 2, 3, 2}, how);
  expect_convolution(call);
  EXPECT_EQ(described(call).groups, 3);
}

TEST(StridedConvolution, NegativePaddingLeavesOut) {
  ConvolutionAttributes how = features_first(2);
  how.low = {-2, 1};
  how.high = {-1, -3};
  const Graph call = convolution({2, 3, 9, 8}, {4, 3, 2, 2}, how);
  expect_convolution(call);
  EXPECT_EQ(described(call).input.offset, 16);
}

TEST(StridedConvolution, AnEndWithoutWindowsStays) {
  ConvolutionAttributes how = features_first(2);
  how.strides = {2, 2};
  const Graph call = convolution({2, 3, 8, 8}, {4, 3, 1, 1}, how);
  expect_convolution(call);
  EXPECT_EQ(described(call).input.extents, (Dims{2, 3, 8, 8}));
}

TEST(StridedConvolution, EpilogueOfABlock) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    SCOPED_TRACE(to_string(dtype));
    Builder builder;
    const Value x = builder.parameter(dtype, {2, 3, 6, 5}), w = builder.parameter(dtype, {4, 3, 3, 3});
    const Value bias = builder.parameter(dtype, {4}), more = builder.parameter(dtype, {2, 4, 6, 5});
    ConvolutionAttributes how = features_first(2);
    how.low = how.high = {1, 1};
    how.result = dtype;
    const Dims dims = {2, 4, 6, 5};
    const Value y = builder.add(Op::convolution, {x, w}, how);
    const Value half = builder.broadcast(builder.scalar(dtype, 0.5), dims, {});
    const Value scaled = builder.binary(Op::multiply, y, half);
    const Value biased = builder.binary(Op::add, scaled, builder.broadcast(bias, dims, {1}));
    const Value sum = builder.binary(Op::add, biased, more);
    const Value cut = builder.binary(Op::maximum, sum, builder.broadcast(builder.scalar(dtype, 0), dims, {}));
    const Graph call = *builder.finish({cut});
    if (dtype == DType::f32) expect_convolution(call);
    const StridedConvolution found = described(call);
    ASSERT_TRUE(found.bias && found.addend && found.relu);
    EXPECT_EQ(found.scale, 0.5);
    EXPECT_EQ(found.bias->extents, (Dims{1, 4, 1, 1}));
    EXPECT_EQ(found.addend->extents, dims);
    EXPECT_EQ(found.accumulation, DType::f32);
  }
}

TEST(StridedConvolution, ConstraintsAreHandedOn) {
  Graph call = convolution({2, 3, 6, 5}, {4, 3, 3, 3}, features_first(2));
  EXPECT_FALSE(described(call).tf32 || described(call).deterministic);
  call.constraints.tf32 = call.constraints.deterministic = true;
  EXPECT_TRUE(described(call).tf32 && described(call).deterministic);
}

/// The gradient with respect to data of a convolution with `forward`'s strides, padding and dilation.
Graph gradient_of_data(const Dims& out, const Dims& filter, const Dims& in, const ConvolutionAttributes& forward) {
  Builder builder;
  const Value dy = builder.parameter(DType::f32, out), w = builder.parameter(DType::f32, filter);
  ConvolutionAttributes how = features_first(2);
  std::swap(how.kernel_input_feature, how.kernel_output_feature);
  how.input_dilation = forward.strides;
  how.kernel_dilation = forward.kernel_dilation;
  for (std::size_t s = 0; s < 2; ++s) {
    const std::int64_t reach = (filter[s + 2] - 1) * forward.kernel_dilation[s];
    how.low[s] = reach - forward.low[s];
    how.high[s] = in[s + 2] - 1 + forward.low[s] - (out[s + 2] - 1) * forward.strides[s];
  }
  return *builder.finish({builder.add(Op::convolution, {dy, builder.reverse(w, {2, 3})}, how)});
}

TEST(StridedConvolution, GradientsOfDataAreBackwards) {
  ConvolutionAttributes forward = features_first(2);
  for (const Dims& strides : {Dims{1, 1}, Dims{2, 1}, Dims{2, 3}}) {
    for (const Dims& dilation : {Dims{1, 1}, Dims{1, 2}}) {
      SCOPED_TRACE(::testing::Message() << strides[0] << strides[1] << dilation[1]);
      forward.strides = strides;
      forward.kernel_dilation = dilation;
      forward.low = {1, 0};
      const Dims in = {2, 3, 10, 11}, filter = {4, 3, 3, 2};
      const Dims out = {2, 4, (10 + 1 - 3) / strides[0] + 1, (11 - 1 - dilation[1]) / strides[1] + 1};
      const std::vector<Graph> calls = test::calls_of(gradient_of_data(out, filter, in, forward));
      ASSERT_EQ(calls.size(), 1U);
      expect_convolution(calls[0]);
      const StridedConvolution found = described(calls[0]);
      EXPECT_EQ(found.kind, Kind::backward_data);
      EXPECT_FALSE(found.flipped);
      EXPECT_EQ(found.strides, strides);
      EXPECT_EQ(found.dilation, dilation);
      EXPECT_EQ(found.pre_padding, (Dims{1, 0}));
      EXPECT_EQ(found.filter.extents, filter);
    }
  }
}

TEST(StridedConvolution, DilatedInputsWithoutReversalAreFlipped) {
  ConvolutionAttributes how = features_last(2);
  how.input_dilation = {2, 1};
  how.low = {1, 0};
  how.high = {1, 1};
  const Graph call = convolution({2, 9, 8, 4}, {3, 2, 4, 6}, how);
  expect_convolution(call);
  EXPECT_EQ(described(call).kind, Kind::backward_data);
  EXPECT_TRUE(described(call).flipped);
}

TEST(StridedConvolution, GradientsOfDataInGroups) {
  ConvolutionAttributes how = features_first(2);
  how.input_dilation = {2, 2};
  how.low = how.high = {1, 1};
  how.feature_groups = 3;
  how.window_reversal = {true, true};
  // One feature in, and filters whose groups lie behind one another.
  expect_convolution(convolution({2, 3, 4, 4}, {6, 1, 3, 3}, how));
  std::swap(how.kernel_input_feature, how.kernel_output_feature);
  const auto mixed = describe_convolution(convolution({2, 6, 4, 4}, {2, 6, 3, 3}, how));
  ASSERT_FALSE(mixed.ok());
  EXPECT_THAT(mixed.error().message, HasSubstr("groups of a filter that no strides describe"));
}

/// The gradient with respect to a filter: images are summed over, features are images.
TEST(StridedConvolution, GradientsOfFilters) {
  for (const std::int64_t groups : {1, 3}) {
    for (const std::int64_t stride : {1, 2}) {
      SCOPED_TRACE(::testing::Message() << groups << " groups, stride " << stride);
      ConvolutionAttributes how = features_first(2);
      how.input_batch = 1;
      how.input_feature = 0;
      how.kernel_input_feature = 0;
      how.kernel_output_feature = 1;
      how.output_batch = 1;
      how.output_feature = 0;
      how.kernel_dilation = {stride, stride};
      how.low = {1, 1};
      how.batch_groups = groups;
      const std::int64_t made = (10 + 2 - 3) / stride + 1;
      how.high[0] = how.high[1] = 3 + (made - 1) * stride - 1 - 10 + 1 - 1;
      const Graph call = convolution({2, 6, 10, 10}, {2, 12, made, made}, how);
      expect_convolution(call);
      const StridedConvolution found = described(call);
      EXPECT_EQ(found.kind, Kind::backward_filter);
      EXPECT_EQ(found.strides, (Dims{stride, stride}));
      EXPECT_EQ(found.filter.extents, (Dims{12, 6 / groups, 3, 3}));
      EXPECT_EQ(found.groups, groups);
    }
  }
}

/// Windows that are larger than what they make are no gradients for that: patches of a vision transformer, and a layer
/// that sees all of an image.
TEST(StridedConvolution, LargeWindowsStayForward) {
  ConvolutionAttributes patches = features_first(2);
  patches.strides = {4, 4};
  for (const std::int64_t images : {1, 2}) {
    const Graph call = convolution({images, 3, 8, 8}, {5, 3, 4, 4}, patches);
    expect_convolution(call);
    EXPECT_EQ(described(call).kind, Kind::forward);
  }
  const Graph whole = convolution({2, 3, 4, 4}, {8, 3, 4, 4}, features_first(2));
  expect_convolution(whole);
  EXPECT_EQ(described(whole).kind, Kind::forward);
}

TEST(StridedConvolution, NothingIsEmpty) {
  const Graph call = convolution({0, 3, 6, 5}, {4, 3, 3, 3}, features_first(2));
  EXPECT_TRUE(described(call).is_empty());
}

TEST(StridedConvolution, RefusesWhatCudnnHasNoWordsFor) {
  const auto refusal = [](const Graph& call) {
    const auto found = describe_convolution(call);
    EXPECT_FALSE(found.ok());
    EXPECT_EQ(found.ok() ? ErrorKind::internal : found.error().kind, ErrorKind::unsupported);
    return found.ok() ? std::string() : found.error().message;
  };
  ConvolutionAttributes both = features_first(2);
  both.strides = both.input_dilation = {2, 2};
  EXPECT_THAT(refusal(convolution({1, 1, 6, 6}, {1, 1, 3, 3}, both)), HasSubstr("strides of a dilated input"));
  ConvolutionAttributes wide = features_first(2);
  wide.input_dilation = {2, 2};
  wide.low = wide.high = {5, 5};
  EXPECT_THAT(refusal(convolution({1, 1, 6, 6}, {1, 1, 3, 3}, wide)),
              HasSubstr("more padding than its window reaches"));
  ConvolutionAttributes half = features_first(2);
  half.window_reversal = {true, false};
  EXPECT_THAT(refusal(convolution({1, 1, 6, 6}, {1, 1, 3, 3}, half)), HasSubstr("read backwards in some dimensions"));
  EXPECT_THAT(refusal(convolution({1, 0, 6, 6}, {1, 0, 3, 3}, features_first(2))), HasSubstr("a sum of nothing"));
  EXPECT_THAT(refusal(convolution({1, 1, 3, 3, 3, 3}, {1, 1, 2, 2, 2, 2}, features_first(4))),
              HasSubstr("4 spatial dimensions"));
  ConvolutionAttributes integers = features_first(2);
  integers.result = DType::s32;
  EXPECT_THAT(refusal(convolution({1, 1, 6, 6}, {1, 1, 3, 3}, integers, DType::s32)), HasSubstr("s32"));
  Builder builder;
  const Value x = builder.broadcast(builder.parameter(DType::f32, {6, 6}), {1, 2, 6, 6}, {2, 3});
  const Value w = builder.parameter(DType::f32, {4, 2, 3, 3});
  EXPECT_THAT(refusal(*builder.finish({builder.add(Op::convolution, {x, w}, features_first(2))})),
              HasSubstr("repeats elements"));
  for (const bool input : {false, true}) {
    Builder reversed;
    Value a = reversed.parameter(DType::f32, {1, 2, 6, 6}), b = reversed.parameter(DType::f32, {4, 2, 3, 3});
    (input ? a : b) = reversed.reverse(input ? a : b, {input ? 2 : 1});
    EXPECT_THAT(refusal(*reversed.finish({reversed.add(Op::convolution, {a, b}, features_first(2))})),
                HasSubstr("an operand that is read backwards"));
  }
  Builder dot;
  const Value a = dot.parameter(DType::f32, {4, 4});
  EXPECT_THAT(refusal(*dot.finish({dot.dot(a, a, {{}, {}, {1}, {0}, DType::f32})})), HasSubstr("a dot"));
}

TEST(StridedConvolution, RandomConvolutionsAreDescribedOrRefusedWithAReason) {
  Random random(17);
  int described = 0, refused = 0;
  std::array<int, 3> kinds{};
  for (int i = 0; i < 600; ++i) {
    SCOPED_TRACE(i);
    for (const Graph& call : test::calls_of(test::random_convolution(random))) {
      if (const auto found = describe_convolution(call); !found) {
        ++refused;
        EXPECT_EQ(found.error().kind, ErrorKind::unsupported);
        EXPECT_FALSE(found.error().message.empty());
      } else {
        ++described;
        ++kinds[static_cast<int>(found->kind)];
        expect_convolution(call);
      }
    }
  }
  EXPECT_GT(described, 200);
  EXPECT_GT(refused, 0);
  for (const int count : kinds) EXPECT_GT(count, 20);
}

}  // namespace
}  // namespace stitch::graph
