// tcgen05.mma: products of every kind out of shared and tensor memory against sums on the host
// (tests/data/emulator/tensor_core.cu).
#include <cmath>
#include <utility>

#include "tests/emulator/kernel_run.h"
#include "tests/emulator/tensor_core_operands.h"

namespace stitch::emulator {
namespace {

using test::bits_of;
using test::draw;
using test::Image;
using test::Layout;
using test::load_kernel;
using test::Product;
using test::small_float;
using test::Type;
using test::u32;
using test::u64;
using test::value_of;

struct Row {
  const char* kernel;
  Type a;
  Type b;
  int m;
  int n;
  int k;  ///< of one product
  int steps;
  Layout a_layout;
  Layout b_layout;
  enum class Sum { f16, f32, s32 } sum = Sum::f32;
  bool negates_b = false;
  bool saturates = false;
  int ws_paths = 0;  ///< of .ws: parts of N in lanes of their own
  int scales = 0;    ///< per row and product
  bool e8m0 = true;
  int blocks = 1;
  bool sparse = false;  ///< half of A is stored; k counts all of it
};

void PrintTo(const Row& row, std::ostream* out) {
  *out << row.kernel << " m" << row.m << "n" << row.n << "k" << row.k << " swizzles " << row.a_layout.swizzle << ", "
       << row.b_layout.swizzle;
}

u32 type_field(Type type, bool four_bits) {
  switch (type) {
    case Type::f16:
    case Type::u8:
    case Type::e4m3: return 0;
    case Type::bf16:
    case Type::s8:
    case Type::e5m2: return 1;
    case Type::tf32: return 2;
    case Type::e2m3: return 3;
    case Type::e3m2: return 4;
    case Type::e2m1: return four_bits ? 1 : 5;
  }
  return 0;
}

u32 shape_of(const Row& row) {
  const bool four = row.k == 64 && !row.sparse;
  u32 bits = type_field(row.a, four) << 7 | type_field(row.b, four) << 10 | static_cast<u32>(row.negates_b) << 14 |
             static_cast<u32>(row.a_layout.rows_adjacent) << 15 | static_cast<u32>(row.b_layout.rows_adjacent) << 16 |
             static_cast<u32>(row.n / 8) << 17 | static_cast<u32>(row.m / 16) << 24;
  if (row.sparse) bits |= 1 << 2;
  if (row.scales != 0) return bits | static_cast<u32>(row.e8m0) << 23;
  return bits | static_cast<u32>(row.sum) << 4 | static_cast<u32>(row.saturates) << 3;
}

/// From element to element in memory: 8 bits also for narrower types, but for products of 4-bit types only.
int container_of(const Row& row) { return row.k == 64 && !row.sparse ? 4 : std::max(bits_of(row.a), 8); }

/// The lane and column of element (r, n) of D, of a block's part.
std::pair<int, int> place_of(const Row& row, int r, int n) {
  const int rows = row.m / row.blocks;
  const int paths = row.ws_paths != 0 ? row.ws_paths : row.blocks == 2 && rows == 64 ? 2 : 1;
  const int width = row.n / paths;
  if (paths > 1) return {r + n / width * (128 / paths), n % width};
  return {rows == 64 ? r / 16 * 32 + r % 16 : r, n};
}

class Products : public testing::TestWithParam<Row> {};

TEST_P(Products, MatchTheHost) {
  const Row& row = GetParam();
  const int depth = row.k * row.steps;
  const int container = container_of(row);
  const int rows = row.m / row.blocks;
  const int columns = row.n / row.blocks;
  const int a_depth = row.sparse ? depth / 2 : depth;
  std::vector<Image> a_images(row.blocks, Image(row.a_layout, rows, a_depth, container));
  std::vector<Image> b_images(row.blocks, Image(row.b_layout, columns, depth, container));
  std::vector<std::vector<double>> a(row.m, std::vector<double>(depth));
  std::vector<std::vector<double>> b(row.n, std::vector<double>(depth));
  u64 seed = 0;
  // Which elements a sparse row keeps: four bits for each chunk, of tf32 of two elements.
  const int chunk = row.a == Type::tf32 ? 2 : 4;
  std::vector<std::vector<u32>> patterns(row.m, std::vector<u32>(depth / chunk));
  for (int r = 0; r < row.m; ++r) {
    for (int k = 0; k < a_depth; ++k) {
      const u32 bits = draw(row.a, mix(1, ++seed));
      a_images[r / rows].put(r % rows, k, bits, bits_of(row.a));
      int column = k;
      if (row.sparse) {
        const int stored = chunk / 2;
        u32& pattern = patterns[r][k / stored];
        if (k % stored == 0) {
          constexpr u32 pairs[] = {0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b0110, 0b1110};
          pattern = chunk == 2 ? (seed % 3 == 0 ? 0b1110 : 0b0100) : pairs[mix(7, seed) % 7];
        }
        const u32 place = chunk == 2 ? (pattern == 0b1110 ? 1 : 0) : pattern >> (2 * (k % 2)) & 3;
        column = k / stored * chunk + static_cast<int>(place);
      }
      a[r][column] = value_of(row.a, bits);
    }
  }
  for (int n = 0; n < row.n; ++n) {
    for (int k = 0; k < depth; ++k) {
      const u32 bits = draw(row.b, mix(2, ++seed));
      b_images[n / columns].put(n % columns, k, bits, bits_of(row.b));
      b[n][k] = value_of(row.b, bits) * (row.negates_b ? -1 : 1);
    }
  }
  // Scales of a block: 512 bytes for 128 rows, 16 bytes for each of 32, in these four for each 32 rows more. Of a pair
  // each block has those of its rows of A, and all of B's, in two parts of N where that is parted.
  std::vector<std::vector<std::uint8_t>> scales(row.blocks);
  const bool parted = row.blocks == 2 && rows == 64;
  const std::size_t a_scale_bytes = row.scales == 0 ? 0 : (static_cast<std::size_t>(rows) + 127) / 128 * 512;
  const std::size_t b_scale_bytes = parted ? 1024 : (static_cast<std::size_t>(row.n) + 127) / 128 * 512;
  const auto scale = [&](std::vector<std::vector<double>>& matrix, u64 stream, auto&& put) {
    for (std::size_t r = 0; r < matrix.size(); ++r) {
      for (int s = 0; s < row.scales; ++s) {
        const u64 noise = mix(stream, r * 8 + static_cast<u64>(s));
        const auto bits = static_cast<std::uint8_t>(row.e8m0 ? 125 + noise % 5 : 0x30 + noise % 24);
        put(r, static_cast<std::size_t>(s), bits);
        const double factor = row.e8m0 ? std::ldexp(1.0, bits - 127) : small_float(bits, 4, 3, 7);
        for (int k = s * row.k / row.scales; k < (s + 1) * row.k / row.scales; ++k) matrix[r][k] *= factor;
      }
    }
  };
  const auto place = [](std::size_t r) { return r / 128 * 512 + r % 32 * 16 + r / 32 % 4 * 4; };
  if (row.scales != 0) {
    for (std::vector<std::uint8_t>& of_block : scales) of_block.resize(a_scale_bytes + b_scale_bytes);
    scale(a, 3, [&](std::size_t r, std::size_t s, std::uint8_t bits) { scales[r / rows][place(r % rows) + s] = bits; });
    scale(b, 4, [&](std::size_t n, std::size_t s, std::uint8_t bits) {
      const std::size_t half = row.n / 2;
      const std::size_t at = parted ? n / half * 512 + place(n % half) : place(n);
      for (std::vector<std::uint8_t>& of_block : scales) of_block[a_scale_bytes + at + s] = bits;
    });
  }
  std::vector<std::uint8_t> a_bytes;
  std::vector<std::uint8_t> b_bytes;
  for (const Image& image : a_images) a_bytes.insert(a_bytes.end(), image.bytes.begin(), image.bytes.end());
  for (int block = 0; block < row.blocks; ++block) {
    b_bytes.insert(b_bytes.end(), b_images[block].bytes.begin(), b_images[block].bytes.end());
    b_bytes.insert(b_bytes.end(), scales[block].begin(), scales[block].end());
  }

  const int d_columns = place_of(row, 0, row.n - 1).second + 1;
  const bool integers = row.sum == Row::Sum::s32;
  const bool starts = row.blocks == 1 && (rows == 64 || row.n % 3 == 0);
  std::vector<u32> initial(std::size_t{128} * d_columns);
  const auto initial_value = [&](int lane, int column) { return (lane * 3 + column * 5) % 64 - 20; };
  for (int lane = 0; lane < 128; ++lane) {
    for (int c = 0; c < d_columns; ++c) {
      const int value = initial_value(lane, c);
      initial[static_cast<std::size_t>(lane) * d_columns + c] = integers ? static_cast<u32>(value)
                                                                : row.sum == Row::Sum::f16
                                                                    ? double_to_half(value)
                                                                    : std::bit_cast<u32>(static_cast<float>(value));
    }
  }
  Memory memory;
  Product product;
  product.a = test::put(memory, "a", a_bytes).address;
  product.b = test::put(memory, "b", b_bytes).address;
  if (starts) product.initial = test::put(memory, "initial", initial).address;
  product.a_descriptor = a_images[0].descriptor();
  product.b_descriptor = b_images[0].descriptor();
  product.shape = shape_of(row);
  product.a_bytes = static_cast<int>(a_images[0].bytes.size());
  product.b_bytes = static_cast<int>(b_images[0].bytes.size());
  product.steps = row.steps;
  product.a_step = a_images[0].step(row.sparse ? row.k / 2 : row.k);
  product.b_step = b_images[0].step(row.k);
  product.columns = d_columns;
  product.scale_bytes = static_cast<int>(scales[0].size());
  product.a_scale_bytes = static_cast<int>(a_scale_bytes);
  if (row.sparse) {
    // A step has 8 chunks of which the upper lie in other lanes beside those of the row 8 below, or 16 in its own lane.
    const int chunks = row.k / chunk;
    const int columns_of_step = chunks / 8;
    const int of_row = columns_of_step * row.steps;
    std::vector<u32> words(std::size_t{128} * of_row);
    for (int lane_group = 0; lane_group < 128 / rows; ++lane_group) {
      for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < chunks * row.steps; ++c) {
          const int step = c / chunks;
          const int within = c % chunks;
          const int lane = chunks == 16 ? r : r / 16 * 16 + (within < 4 ? 0 : 8) + r % 8;
          const int column = chunks == 16 ? 2 * step + within / 8 : step;
          const int bit = chunks == 16 ? within % 8 * 4 : (r % 16 < 8 ? 0 : 16) + within % 4 * 4;
          words[static_cast<std::size_t>(lane_group * rows + lane) * of_row + column] |= patterns[r][c] << bit;
        }
      }
    }
    product.metadata = test::put(memory, "metadata", words).address;
    product.metadata_columns = columns_of_step;
  }
  const Buffer out = test::make(memory, "d", u64{4} * row.blocks * 128 * d_columns);
  ParameterBlock parameters;
  parameters.add(product).add(out);
  LaunchConfig config = test::shape(row.blocks, 128, 200 * 1024);
  config.cluster.x = row.blocks;
  const LaunchReport report = test::run_clean(load_kernel("tensor_core", row.kernel), config, parameters, memory);
  const std::vector<u32> d = test::get<u32>(memory, out);
  int wrong = 0;
  for (int r = 0; r < row.m; ++r) {
    for (int n = 0; n < row.n; ++n) {
      const auto [lane, column] = place_of(row, r % rows, n);
      double sum = starts ? initial_value(lane, column) : 0;
      for (int k = 0; k < depth; ++k) sum += a[r][k] * b[n][k];
      const u32 bits = d[(static_cast<std::size_t>(r / rows) * 128 + lane) * d_columns + column];
      double got = std::bit_cast<float>(bits);
      if (integers) {
        got = static_cast<std::int32_t>(bits);
        if (row.saturates) sum = std::clamp(sum, -2147483648.0, 2147483647.0);
      } else if (row.sum == Row::Sum::f16) {
        got = half_to_float(static_cast<std::uint16_t>(bits));
      } else {
        sum = static_cast<float>(sum);
      }
      // Sums that are not exact are rounded once for each product.
      const bool same = row.sum == Row::Sum::f16 || (row.scales != 0 && !row.e8m0)
                            ? std::abs(got - sum) <= std::abs(sum) * (row.sum == Row::Sum::f16 ? 0.002 : 1e-6)
                            : got == sum;
      if (!same && wrong++ < 3) ADD_FAILURE() << "D[" << r << "][" << n << "] = " << got << ", not " << sum;
    }
  }
  EXPECT_EQ(wrong, 0);
}

