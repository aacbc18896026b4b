// tcgen05: products of every kind out of shared and tensor memory against sums on the host, the shapes of loads, stores
// and copies, and a kernel with each fault that the detectors have to find (tests/data/emulator/tensor_core.cu).
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "emulator/lanes/float_format.h"
#include "tests/emulator/kernel_run.h"
#include "tests/emulator/ptx_body.h"

namespace stitch::emulator {
namespace {

using test::load_kernel;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

/// As the kernels' parameter of the same name.
struct Product {
  u64 a = 0;
  u64 b = 0;
  u64 initial = 0;
  u64 metadata = 0;
  u64 a_descriptor = 0;
  u64 b_descriptor = 0;
  u32 shape = 0;
  int a_bytes = 0;
  int b_bytes = 0;
  int steps = 1;
  int a_step = 0;
  int b_step = 0;
  int columns = 0;
  int scale_bytes = 0;
  int a_scale_bytes = 0;
  u32 disabled = 0;
  int metadata_columns = 0;
};

enum class Type { f16, bf16, tf32, u8, s8, e4m3, e5m2, e2m3, e3m2, e2m1 };

int bits_of(Type type) {
  switch (type) {
    case Type::f16:
    case Type::bf16: return 16;
    case Type::tf32: return 32;
    case Type::e2m3:
    case Type::e3m2: return 6;
    case Type::e2m1: return 4;
    default: return 8;
  }
}

/// A float of so many exponent and mantissa bits, subnormal where its exponent is 0.
double small_float(u32 bits, int exponents, int mantissas, int bias) {
  const int exponent = static_cast<int>(bits >> mantissas) & ((1 << exponents) - 1);
  const double fraction = static_cast<double>(bits & ((1U << mantissas) - 1)) / (1 << mantissas);
  const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return (bits >> (exponents + mantissas) & 1) != 0 ? -magnitude : magnitude;
}

double value_of(Type type, u32 bits) {
  switch (type) {
    case Type::f16: return half_to_float(static_cast<std::uint16_t>(bits));
    case Type::bf16: return bfloat_to_float(static_cast<std::uint16_t>(bits));
    case Type::tf32: return std::bit_cast<float>(bits);
    case Type::u8: return bits;
    case Type::s8: return static_cast<std::int8_t>(bits);
    case Type::e4m3: return small_float(bits, 4, 3, 7);
    case Type::e5m2: return small_float(bits, 5, 2, 15);
    case Type::e2m3: return small_float(bits, 2, 3, 1);
    case Type::e3m2: return small_float(bits, 3, 2, 3);
    case Type::e2m1: return small_float(bits, 2, 1, 1);
  }
  return 0;
}

/// Bits of a type whose value is small, so that sums are exact.
u32 draw(Type type, u64 noise) {
  const auto whole = static_cast<float>(static_cast<int>(noise % 17) - 8);
  switch (type) {
    case Type::f16: return double_to_half(whole / 2);
    case Type::bf16: return std::bit_cast<u32>(whole) >> 16;
    case Type::tf32: return std::bit_cast<u32>(whole);
    case Type::e4m3: return (noise % 32 + 0x28) | (noise >> 8 & 0x80);
    case Type::e5m2: return (noise % 16 + 0x34) | (noise >> 8 & 0x80);
    default: return noise & ((1U << bits_of(type)) - 1);
  }
}

/// How an operand lies in shared memory: the swizzle's width in bytes (0: none; 33: 128 in pieces of 32), and whether
/// neighbours in M or N lie side by side.
struct Layout {
  int swizzle = 0;
  bool rows_adjacent = false;
};

/// The canonical layouts of the ISA, in units of 16 bytes, written down a second time: `rows` of M or N, `depth` bytes
/// of K in a row of K-major ones.
struct Image {
  Layout layout;
  int rows;
  int depth;      ///< elements of K
  int container;  ///< bits from element to element
  std::vector<std::uint8_t> bytes;

