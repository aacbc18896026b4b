#include <algorithm>

#include "graph/dot_dimensions.h"
#include "graph/f32_products.h"
#include "graph/reference/added_products.h"
#include "graph/reference/evaluate_accumulate.h"
#include "graph/reference/evaluate_ops.h"
#include "graph/reference/narrow_sums.h"

// dot and convolution: operands are brought into the form [batch][row][k] and multiplied by one blocked routine.

namespace stitch::graph::reference {
namespace {

constexpr std::int64_t tile = 4;     ///< rows and columns of the result kept in registers
constexpr std::int64_t depth = 512;  ///< of k per pass: two panels stay in the first-level cache

/// Rows row … row + 3 of a [rows][k] matrix, k first … first + count - 1, interleaved; missing rows are zero.
void pack_panel(const double* matrix, std::int64_t rows, std::int64_t k, std::int64_t row, std::int64_t first,
                std::int64_t count, double* panel) {
  for (std::int64_t r = 0; r < tile; ++r) {
    for (std::int64_t i = 0; i < count; ++i) {
      panel[i * tile + r] = row + r < rows ? matrix[(row + r) * k + first + i] : 0;
    }
  }
}

/// c[m][n] += Σ a[m][k] b[n][k]; all dense.
void multiply(const double* a, const double* b, double* c, std::int64_t m, std::int64_t n, std::int64_t k) {
  std::vector<double> b_panels((n + tile - 1) / tile * tile * std::min(depth, k));
  double a_panel[tile * depth];
  for (std::int64_t first = 0; first < k; first += depth) {
    const std::int64_t count = std::min(depth, k - first);
    for (std::int64_t j = 0; j < n; j += tile) pack_panel(b, n, k, j, first, count, b_panels.data() + j * count);
    for (std::int64_t i = 0; i < m; i += tile) {
      pack_panel(a, m, k, i, first, count, a_panel);
      for (std::int64_t j = 0; j < n; j += tile) {
        const double* b_panel = b_panels.data() + j * count;
        double sums[tile][tile] = {};
        for (std::int64_t l = 0; l < count; ++l) {
          for (std::int64_t r = 0; r < tile; ++r) {
            for (std::int64_t s = 0; s < tile; ++s) sums[r][s] += a_panel[l * tile + r] * b_panel[l * tile + s];
          }
        }
        for (std::int64_t r = 0; r < std::min(tile, m - i); ++r) {
          for (std::int64_t s = 0; s < std::min(tile, n - j); ++s) c[(i + r) * n + j + s] += sums[r][s];
        }
      }
    }
  }
}

/// A [rows][k] matrix of floats with bounds (empty: exact), or of integers.
struct Matrix {
  std::vector<double> floats, bounds;
  std::vector<std::int64_t> integers;