using Sum = Row::Sum;
constexpr Layout plain{0, false};
constexpr Layout adjacent{0, true};
constexpr Layout swizzled(int bytes) { return {bytes, false}; }
constexpr Layout adjacent_swizzled(int bytes) { return {bytes, true}; }

INSTANTIATE_TEST_SUITE_P(
    Kinds, Products,
    testing::Values(
        Row{"product_f16", Type::f16, Type::f16, 128, 32, 16, 1, plain, plain},
        Row{"product_f16", Type::f16, Type::f16, 128, 48, 16, 4, swizzled(128), swizzled(128)},
        Row{"product_f16", Type::bf16, Type::bf16, 128, 256, 16, 2, swizzled(64), swizzled(64)},
        Row{"product_f16", Type::bf16, Type::bf16, 64, 8, 16, 1, swizzled(32), plain},
        Row{"product_f16", Type::f16, Type::f16, 64, 24, 16, 3, plain, plain, Sum::f16},
        Row{"product_f16", Type::f16, Type::f16, 128, 64, 16, 2, adjacent, adjacent, Sum::f32, true},
        Row{"product_f16", Type::f16, Type::f16, 128, 64, 16, 2, adjacent_swizzled(128), adjacent_swizzled(64)},
        Row{"product_f16", Type::bf16, Type::bf16, 64, 128, 16, 3, adjacent_swizzled(32), adjacent_swizzled(128)},
        Row{"product_tf32", Type::tf32, Type::tf32, 128, 16, 8, 4, swizzled(128), plain},
        Row{"product_tf32", Type::tf32, Type::tf32, 128, 32, 8, 2, adjacent_swizzled(33), adjacent_swizzled(33)},
        Row{"product_f8f6f4", Type::e4m3, Type::e5m2, 128, 32, 32, 2, swizzled(64), plain},
        Row{"product_f8f6f4", Type::e2m3, Type::e4m3, 128, 16, 32, 1, plain, swizzled(32), Sum::f16},
        Row{"product_f8f6f4", Type::e2m1, Type::e3m2, 64, 16, 32, 4, swizzled(128), swizzled(128)},
        Row{"product_f8f6f4", Type::e5m2, Type::e4m3, 128, 128, 32, 2, adjacent_swizzled(128), adjacent},
        Row{"product_i8", Type::s8, Type::u8, 128, 16, 32, 3, plain, plain, Sum::s32},
        Row{"product_i8", Type::u8, Type::s8, 64, 24, 32, 4, swizzled(128), swizzled(128), Sum::s32, false, true}));