  Image(Layout how, int row_count, int k_count, int width)
      : layout(how),
        rows(row_count),
        depth(k_count),
        container(width),
        bytes(static_cast<std::size_t>(row_count) * static_cast<std::size_t>(k_count * width / 8)) {}

  [[nodiscard]] int line() const { return layout.swizzle == 33 ? 128 : layout.swizzle; }

  /// The 16 bytes that hold element (row, k).
  [[nodiscard]] int unit_of(int row, int k) const {
    const int run = 128 / container;
    const int along = layout.rows_adjacent ? row : k;
    const int across = layout.rows_adjacent ? k : row;
    const int piece = along / run;
    const int pieces = (layout.rows_adjacent ? rows : depth) / run;
    if (layout.swizzle == 0) {
      // Core matrices of 8 lines: K-major along M or N first, M- or N-major along K first.
      const int acrosses = (layout.rows_adjacent ? depth : rows) / 8;
      return (piece * acrosses + across / 8) * 8 + across % 8;
    }
    const int wide = line() / 16;
    const int deep = layout.swizzle == 33 ? 4 : 8;
    const int lines = layout.rows_adjacent ? depth : rows;
    // An atom of `deep` lines of `wide` pieces; atoms across first, then along.
    const int atom = piece / wide * (lines / deep) + across / deep;
    (void)pieces;
    int within = across % deep * wide + piece % wide;
    if (layout.swizzle == 128) within ^= across % 8;
    if (layout.swizzle == 64) within ^= across / 2 % 4;
    if (layout.swizzle == 32) within ^= across / 4 % 2;
    if (layout.swizzle == 33) within ^= across % 4 * 2;
    return atom * deep * wide + within;
  }

  void put(int row, int k, u32 bits, int width) {
    const int run = 128 / container;
    const int index = (layout.rows_adjacent ? row : k) % run;
    // Narrow elements are packed from the beginning of the 16 bytes.
    const int at = unit_of(row, k) * 128 + index * std::min(width, container);
    for (int i = 0; i < width; ++i) {
      if ((bits >> i & 1) != 0)
        bytes[static_cast<std::size_t>((at + i) / 8)] |= static_cast<std::uint8_t>(1 << (at + i) % 8);
    }
  }

  [[nodiscard]] u64 descriptor() const {
    const u64 modes[] = {0, 6, 4, 2, 1};
    const int lines = layout.rows_adjacent ? depth : rows;
    const u64 mode = modes[layout.swizzle == 0     ? 0
                           : layout.swizzle == 32  ? 1
                           : layout.swizzle == 64  ? 2
                           : layout.swizzle == 128 ? 3
                                                   : 4];
    u64 leading = 0;
    u64 stride = 0;
    const int deep = layout.swizzle == 33 ? 4 : 8;
    if (layout.swizzle == 0 && !layout.rows_adjacent) {
      stride = 128;
      leading = static_cast<u64>(rows) / 8 * 128;
    } else if (layout.swizzle == 0) {
      leading = 128;
      stride = static_cast<u64>(depth) / 8 * 128;
    } else {
      stride = static_cast<u64>(deep * line());
      leading = static_cast<u64>(lines / deep) * stride;
    }
    return mode << 61 | 1ULL << 46 | stride / 16 << 32 | leading / 16 << 16;
  }