  [[nodiscard]] const double* bounds_or_null() const { return bounds.empty() ? nullptr : bounds.data(); }
};

/// |x| scaled, plus the bound.
std::vector<double> magnitudes(const double* x, const double* e, std::int64_t count, double scale) {
  std::vector<double> result(count);
  for (std::int64_t i = 0; i < count; ++i) result[i] = std::fabs(x[i]) * scale + (e == nullptr ? 0 : e[i]);
  return result;
}

/// One element where something is infinite, NaN or unchecked: product by product.
Accumulated<double> careful_element(const double* a, const double* ea, const double* b, const double* eb,
                                    std::int64_t k, const Accumulation& accumulation) {
  FloatSum<true, true> sum;
  const Rounding& r = accumulation.rounding;
  for (std::int64_t i = 0; i < k; ++i) {
    const double x = a[i], ex = ea == nullptr ? 0 : ea[i], y = b[i], ey = eb == nullptr ? 0 : eb[i];
    if (ex == unchecked || ey == unchecked) return {x * y, unchecked};
    const double corners[] = {x * y, (x - ex) * (y - ey), (x - ex) * (y + ey), (x + ex) * (y - ey),
                              (x + ex) * (y + ey)};
    // Products live in the accumulator: narrow dtypes limit only the result.
    Rounding wide = r;
    wide.dtype = info(r.dtype).accumulator;
    wide.largest = r.overflow;
    const Settled product = settle(wide, x * y, Multiply::spread(x, ex, y, ey, x * y), corners, 5);
    sum.add(product.value, product.bound);
  }
  return sum.finish(accumulation);
}

/// How much larger than a product that of the operands' first parts may be: each is rounded up by 2^-8 at most (bf16).
constexpr double parts_reach = 1 + 0x1p-6;

/// Of element i of [m][n], where sums have few bits; NaN, which an unchecked operand times 0 makes, counts as
/// unchecked.
double lost_of(const double* a, const double* ea, const double* b, const double* eb, std::int64_t n, std::int64_t k,
               std::int64_t i, const Accumulation& accumulation) {
  if (accumulation.narrow_part == 0) return 0;
  const std::int64_t row = i / n * k, column = i % n * k;
  const NarrowTerms terms = {a + row, ea == nullptr ? nullptr : ea + row, b + column,
                             eb == nullptr ? nullptr : eb + column, k};
  const double lost =
      narrow_loss(terms, accumulation.narrow_part, accumulation.smallest_left, accumulation.smallest_right);
  return std::isnan(lost) ? unchecked : lost;
}

/// c[m][n] = Σ a[m][k] b[n][k] with bounds. Error: operands' errors through G(|a| + ea, |b| + eb) - G(|a|, |b|), and
/// (depth + 1) u G(|a|, |b|), the one for the products' own rounding; two more products, or one if both are exact. Of
/// products in parts there are three times as many terms, and those of others where all may be one sum; what may
/// overflow is not checked, since the first parts' product may be infinite where the whole one is not, and one of the
/// others infinite the other way.
void contract(const double* a, const double* ea, const double* b, const double* eb, std::int64_t m, std::int64_t n,
              std::int64_t k, const Accumulation& accumulation, double* c, double* ec) {
  std::fill_n(c, m * n, 0);
  multiply(a, b, c, m, n, k);
  if (ec == nullptr) return;
  const Rounding& r = accumulation.rounding;
  const std::int64_t terms = (accumulation.in_parts ? 3 : 1) * (k + accumulation.other_terms);
  const double gamma = (sum_depth(terms, accumulation.model) + 1) * 0.5 * r.ulp;
  const double reach = accumulation.in_parts ? parts_reach : 1;
  const std::vector<double> plain_a = magnitudes(a, nullptr, m * k, 1), plain_b = magnitudes(b, nullptr, n * k, 1);
  std::vector<double> plain(m * n, 0);
  multiply(plain_a.data(), plain_b.data(), plain.data(), m, n, k);
  if (ea == nullptr && eb == nullptr) {
    for (std::int64_t i = 0; i < m * n; ++i) ec[i] = gamma * plain[i];
  } else {
    const std::vector<double> wide_a = magnitudes(a, ea, m * k, 1 + gamma), wide_b = magnitudes(b, eb, n * k, 1);
    std::fill_n(ec, m * n, 0);
    multiply(wide_a.data(), wide_b.data(), ec, m, n, k);
    for (std::int64_t i = 0; i < m * n; ++i) {
      const double more = ec[i] - plain[i];
      ec[i] = more < 0 ? 0 : more;  // NaN, which an unchecked operand times 0 makes, stays and is looked at below
    }
  }
  for (std::int64_t i = 0; i < m * n; ++i) {
    const double lost = lost_of(a, ea, b, eb, n, k, i, accumulation);
    ec[i] += lost;
    const double narrow = r.error(std::fabs(c[i]) + ec[i], 0) + (plain[i] > 0 ? k * r.floor : 0);
    if (std::fabs(c[i]) + ec[i] + narrow < r.largest && (plain[i] + ec[i]) * reach < r.overflow) {
      ec[i] += narrow;
      continue;
    }
    if (accumulation.in_parts) {
      ec[i] = unchecked;
      continue;
    }
    const auto careful = careful_element(a + i / n * k, ea == nullptr ? nullptr : ea + i / n * k, b + i % n * k,
                                         eb == nullptr ? nullptr : eb + i % n * k, k, accumulation);
    c[i] = careful.value;
    ec[i] = careful.bound + (std::isfinite(careful.value) ? lost : 0);
  }
}

/// A block's values in another order of dimensions: `order` lists the operand's dimensions, outermost first.
Matrix reordered(const Block& block, const Dims& order) {
  StridedCopy walk;
  const Dims strides = row_major_strides(block.box.size);
  for (const std::int64_t d : order) {
    walk.extents.push_back(block.box.size[d]);
    walk.from_strides.push_back(block.uniform ? 0 : strides[d]);
  }
  walk.to_strides = row_major_strides(walk.extents);
  Matrix matrix;
  const std::size_t count = block.box.elements();
  if (is_floating(block.dtype)) {
    matrix.floats.resize(count);
    copy_strided(walk, block.data->floats.data(), matrix.floats.data());
  } else {
    matrix.integers.resize(count);
    copy_strided(walk, block.data->integers.data(), matrix.integers.data());
  }
  if (!block.exact()) {
    matrix.bounds.resize(count);
    copy_strided(walk, block.data->bounds.data(), matrix.bounds.data());
  }
  return matrix;
}

/// What an operand of f32 may lose where it is multiplied as what tensor cores take.
struct OperandDoubt {
  double share;     ///< of its magnitude
  double smallest;  ///< of any but zero: half a step of subnormal numbers, which are f32's less their last bits
  double largest;   ///< that is finite once rounded
};

/// One product of TF32 (10 bits of fraction, exponents as f32's): up to 2^-10, since hardware that reads f32 from
/// shared memory cuts the rest off. Three: 2^-22 of what rounding left, and a share of the product that is left out.
///
/// Three of bf16 (7 bits of fraction). With 2^e ≤ |x| < 2^(e+1):
///     x = big + r,    big the nearest bf16, so that |r| ≤ 2^(e-8); r is exact in f32: it has 16 bits at the most
///     r = rest + t,   rest the nearest bf16, so that |rest| ≤ 2^(e-8) and, as |r| is either 2^(e-8), which is one, or
///                     less, |t| ≤ 2^-8 · 2^(e-9) = 2^(e-17) ≤ 2^-17 |x|
/// (or |t| ≤ 2^-134 where subnormal numbers of bf16, which are 2^-133 apart, are reached). The three products are all
/// of (x - t)(y - t') but rest·rest', so that they differ from x·y by at most
///     |t||y| + |x||t'| + |t||t'| + |rest||rest'| ≤ (2^-17 + 2^-17 + 2^-34 + 2^-16) |x||y| < (2^-15 + 2^-32) |x||y|,
/// which is what operands that are each off by 2^-16 may differ by, (1 + 2^-16)² - 1. Each product is exact in f32 (two
/// times 8 bits). Of the sums the caller has the error: an instruction adds sixteen products of parts at once, so that
/// three of them round no more often than an addition of each whole product would.
OperandDoubt doubt_of(F32Arithmetic arithmetic) {
  constexpr double largest_tf32 = 0x1.ffcp127, smallest_tf32 = 0x1p-136;
  switch (arithmetic) {
    case F32Arithmetic::f32: break;
    case F32Arithmetic::tf32: return {0x1p-10, smallest_tf32, largest_tf32};
    case F32Arithmetic::tf32x3: return {0x1p-21, smallest_tf32, largest_tf32};
    case F32Arithmetic::bf16x3: return {0x1p-16, 0x1p-134, 0x1.fep127};
  }
  return {0, 0, unchecked};
}

bool is_in_parts(F32Arithmetic arithmetic) {
  return arithmetic == F32Arithmetic::tf32x3 || arithmetic == F32Arithmetic::bf16x3;
}

/// Adds that to an operand's bounds.
void doubt(Matrix& matrix, F32Arithmetic arithmetic) {
  const OperandDoubt d = doubt_of(arithmetic);
  matrix.bounds.resize(matrix.floats.size(), 0);
  for (std::size_t i = 0; i < matrix.floats.size(); ++i) {
    const double x = std::fabs(matrix.floats[i]);
    double& bound = matrix.bounds[i];
    if (x + bound <= d.largest) {
      bound += x * d.share + (x > 0 ? d.smallest : 0);
    } else if (is_in_parts(arithmetic) || std::isfinite(x)) {
      bound = unchecked;  // infinite once rounded; infinity less itself is NaN
    }
  }
}

/// How the node's products may be made, where that is to be bounded.
F32Arithmetic arithmetic_of(const OpContext& context) {
  if (!context.options.bounds || !is_f32_product(context.graph, context.node())) return F32Arithmetic::f32;
  return context.graph.constraints.f32_arithmetic();
}

Accumulation accumulation_of(const OpContext& context) {
  Accumulation accumulation(context.node().type().dtype, context.options.error_model);
  accumulation.in_parts = is_in_parts(arithmetic_of(context));
  if (context.options.bounds && context.node().op == Op::dot)
    accumulation.other_terms = terms_added_to(context.graph, context.id);
  if (context.options.error_model.narrow_part == 0 || !is_narrow_product(context.graph, context.node()))
    return accumulation;
  accumulation.narrow_part = context.options.error_model.narrow_part;
  const auto smallest = [&](std::size_t operand) {
    const DType dtype = context.operand_type(operand).dtype;
    return byte_size(dtype) == 1 ? smallest_normal(dtype) : 0;  // of one that is scaled nobody says
  };
  accumulation.smallest_left = smallest(0);
  accumulation.smallest_right = smallest(1);
  return accumulation;
}

/// An operand as it is multiplied.
Matrix multiplied(const OpContext& context, const Block& block, const Dims& order) {
  Matrix matrix = reordered(block, order);
  if (const F32Arithmetic arithmetic = arithmetic_of(context); arithmetic != F32Arithmetic::f32)
    doubt(matrix, arithmetic);
  return matrix;
}

bool any_positive(const std::vector<double>& bounds) {
  return std::any_of(bounds.begin(), bounds.end(), [](double e) { return e > 0; });
}

/// The matrices' product, [m][n], from element `a_at`, `b_at` on, into elements `to` on of the storage.
void contract_into(const Matrix& a, std::int64_t a_at, const Matrix& b, std::int64_t b_at, std::int64_t m,
                   std::int64_t n, std::int64_t k, const Accumulation& accumulation, Storage& storage,
                   std::int64_t to) {
  double* bounds = storage.bounds.empty() ? nullptr : storage.bounds.data() + to;
  if (is_floating(accumulation.dtype)) {
    contract(a.floats.data() + a_at, a.bounds.empty() ? nullptr : a.bounds.data() + a_at, b.floats.data() + b_at,
             b.bounds.empty() ? nullptr : b.bounds.data() + b_at, m, n, k, accumulation, storage.floats.data() + to,
             bounds);
    return;
  }
  const bool uncertain = any_positive(a.bounds) || any_positive(b.bounds);
  for (std::int64_t i = 0; i < m * n; ++i) {
    std::uint64_t sum = 0;
    for (std::int64_t l = 0; l < k; ++l) {
      sum += static_cast<std::uint64_t>(a.integers[a_at + i / n * k + l]) *
             static_cast<std::uint64_t>(b.integers[b_at + i % n * k + l]);
    }
    storage.integers[to + i] = wrap_integer(accumulation.dtype, sum);
    if (bounds != nullptr) bounds[i] = uncertain ? unchecked : 0;
  }
}

// ---- dot

/// One side of a dot: its box for `out`, the order of dimensions batch, free, contracted, and the matrix sizes.
struct Side {
  Box box;
  Dims order;
  std::int64_t batches = 1, rows = 1, k = 1;
};

/// `first_free`: the result dimension of the side's first free dimension.
Side side_of(const Dims& dims, const Dims& batch, const Dims& contracting, std::size_t first_free, const Box& out) {
  Side side{Box::whole(dims), batch, 1, 1, 1};
  for (std::size_t i = 0; i < batch.size(); ++i) {
    side.box.start[batch[i]] = out.start[i];
    side.box.size[batch[i]] = out.size[i];
    side.batches *= out.size[i];
  }
  for (const std::int64_t d : free_dimensions(dims.size(), batch, contracting)) {
    side.box.start[d] = out.start[first_free];
    side.box.size[d] = out.size[first_free];
    side.rows *= out.size[first_free++];
    side.order.push_back(d);
  }
  for (const std::int64_t d : contracting) {
    side.k *= dims[d];
    side.order.push_back(d);
  }
  return side;
}

struct Sides {
  Side lhs, rhs;
};

Sides sides_of(const OpContext& context, const Box& out) {
  const DotAttributes& a = context.node().as<DotAttributes>();
  const Dims &lhs = context.operand_type(0).dims, &rhs = context.operand_type(1).dims;
  const std::size_t lhs_free = lhs.size() - a.lhs_batch.size() - a.lhs_contracting.size();
  return {side_of(lhs, a.lhs_batch, a.lhs_contracting, a.lhs_batch.size(), out),
          side_of(rhs, a.rhs_batch, a.rhs_contracting, a.lhs_batch.size() + lhs_free, out)};
}

Result<Block> evaluate_dot(const OpContext& context, const Box& out) {
  const DType dtype = context.node().type().dtype;
  const auto [lhs, rhs] = sides_of(context, out);
  STITCH_ASSIGN(const Block left, context.operand(0, lhs.box));
  STITCH_ASSIGN(const Block right, context.operand(1, rhs.box));
  STITCH_ASSIGN(StorageRef storage, context.make(dtype, out, !is_floating(dtype) && context.all_exact()));
  const Matrix a = multiplied(context, left, lhs.order), b = multiplied(context, right, rhs.order);
  const Accumulation accumulation = accumulation_of(context);
  for (std::int64_t i = 0; i < lhs.batches; ++i) {
    contract_into(a, i * lhs.rows * lhs.k, b, i * rhs.rows * rhs.k, lhs.rows, rhs.rows, lhs.k, accumulation, *storage,
                  i * lhs.rows * rhs.rows);
  }
  storage->nonnegative = context.operand_nonnegative(0) && context.operand_nonnegative(1) && is_floating(dtype);
  return Block{dtype, out, std::move(storage), false};
}

// ---- convolution

std::int64_t ceil_divide(std::int64_t x, std::int64_t y) { return x / y + (x % y > 0); }

/// A convolution's boxes in canonical order: [batch, feature, spatial…] and [output, input, spatial…].
struct ConvolutionBoxes {
  Box input, kernel, output;
};

ConvolutionBoxes convolution_boxes(const OpContext& context, const Box& out) {
  const ConvolutionAttributes& a = context.node().as<ConvolutionAttributes>();
  const Dims &input = context.operand_type(0).dims, &kernel = context.operand_type(1).dims;
  ConvolutionBoxes boxes;
  const auto add = [](Box& box, std::int64_t start, std::int64_t size) {
    box.start.push_back(start);
    box.size.push_back(size);
  };
  add(boxes.output, out.start[a.output_batch], out.size[a.output_batch]);
  add(boxes.output, out.start[a.output_feature], out.size[a.output_feature]);
  if (a.batch_groups == 1) {
    add(boxes.input, boxes.output.start[0], boxes.output.size[0]);
  } else {
    add(boxes.input, 0, input[a.input_batch]);
  }
  add(boxes.input, 0, input[a.input_feature]);
  add(boxes.kernel, boxes.output.start[1], boxes.output.size[1]);
  add(boxes.kernel, 0, kernel[a.kernel_input_feature]);
  for (std::size_t s = 0; s < a.output_spatial.size(); ++s) {
    const std::int64_t start = out.start[a.output_spatial[s]], size = out.size[a.output_spatial[s]];
    const std::int64_t window = kernel[a.kernel_spatial[s]], extent = input[a.input_spatial[s]];
    add(boxes.output, start, size);
    add(boxes.kernel, 0, window);
    const std::int64_t low = start * a.strides[s] - a.low[s];
    const std::int64_t high = (start + size - 1) * a.strides[s] + (window - 1) * a.kernel_dilation[s] - a.low[s];
    const std::int64_t first = std::max<std::int64_t>(0, low <= 0 ? 0 : ceil_divide(low, a.input_dilation[s]));
    const std::int64_t last = high < 0 ? -1 : std::min(extent - 1, high / a.input_dilation[s]);
    add(boxes.input, first, std::max<std::int64_t>(0, last - first + 1));
  }
  return boxes;
}

/// Where the canonical dimensions lie in a tensor.
Dims canonical_order(std::int64_t first, std::int64_t second, const Dims& spatial) {
  Dims order{first, second};
  order.insert(order.end(), spatial.begin(), spatial.end());
  return order;
}

/// A canonical box as a box of the tensor itself.
Box actual_box(const Box& canonical, const Dims& order) {
  Box box = canonical;
  for (std::size_t i = 0; i < order.size(); ++i) {
    box.start[order[i]] = canonical.start[i];
    box.size[order[i]] = canonical.size[i];
  }
  return box;
}

/// Features of the result that read the same part of the input.
struct FeatureGroup {
  std::int64_t first, count;  ///< result features, absolute
  std::int64_t input_feature, input_batch;
};

std::vector<FeatureGroup> feature_groups(const OpContext& context, const Box& output) {
  const ConvolutionAttributes& a = context.node().as<ConvolutionAttributes>();
  const Dims &input = context.operand_type(0).dims, &kernel = context.operand_type(1).dims;
  const std::int64_t groups = std::max(a.feature_groups, a.batch_groups);
  const std::int64_t per_group = kernel[a.kernel_output_feature] / groups;
  std::vector<FeatureGroup> result;
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t first = std::max(output.start[1], g * per_group);
    const std::int64_t end = std::min(output.end(1), (g + 1) * per_group);
    if (first >= end) continue;
    const std::int64_t features = a.feature_groups > 1 ? g * kernel[a.kernel_input_feature] : 0;
    const std::int64_t batch = a.batch_groups > 1 ? g * (input[a.input_batch] / a.batch_groups) : 0;
    result.push_back({first, end - first, features, batch});
  }
  return result;
}

/// The [result position][input feature, window position] matrix that one feature group multiplies with its kernels.
Matrix patches(const OpContext& context, const ConvolutionBoxes& boxes, const FeatureGroup& group,
               const Matrix& input) {
  const ConvolutionAttributes& a = context.node().as<ConvolutionAttributes>();
  const std::size_t rank = boxes.input.size.size();
  const Dims strides = row_major_strides(boxes.input.size);
  Box positions = boxes.output;
  positions.start.erase(positions.start.begin() + 1);
  positions.size.erase(positions.size.begin() + 1);
  Box window = boxes.kernel;
  window.start.erase(window.start.begin());
  window.size.erase(window.size.begin());
  const std::size_t count = positions.elements() * window.elements();
  Matrix matrix;
  const bool floats = is_floating(context.operand_type(0).dtype);  // there may be no element of it: all is padding
  floats ? matrix.floats.assign(count, 0) : matrix.integers.assign(count, 0);
  if (!input.bounds.empty()) matrix.bounds.assign(count, 0);
  if (count == 0) return matrix;  // no features, or no positions in the window
  std::size_t to = 0;
  Dims position = positions.start;
  do {
    Dims in_window = window.start;
    do {
      std::int64_t from = (position[0] + group.input_batch - boxes.input.start[0]) * strides[0] +
                          (in_window[0] + group.input_feature - boxes.input.start[1]) * strides[1];
      bool inside = true;
      for (std::size_t s = 0; s + 2 < rank; ++s) {
        const bool reversed = !a.window_reversal.empty() && a.window_reversal[s];
        const std::int64_t k = reversed ? window.size[s + 1] - 1 - in_window[s + 1] : in_window[s + 1];
        const std::int64_t place = position[s + 1] * a.strides[s] + k * a.kernel_dilation[s] - a.low[s];
        const std::int64_t index = place / a.input_dilation[s];
        inside = inside && place >= 0 && place % a.input_dilation[s] == 0 && index >= boxes.input.start[s + 2] &&
                 index < boxes.input.end(s + 2);
        from += (index - boxes.input.start[s + 2]) * strides[s + 2];
      }
      if (inside) {
        floats ? void(matrix.floats[to] = input.floats[from]) : void(matrix.integers[to] = input.integers[from]);
        if (!matrix.bounds.empty()) matrix.bounds[to] = input.bounds[from];
      }
      ++to;
    } while (next_index(window, in_window));
  } while (next_index(positions, position));
  return matrix;
}

/// A part of the result with few enough positions for the patch matrix.
Status convolve(const OpContext& context, const Box& canonical, const Dims& output_order, const Box& out,
                const Accumulation& accumulation, Storage& storage) {
  const ConvolutionAttributes& a = context.node().as<ConvolutionAttributes>();
  const ConvolutionBoxes boxes = convolution_boxes(context, actual_box(canonical, output_order));
  const Dims input_order = canonical_order(a.input_batch, a.input_feature, a.input_spatial);
  const Dims kernel_order = canonical_order(a.kernel_output_feature, a.kernel_input_feature, a.kernel_spatial);
  STITCH_ASSIGN(const Block input_block, context.operand(0, actual_box(boxes.input, input_order)));
  STITCH_ASSIGN(const Block kernel_block, context.operand(1, actual_box(boxes.kernel, kernel_order)));
  const Matrix input = multiplied(context, input_block, input_order);
  const Matrix kernel = multiplied(context, kernel_block, kernel_order);
  const std::int64_t k = boxes.kernel.elements() / std::max<std::int64_t>(1, boxes.kernel.size[0]);
  const std::int64_t positions = canonical.elements() / canonical.size[1];
  const Dims strides = row_major_strides(out.size);
  for (const FeatureGroup& group : feature_groups(context, canonical)) {
    STITCH_ASSIGN(StorageRef part,
                  context.memory.make(accumulation.dtype, positions * group.count, !storage.bounds.empty()));
    const Matrix rows = patches(context, boxes, group, input);
    contract_into(rows, 0, kernel, (group.first - boxes.kernel.start[0]) * k, positions, group.count, k, accumulation,
                  *part, 0);
    // [batch, spatial…][feature] to where the result has them.
    Box target = canonical;
    target.start[1] = group.first;
    target.size[1] = group.count;
    Dims part_size{target.size[0]};
    part_size.insert(part_size.end(), target.size.begin() + 2, target.size.end());
    part_size.push_back(group.count);
    StridedCopy walk{part_size, row_major_strides(part_size), {strides[output_order[0]]}};
    for (std::size_t s = 2; s < output_order.size(); ++s) walk.to_strides.push_back(strides[output_order[s]]);
    walk.to_strides.push_back(strides[output_order[1]]);
    const Box place = actual_box(target, output_order);
    copy_values(walk, Block{accumulation.dtype, place, std::move(part), false}, 0, storage,
                offset_in(out, place.start));
  }
  return {};
}

Result<Block> evaluate_convolution(const OpContext& context, const Box& out) {
  const ConvolutionAttributes& a = context.node().as<ConvolutionAttributes>();
  const DType dtype = context.node().type().dtype;
  STITCH_ASSIGN(StorageRef storage, context.make(dtype, out, !is_floating(dtype) && context.all_exact()));
  const Accumulation accumulation = accumulation_of(context);
  const Dims order = canonical_order(a.output_batch, a.output_feature, a.output_spatial);
  const ConvolutionBoxes boxes = convolution_boxes(context, out);
  const std::int64_t k = boxes.kernel.elements() / std::max<std::int64_t>(1, boxes.kernel.size[0]);
  constexpr std::int64_t patch_elements = std::int64_t{1} << 21;
  const std::int64_t most =
      std::max<std::int64_t>(1, patch_elements / std::max<std::int64_t>(1, k)) * boxes.output.size[1];
  // Slabs of the canonical box would split features first; keep all features of a position together.
  Box rows = boxes.output;
  rows.size[1] = 1;
  STITCH_TRY(for_each_slab(rows, std::max<std::int64_t>(1, most / boxes.output.size[1]), [&](const Box& slab) {
    if (const Status wanted = context.memory.go_on(); !wanted) return wanted;
    Box part = slab;
    part.start[1] = boxes.output.start[1];
    part.size[1] = boxes.output.size[1];
    return convolve(context, part, order, out, accumulation, *storage);
  }));
  storage->nonnegative = context.operand_nonnegative(0) && context.operand_nonnegative(1) && is_floating(dtype);
  return Block{dtype, out, std::move(storage), false};
}

}  // namespace

void contraction_demand(const OpContext& context, const Box& out, std::span<Region> regions) {
  if (context.node().op == Op::dot) {
    const auto [lhs, rhs] = sides_of(context, out);
    regions[0].add(lhs.box);
    regions[1].add(rhs.box);
    return;
  }
  const ConvolutionAttributes& a = context.node().as<ConvolutionAttributes>();
  const ConvolutionBoxes boxes = convolution_boxes(context, out);
  regions[0].add(actual_box(boxes.input, canonical_order(a.input_batch, a.input_feature, a.input_spatial)));
  regions[1].add(
      actual_box(boxes.kernel, canonical_order(a.kernel_output_feature, a.kernel_input_feature, a.kernel_spatial)));
}

Result<Block> evaluate_contraction(const OpContext& context, const Box& out) {
  return context.node().op == Op::dot ? evaluate_dot(context, out) : evaluate_convolution(context, out);
}

}  // namespace stitch::graph::reference