INSTANTIATE_TEST_SUITE_P(WeightStationary, Products,
                         testing::Values(Row{"product_ws_f16", Type::f16, Type::f16, 128, 64, 16, 2, plain, plain},
                                         Row{"product_ws_f16", Type::f16, Type::f16, 64, 128, 16, 2, swizzled(64),
                                             plain, Sum::f32, false, false, 2},
                                         Row{"product_ws_f16", Type::bf16, Type::bf16, 32, 64, 16, 1, plain, plain,
                                             Sum::f32, false, false, 4},
                                         Row{"product_ws_i8", Type::s8, Type::s8, 32, 256, 32, 2, plain, swizzled(64),
                                             Sum::s32, false, false, 4}));

INSTANTIATE_TEST_SUITE_P(BlockScaled, Products,
                         testing::Values(Row{"product_mxf8f6f4", Type::e4m3, Type::e4m3, 128, 64, 32, 1, swizzled(32),
                                             plain, Sum::f32, false, false, 0, 1},
                                         Row{"product_mxf8f6f4", Type::e2m1, Type::e5m2, 128, 136, 32, 1, plain, plain,
                                             Sum::f32, true, false, 0, 1},
                                         Row{"product_mxf4", Type::e2m1, Type::e2m1, 128, 256, 64, 1, plain, plain,
                                             Sum::f32, false, false, 0, 2},
                                         Row{"product_mxf4nvf4", Type::e2m1, Type::e2m1, 128, 32, 64, 1, swizzled(32),
                                             swizzled(32), Sum::f32, false, false, 0, 4, false},
                                         Row{"product_mxf4nvf4", Type::e2m1, Type::e2m1, 128, 128, 64, 1, plain, plain,
                                             Sum::f32, false, false, 0, 4, true}));