  /// From the operand of one product to that of the next: `k` elements of K.
  [[nodiscard]] int step(int k) const {
    const int moved = k * container / 8;
    if (layout.swizzle == 0) return layout.rows_adjacent ? k / 8 * 128 : moved / 16 * rows / 8 * 128;
    const int deep = layout.swizzle == 33 ? 4 : 8;
    return layout.rows_adjacent ? k / deep * deep * line() : moved;
  }
};

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
  // Scales: for every 32 rows 512 bytes of which a row has 16; the bytes of a row's product are the first.
  std::vector<std::uint8_t> scales;
  std::size_t a_scale_bytes = 0;
  const auto scale = [&](std::vector<std::vector<double>>& matrix, u64 stream) {
    const std::size_t first = scales.size();
    scales.resize(first + (matrix.size() + 127) / 128 * 512);
    for (std::size_t r = 0; r < matrix.size(); ++r) {
      for (int s = 0; s < row.scales; ++s) {
        const u64 noise = mix(stream, r * 8 + static_cast<u64>(s));
        const auto bits = static_cast<std::uint8_t>(row.e8m0 ? 125 + noise % 5 : 0x30 + noise % 24);
        // Row r: 16 bytes for each of 32, in it four for each 32 rows.
        scales[first + r / 128 * 512 + r % 32 * 16 + r / 32 % 4 * 4 + static_cast<std::size_t>(s)] = bits;
        const double factor = row.e8m0 ? std::ldexp(1.0, bits - 127) : small_float(bits, 4, 3, 7);
        for (int k = s * row.k / row.scales; k < (s + 1) * row.k / row.scales; ++k) matrix[r][k] *= factor;
      }
    }
  };
  if (row.scales != 0) {
    scale(a, 3);
    a_scale_bytes = scales.size();
    scale(b, 4);
  }
  std::vector<std::uint8_t> a_bytes;
  std::vector<std::uint8_t> b_bytes;
  for (const Image& image : a_images) a_bytes.insert(a_bytes.end(), image.bytes.begin(), image.bytes.end());
  for (const Image& image : b_images) b_bytes.insert(b_bytes.end(), image.bytes.begin(), image.bytes.end());
  b_bytes.insert(b_bytes.end(), scales.begin(), scales.end());

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
  product.scale_bytes = static_cast<int>(scales.size());
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
                                             Sum::f32, false, false, 0, 0, true, 2}));

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

struct MoveRow {
  const char* name;
  /// The lane and column of register `i` of thread `t` of a warp.
  std::pair<u32, u32> (*place)(u32 t, u32 i);
};

constexpr MoveRow moves[] = {{"32x32b",
                              [](u32 t, u32 i) {
                                return std::pair{t, i};
                              }},
                             {"16x64b",
                              [](u32 t, u32 i) {
                                return std::pair{t / 4 + t % 2 * 8, t / 2 % 2 + i * 2};
                              }},
                             {"16x128b",
                              [](u32 t, u32 i) {
                                return std::pair{t / 4 + i % 2 * 8, t % 4 + i / 2 * 4};
                              }},
                             {"16x256b",
                              [](u32 t, u32 i) {
                                return std::pair{t / 4 + i / 2 * 8, t % 4 * 2 + i % 2};
                              }},
                             {"16x32bx2", [](u32 t, u32 i) {
                                return std::pair{t % 16, i + t / 16 * 24};
                              }}};

std::vector<u32> show(const std::string& kernel, u32 words) {
  Memory memory;
  const Buffer out = test::make(memory, "d", words * 4);
  ParameterBlock parameters;
  parameters.add(out);
  test::run_clean(load_kernel("tensor_core", kernel), test::shape(1, 128), parameters, memory);
  return test::get<u32>(memory, out);
}

TEST(TensorMemoryMoves, LoadEachShape) {
  for (const MoveRow& row : moves) {
    const std::vector<u32> d = show(std::string("load_") + row.name, 512);
    for (u32 thread = 0; thread < 128; ++thread) {
      for (u32 i = 0; i < 4; ++i) {
        const auto [lane, column] = row.place(thread % 32, i);
        EXPECT_EQ(d[thread * 4 + i], (thread / 32 * 32 + lane) * 64 + column) << row.name << thread << i;
      }
    }
  }
}

TEST(TensorMemoryMoves, StoreEachShape) {
  for (const MoveRow& row : moves) {
    const std::vector<u32> d = show(std::string("store_") + row.name, 128 * 64);
    std::vector<u32> wanted(128 * 64);
    for (u32 thread = 0; thread < 128; ++thread) {
      for (u32 i = 0; i < 4; ++i) {
        const auto [lane, column] = row.place(thread % 32, i);
        const u32 value = thread * 256 + i + 1;
        wanted[(thread / 32 * 32 + lane) * 64 + column] = i == 3 ? value | 5 << 16 : value;
      }
    }
    EXPECT_EQ(d, wanted) << row.name;
  }
}

TEST(TensorMemoryMoves, PackHalvesOfTwoColumns) {
  const std::vector<u32> loaded = show("load_packed", 512);
  const std::vector<u32> stored = show("store_packed", 128 * 64);
  for (u32 thread = 0; thread < 128; ++thread) {
    for (u32 i = 0; i < 4; ++i) {
      const u32 first = thread * 64 + 2 * i;
      EXPECT_EQ(loaded[thread * 4 + i], first | (first + 1) << 16);
      const u32 value = thread * 256 + i + 1;
      EXPECT_EQ(stored[thread * 64 + 2 * i], value & 0xFFFF);
      EXPECT_EQ(stored[thread * 64 + 2 * i + 1], i == 3 ? 5U : 0U);
    }
  }
}

struct CopyRow {
  const char* name;
  u32 rows;
  u32 words;  ///< of a row
  u32 first;  ///< lane that the address names
  /// Whether row `row` goes to `lane`.
  bool (*goes)(u32 row, u32 lane);
};

constexpr CopyRow copies[] = {
    {"128x256b", 128, 8, 0, [](u32 row, u32 lane) { return row == lane; }},
    {"128x128b", 128, 4, 0, [](u32 row, u32 lane) { return row == lane; }},
    {"4x256b", 4, 8, 31, [](u32 row, u32 lane) { return lane == row * 32 + 31; }},
    {"64x128b_02_13", 64, 4, 0, [](u32 row, u32 lane) { return row == lane % 64; }},
    {"64x128b_01_23", 64, 4, 0, [](u32 row, u32 lane) { return row == lane / 64 * 32 + lane % 32; }},
    {"32x128b", 32, 4, 0, [](u32 row, u32 lane) { return row == lane % 32; }}};

TEST(TensorMemoryMoves, CopyEachShape) {
  for (const CopyRow& row : copies) {
    for (const int swizzle : {0, 128}) {
      if (swizzle == 128 && row.rows < 8) continue;
      const int rows = std::max<int>(row.rows, 8);
      const int depth = swizzle == 128 ? 32 : static_cast<int>(row.words);
      Image image({swizzle, false}, rows, depth, 32);
      for (u32 r = 0; r < row.rows; ++r) {
        for (u32 c = 0; c < row.words; ++c)
          image.put(static_cast<int>(r), static_cast<int>(c), 0x10000000 + r * 64 + c, 32);
      }
      Memory memory;
      Product product;
      product.a = test::put(memory, "image", image.bytes).address;
      product.a_bytes = static_cast<int>(image.bytes.size());
      product.a_descriptor = image.descriptor();
      product.shape = row.first;
      const Buffer out = test::make(memory, "d", u64{128} * 16 * 4);
      ParameterBlock parameters;
      parameters.add(product).add(out);
      test::run_clean(load_kernel("tensor_core", std::string("copy_") + row.name), test::shape(1, 128, 64 * 1024),
                      parameters, memory);
      const std::vector<u32> d = test::get<u32>(memory, out);
      for (u32 lane = 0; lane < 128; ++lane) {
        for (u32 c = 0; c < 16; ++c) {
          u32 wanted = lane << 16 | c;
          for (u32 r = 0; r < row.rows; ++r) {
            if (row.goes(r, lane) && c < row.words) wanted = 0x10000000 + r * 64 + c;
          }
          EXPECT_EQ(d[lane * 16 + c], wanted)
              << row.name << " swizzle " << swizzle << " lane " << lane << " column " << c;
        }
      }
    }
  }
}