INSTANTIATE_TEST_SUITE_P(Pairs, Products,
                         testing::Values(Row{"product_pair", Type::f16, Type::f16, 256, 64, 16, 2, swizzled(64), plain,
                                             Sum::f32, false, false, 0, 0, true, 2},
                                         Row{"product_pair", Type::bf16, Type::bf16, 128, 96, 16, 3, plain, plain,
                                             Sum::f32, false, false, 0, 0, true, 2},
                                         Row{.kernel = "product_pair_mxf8f6f4",
                                             .a = Type::e4m3,
                                             .b = Type::e4m3,
                                             .m = 256,
                                             .n = 64,
                                             .k = 32,
                                             .steps = 1,
                                             .a_layout = plain,
                                             .b_layout = swizzled(32),
                                             .scales = 1,
                                             .blocks = 2},
                                         Row{.kernel = "product_pair_mxf8f6f4",
                                             .a = Type::e5m2,
                                             .b = Type::e4m3,
                                             .m = 128,
                                             .n = 128,
                                             .k = 32,
                                             .steps = 1,
                                             .a_layout = swizzled(32),
                                             .b_layout = plain,
                                             .scales = 1,
                                             .blocks = 2}));

INSTANTIATE_TEST_SUITE_P(Sparse, Products,
                         testing::Values(Row{.kernel = "product_sp_f16",
                                             .a = Type::f16,
                                             .b = Type::f16,
                                             .m = 128,
                                             .n = 32,
                                             .k = 32,
                                             .steps = 3,
                                             .a_layout = plain,
                                             .b_layout = plain,
                                             .sparse = true},
                                         Row{.kernel = "product_sp_f16",
                                             .a = Type::bf16,
                                             .b = Type::bf16,
                                             .m = 128,
                                             .n = 64,
                                             .k = 32,
                                             .steps = 2,
                                             .a_layout = swizzled(64),
                                             .b_layout = swizzled(128),
                                             .sparse = true},
                                         Row{.kernel = "product_sp_tf32",
                                             .a = Type::tf32,
                                             .b = Type::tf32,
                                             .m = 128,
                                             .n = 16,
                                             .k = 16,
                                             .steps = 2,
                                             .a_layout = swizzled(64),
                                             .b_layout = swizzled(128),
                                             .sparse = true},
                                         Row{.kernel = "product_sp_i8",
                                             .a = Type::s8,
                                             .b = Type::s8,
                                             .m = 128,
                                             .n = 48,
                                             .k = 64,
                                             .steps = 2,
                                             .a_layout = plain,
                                             .b_layout = swizzled(128),
                                             .sum = Sum::s32,
                                             .sparse = true},
                                         Row{.kernel = "product_ws_sp_f16",
                                             .a = Type::f16,
                                             .b = Type::f16,
                                             .m = 64,
                                             .n = 64,
                                             .k = 32,
                                             .steps = 2,
                                             .a_layout = plain,
                                             .b_layout = plain,
                                             .ws_paths = 2,
                                             .sparse = true}));