TEST(TensorMemoryMoves, ShiftLanesWithinEach32) {
  Memory memory;
  Product product;
  product.a = test::put(memory, "image", std::vector<u32>(4)).address;
  product.a_bytes = 16;
  const Buffer out = test::make(memory, "d", u64{128} * 16 * 4);
  ParameterBlock parameters;
  parameters.add(product).add(out);
  test::run_clean(load_kernel("tensor_core", "copy_shift"), test::shape(1, 128, 4096), parameters, memory);
  const std::vector<u32> d = test::get<u32>(memory, out);
  for (u32 lane = 0; lane < 128; ++lane) {
    for (u32 c = 0; c < 16; ++c) {
      EXPECT_EQ(d[lane * 16 + c], (c < 8 && lane % 32 != 31 ? lane + 1 : lane) << 16 | c) << lane << " " << c;
    }
  }
}

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

struct FaultRow {
  const char* kernel;
  std::vector<Detector> expected;
  const char* message = "";
};

TEST(TensorCoreFaults, AreFound) {
  const std::vector<FaultRow> rows = {
      {"fault_none", {}},
      {"fault_relaxed", {}},
      {"fault_no_commit_wait",
       {Detector::uninitialised_read, Detector::tensor_race, Detector::async_before_wait},
       "may not be complete (no wait for a tcgen05.commit behind it)"},
      {"fault_no_fence_after", {Detector::missing_fence}, "without tcgen05.fence"},
      {"fault_no_store_wait", {Detector::async_before_wait}, "no tcgen05.wait::st"},
      {"fault_no_fence_before", {Detector::missing_fence}, "::before_thread_sync"},
      {"fault_no_barrier", {Detector::uninitialised_read, Detector::tensor_race}, "are not ordered"},
      {"fault_no_proxy_fence", {Detector::missing_fence}, "without a fence.proxy.async"},
      {"fault_overwrites_b", {Detector::async_before_wait}, "may still read (no wait for a tcgen05.commit"},
      {"fault_no_dealloc", {Detector::invalid_use}, "ends with 64 columns of tensor memory allocated"},
      {"fault_dealloc_twice", {Detector::invalid_use}, "no allocation of this block"},
      {"fault_before_alloc", {Detector::out_of_bounds, Detector::invalid_use}, "which is not allocated"},
      {"fault_unwritten", {Detector::uninitialised_read}, "which nobody wrote"},
      {"fault_foreign_lanes", {Detector::invalid_use}, "it may access lanes 32 to 63"},
      {"fault_no_load_wait", {Detector::async_before_wait}, "no tcgen05.wait::ld"},
      {"fault_unwritten_accumulator", {Detector::uninitialised_read}, "tcgen05.mma reads lane 0, column 0"},
      {"fault_one_lane", {Detector::divergent_barrier, Detector::invalid_use}, "tcgen05.ld by lanes 0x00000001 only"},
      {"fault_exhausted", {Detector::deadlock}, "wait for columns of tensor memory that nobody frees (PTX line"},
      {"fault_odd_columns", {Detector::invalid_use}, "48 columns of tensor memory: a power of two"},
      {"fault_alloc_after_relinquish",
       {Detector::out_of_bounds, Detector::invalid_use},
       "tcgen05.alloc after tcgen05.relinquish_alloc_permit"},
      {"fault_bad_shape",
       {Detector::uninitialised_read, Detector::invalid_use},
       "that means nothing: its shape is not of the instruction's .kind and .cta_group"},
      {"fault_sparse_flag",
       {Detector::uninitialised_read, Detector::invalid_use},
       "its sparsity bit is not that of the instruction"},
      {"fault_bad_descriptor",
       {Detector::uninitialised_read, Detector::invalid_use},
       "tcgen05 has a descriptor of B that means nothing"},
  };
  for (const FaultRow& row : rows) {
    Memory memory;
    Image b({}, 16, 16, 16);
    for (int n = 0; n < 16; ++n) {
      for (int k = 0; k < 16; ++k) b.put(n, k, double_to_half(1), 16);
    }
    const Buffer image = test::put(memory, "b", b.bytes);
    const Buffer out = test::make(memory, "d", u64{128} * 16 * 4);
    ParameterBlock parameters;
    parameters.add(image).add(out);
    const LaunchReport report =
        test::run(load_kernel("tensor_core", row.kernel), test::shape(1, 128), parameters, memory);
    std::vector<Detector> found;
    for (const Finding& finding : report.findings) found.push_back(finding.detector);
    std::ranges::sort(found);
    found.erase(std::ranges::unique(found).begin(), found.end());
    EXPECT_EQ(found, row.expected) << row.kernel << "\n" << test::findings_text(report);
    EXPECT_THAT(test::findings_text(report), testing::HasSubstr(row.message)) << row.kernel;
    if (row.expected.empty()) {
      const std::vector<u32> d = test::get<u32>(memory, out);
      EXPECT_THAT(d, testing::Each(std::bit_cast<u32>(16.0F))) << row.kernel;
    }
  }
}

TEST(TensorCorePipeline, OfThreeSortsOfWarpsIsRightAndItsFaultsAreFound) {
  constexpr u32 tiles = 4;
  constexpr u32 products = 3;
  std::vector<std::uint8_t> a_bytes;
  std::vector<std::uint8_t> b_bytes;
  std::vector<double> wanted(tiles * 128 * 64);
  for (u32 i = 0; i < tiles * products; ++i) {
    Image a({}, 128, 16, 16);
    Image b({}, 64, 16, 16);
    for (u32 k = 0; k < 16; ++k) {
      std::vector<double> a_column(128);
      for (u32 r = 0; r < 128; ++r) {
        const u32 bits = draw(Type::f16, mix(8, (i * 16 + k) * 128 + r));
        a.put(static_cast<int>(r), static_cast<int>(k), bits, 16);
        a_column[r] = value_of(Type::f16, bits);
      }
      for (u32 n = 0; n < 64; ++n) {
        const u32 bits = draw(Type::f16, mix(9, (i * 16 + k) * 64 + n));
        b.put(static_cast<int>(n), static_cast<int>(k), bits, 16);
        for (u32 r = 0; r < 128; ++r) {
          wanted[(i / products * 128 + r) * 64 + n] += a_column[r] * value_of(Type::f16, bits);
        }
      }
    }
    a_bytes.insert(a_bytes.end(), a.bytes.begin(), a.bytes.end());
    b_bytes.insert(b_bytes.end(), b.bytes.begin(), b.bytes.end());
  }
  const std::vector<FaultRow> rows = {
      {"pipeline_right", {}},
      {"pipeline_no_empty_wait",
       {Detector::deadlock, Detector::async_before_wait, Detector::invalid_use},
       "where an asynchronous copy of lane 0 of warp 0 has not been waited for"},
      {"pipeline_no_accumulator_wait", {Detector::tensor_race}, "tcgen05.mma of lane"},
      {"pipeline_early_arrival", {Detector::async_before_wait}, "no tcgen05.wait::ld"},
      {"pipeline_no_reader_fence", {Detector::missing_fence}, "tcgen05.ld of lane"},
      {"pipeline_no_writer_fence", {Detector::missing_fence}, "tcgen05.mma of lane"},
  };
  for (const FaultRow& row : rows) {
    Memory memory;
    const Buffer a = test::put(memory, "a", a_bytes);
    const Buffer b = test::put(memory, "b", b_bytes);
    const Buffer out = test::make(memory, "d", wanted.size() * 4);
    ParameterBlock parameters;
    parameters.add(a).add(b).add(out);
    const LaunchReport report =
        test::run(load_kernel("tensor_core", row.kernel), test::shape(1, 192), parameters, memory);
    std::vector<Detector> found;
    for (const Finding& finding : report.findings) found.push_back(finding.detector);
    std::ranges::sort(found);
    found.erase(std::ranges::unique(found).begin(), found.end());
    EXPECT_EQ(found, row.expected) << row.kernel << "\n" << test::findings_text(report);
    EXPECT_THAT(test::findings_text(report), testing::HasSubstr(row.message)) << row.kernel;
    if (!row.expected.empty()) continue;
    const std::vector<float> d = test::get<float>(memory, out);
    for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_EQ(d[i], static_cast<float>(wanted[i])) << i;
  }
}