/// One product of ones (A) by B[n] = n for a step of 16, where D was 64 and a lane may be disabled.
TEST(TensorCoreInputs, AreScaledAndLanesAreDisabled) {
  Image a({}, 128, 16, 16);
  Image b({}, 16, 16, 16);
  for (int k = 0; k < 16; ++k) {
    for (int r = 0; r < 128; ++r) a.put(r, k, double_to_half(1), 16);
    for (int n = 0; n < 16; ++n) b.put(n, k, double_to_half(n), 16);
  }
  Memory memory;
  Product product;
  product.a = test::put(memory, "a", a.bytes).address;
  product.b = test::put(memory, "b", b.bytes).address;
  product.initial = test::put(memory, "initial", std::vector<u32>(128 * 16, std::bit_cast<u32>(64.0F))).address;
  product.a_descriptor = a.descriptor();
  product.b_descriptor = b.descriptor();
  product.a_bytes = static_cast<int>(a.bytes.size());
  product.b_bytes = static_cast<int>(b.bytes.size());
  product.columns = 16;
  product.shape = 1U << 4 | 2U << 17 | 8U << 24;
  product.disabled = 0x80000010;
  const Buffer out = test::make(memory, "d", u64{128} * 16 * 4);
  ParameterBlock parameters;
  parameters.add(product).add(out);
  test::run_clean(load_kernel("tensor_core", "product_scaled_input"), test::shape(1, 128, 32 * 1024), parameters,
                  memory);
  const std::vector<u32> d = test::get<u32>(memory, out);
  for (u32 lane = 0; lane < 128; ++lane) {
    for (u32 n = 0; n < 16; ++n) {
      const float wanted = lane % 32 == 4 || lane % 32 == 31 ? 64.0F : 8.0F + 16.0F * static_cast<float>(n);
      EXPECT_EQ(std::bit_cast<float>(d[lane * 16 + n]), wanted) << lane << " " << n;
    }
  }
}