/// What ptxas refuses, or what only figures of the ISA say, is refused at load or at the instruction, by name.
TEST(TensorCoreRefusals, NameWhatIsWrong) {
  const std::pair<const char*, const char*> rows[] = {
      {"tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r0, "
       "32;",
       "tcgen05 with .cta_group::2 after one with .cta_group::1"},
      {"tcgen05.cp.cta_group::1.128x128b.b8x16.b4x16_p64 [%r0], %t0;", "tcgen05.cp that widens elements"},
      {"tcgen05.cp.cta_group::1.64x128b [%r0], %t0;", "64 rows by .warpx2"},
      {"tcgen05.mma.cta_group::1.kind::f16.ashift [%r0], [%r1], %t0, %r2, %p0;", "tcgen05.mma.ashift"},
      {"tcgen05.mma.ws.cta_group::1.kind::f16 [%r0], %t1, %t0, %r2, %p0, %t2;", "a mask of zero columns"},
      {"tcgen05.mma.cta_group::1.kind::f16.block_scale [%r0], %t1, %t0, %r2, [%r3], [%r4], %p0;", "block_scale"},
      {"tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::4X [%r0], %t1, %t0, %r2, [%r3], [%r4], %p0;",
       "no such scale vectors"},
      {"tcgen05.mma.cta_group::1.kind::f16 [%r0], %t1, %t0, %r2, {%r3, %r3}, %p0;", "has 4 registers"},
      {"tcgen05.mma.cta_group::1.kind::i8 [%r0], %t1, %t0, %r2, %p0, 3;", "scale-input-d is 0 to 15"},
      {"tcgen05.ld.sync.aligned.16x256b.x64.b32 {%r0}, [%r1];", "at most 128 registers"},
      {"tcgen05.ld.red.sync.aligned.32x32b.x2.min.u32 {%r0, %r1}, %r3, [%r2];", "'.red'"},
  };
  for (const auto& [body, message] : rows) {
    const Result<Program> program = Program::load(test::ptx_module(body, "sm_100a"), "kernel");
    ASSERT_FALSE(program.ok()) << body;
    EXPECT_THAT(program.error().message, testing::HasSubstr(message)) << body;
  }
}

/// Elements of 4 bits in tensor memory: only the instruction descriptor tells, so that the launch has the error.
TEST(TensorCoreRefusals, ComeFromTheLaunchWhereOnlyOperandsTell) {
  const std::string body = R"(
    .shared .align 16 .b32 place; mov.u32 %r1, place;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;
    mov.u32 %r2, 0x08041690; mov.u32 %r0, 0; mov.u64 %t0, 0; setp.ne.u32 %p0, %r0, 0;
    tcgen05.mma.cta_group::1.kind::f8f6f4 [%r0], [%r0], %t0, %r2, %p0;)";
  Memory memory;
  ParameterBlock parameters;
  parameters.add(test::make(memory, "y", 256));
  parameters.add(test::put(memory, "x", std::vector<test::BodyInput>(32)));
  parameters.add(test::put(memory, "table", std::vector<u64>(1)));
  const Result<Program> program = Program::load(test::ptx_module(body, "sm_100a"), "kernel");
  ASSERT_TRUE(program.ok()) << program.error().message;
  const Result<LaunchReport> report = launch(*program, test::shape(1, 32), parameters.bytes(), memory);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(report.error().message, testing::HasSubstr("4- or 6-bit elements in tensor memory"));
}

}  // namespace
}  // namespace stitch::emulator