TEST(TensorCoreInputs, AComesFromTensorMemory) {
  constexpr int steps = 2;
  std::vector<u32> words(128 * 8 * steps);
  Image b({}, 32, 16 * steps, 16);
  std::vector<std::vector<double>> a_values(128, std::vector<double>(16 * steps));
  std::vector<std::vector<double>> b_values(32, std::vector<double>(16 * steps));
  for (u32 k = 0; k < 16 * steps; ++k) {
    for (u32 r = 0; r < 128; ++r) {
      const u32 bits = draw(Type::f16, mix(5, r * 64 + k));
      words[r * 8 * steps + k / 2] |= bits << (k % 2 * 16);
      a_values[r][k] = value_of(Type::f16, bits);
    }
    for (u32 n = 0; n < 32; ++n) {
      const u32 bits = draw(Type::f16, mix(6, n * 64 + k));
      b.put(static_cast<int>(n), static_cast<int>(k), bits, 16);
      b_values[n][k] = value_of(Type::f16, bits);
    }
  }
  Memory memory;
  Product product;
  product.a = test::put(memory, "a", words).address;
  product.b = test::put(memory, "b", b.bytes).address;
  product.b_descriptor = b.descriptor();
  product.a_bytes = static_cast<int>(words.size() * 4);
  product.b_bytes = static_cast<int>(b.bytes.size());
  product.steps = steps;
  product.a_step = 8;
  product.b_step = b.step(16);
  product.columns = 32;
  product.shape = 1U << 4 | 4U << 17 | 8U << 24;
  const Buffer out = test::make(memory, "d", u64{128} * 32 * 4);
  ParameterBlock parameters;
  parameters.add(product).add(out);
  test::run_clean(load_kernel("tensor_core", "product_from_tensor_memory"), test::shape(1, 128, 32 * 1024), parameters,
                  memory);
  const std::vector<u32> d = test::get<u32>(memory, out);
  for (u32 r = 0; r < 128; ++r) {
    for (u32 n = 0; n < 32; ++n) {
      double sum = 0;
      for (u32 k = 0; k < 16 * steps; ++k) sum += a_values[r][k] * b_values[n][k];
      EXPECT_EQ(std::bit_cast<float>(d[r * 32 + n]), static_cast<float>(sum)) << r << " " << n;
    }
  }
}

}  // namespace
}  // namespace stitch::emulator
