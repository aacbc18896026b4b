#include "tests/graph/naive_evaluate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>

#include "graph/builder.h"
#include "graph/literal.h"

namespace stitch::graph::test {
namespace {

std::size_t at(std::int64_t i) { return i; }

/// An element: floats in f, integers and pred in i.
struct Element {
  double f = 0;
  std::int64_t i = 0;
};

Dims unravel(std::int64_t linear, const Dims& dims) {
  Dims index(dims.size());
  for (std::size_t d = dims.size(); d-- > 0;) {
    index[d] = linear % dims[d];
    linear /= dims[d];
  }
  return index;
}

std::int64_t ravel(const Dims& index, const Dims& dims) {
  std::int64_t linear = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) linear = linear * dims[d] + index[d];
  return linear;
}

bool in_range(const Dims& index, const Dims& dims) {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (index[d] < 0 || index[d] >= dims[d]) return false;
  }
  return true;
}

bool contains(const Dims& list, std::int64_t value) { return std::count(list.begin(), list.end(), value) > 0; }

std::int64_t wrap(DType dtype, std::int64_t value) {
  std::byte memory[8] = {};
  store_integer(dtype, value, memory);
  return load_integer(dtype, memory);
}

class Interpreter {
 public:
  Interpreter(const Graph& graph, std::span<const Tensor> arguments, const NaiveOptions& options)
      : graph_(graph), arguments_(arguments), options_(options) {}

  std::vector<Tensor> run() {
    std::size_t argument = 0;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      std::vector<Tensor>& results = values_.emplace_back();
      if (node.op == Op::parameter) {
        results.push_back(arguments_[argument++]);
        continue;
      }
      for (const TensorType& type : node.results) results.push_back(Tensor::zeros(type));
      if (node.op == Op::associative_scan) {
        associative_scan(node, results);
        continue;
      }
      if (node.op == Op::sort) {
        sort(node, results);
        continue;
      }
      if (node.op == Op::scatter || node.op == Op::select_and_scatter || node.op == Op::dynamic_update_slice) {
        whole(node, results[0]);
        continue;
      }
      for (std::int64_t i = 0; i < results[0].elements(); ++i) {
        const Dims index = unravel(i, node.type().dims);
        if (node.op == Op::arg_reduce) {
          arg_reduce(node, index, results, i);
        } else if (node.op == Op::max_exp_sum) {
          max_exp_sum(node, index, results, i);
        } else {
          put(results[0], i, element(node, index));
        }
      }
    }
    std::vector<Tensor> results;
    for (const Value& value : graph_.results()) results.push_back(values_[at(value.node)][at(value.result)]);
    return results;
  }

 private:
  // ---- elements

  [[nodiscard]] const Tensor& operand(const Node& node, std::size_t k) const {
    const Value value = node.operands[k];
    return values_[at(value.node)][at(value.result)];
  }
  static Element get(const Tensor& tensor, std::int64_t i) {
    return is_floating(tensor.type.dtype) ? Element{tensor.floats[at(i)], 0} : Element{0, tensor.integers[at(i)]};
  }
  static Element get(const Tensor& tensor, const Dims& index) { return get(tensor, ravel(index, tensor.type.dims)); }
  void put(Tensor& tensor, std::int64_t i, Element e) const {
    if (is_floating(tensor.type.dtype)) {
      tensor.floats[at(i)] = rounded(tensor.type.dtype, e.f, true);
    } else {
      tensor.integers[at(i)] = wrap(tensor.type.dtype, e.i);
    }
  }
  /// `end`: the result of an operator, which may be rounded to a narrow dtype; else a partial sum.
  [[nodiscard]] double rounded(DType dtype, double x, bool end) const {
    if (!options_.as_kernel) return x;
    x = round_to(info(dtype).accumulator, x);
    return end && options_.round_narrow ? round_to(dtype, x) : x;
  }

  // ---- combining

  [[nodiscard]] Element identity(ReduceKind kind, DType dtype) const {
    const bool f = is_floating(dtype);
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const int bits = byte_size(dtype) * 8;
    const std::int64_t top = dtype == DType::pred  ? 1
                             : dtype == DType::u64 ? -1
                             : is_unsigned_integer(dtype)
                                 ? (std::int64_t{1} << bits) - 1
                                 : static_cast<std::int64_t>((std::uint64_t{1} << (bits - 1)) - 1);
    const std::int64_t bottom = is_signed_integer(dtype) ? -top - 1 : 0;
    const double end = dtype == DType::f8e4m3 ? 448 : infinity;
    switch (kind) {
      case ReduceKind::product: return f ? Element{1, 0} : Element{0, 1};
      case ReduceKind::max: return f ? Element{-end, 0} : Element{0, bottom};
      case ReduceKind::min: return f ? Element{end, 0} : Element{0, top};
      case ReduceKind::bit_and: return {0, dtype == DType::pred ? 1 : -1};
      default: return {};
    }
  }
  [[nodiscard]] Element combine(ReduceKind kind, DType dtype, Element x, Element y) const {
    if (is_floating(dtype)) {
      if (kind == ReduceKind::sum) return {rounded(dtype, x.f + y.f, false), 0};
      if (kind == ReduceKind::product) return {rounded(dtype, x.f * y.f, false), 0};
      if (kind == ReduceKind::replace) return y;
      if (std::isnan(x.f) || std::isnan(y.f)) return {std::numeric_limits<double>::quiet_NaN(), 0};
      return {kind == ReduceKind::max ? std::max(x.f, y.f) : std::min(x.f, y.f), 0};
    }
    const std::uint64_t u = x.i, v = y.i;
    const bool less = dtype == DType::u64 ? u < v : x.i < y.i;
    switch (kind) {
      case ReduceKind::sum: return {0, wrap(dtype, static_cast<std::int64_t>(u + v))};
      case ReduceKind::product: return {0, wrap(dtype, static_cast<std::int64_t>(u * v))};
      case ReduceKind::max: return less ? y : x;
      case ReduceKind::min: return less ? x : y;
      case ReduceKind::bit_and: return {0, x.i & y.i};
      case ReduceKind::bit_or: return {0, x.i | y.i};
      case ReduceKind::bit_xor: return {0, x.i ^ y.i};
      case ReduceKind::replace: return y;
    }
    return {};
  }
  /// All terms, in the kernel's order.
  [[nodiscard]] Element combine_all(ReduceKind kind, DType dtype, std::vector<Element> terms) const {
    if (options_.order == SumOrder::backward) std::reverse(terms.begin(), terms.end());
    if (options_.order == SumOrder::pairwise) {
      while (terms.size() > 1) {
        std::vector<Element> next;
        for (std::size_t i = 0; i + 1 < terms.size(); i += 2)
          next.push_back(combine(kind, dtype, terms[i], terms[i + 1]));
        if (terms.size() % 2 == 1) next.push_back(terms.back());
        terms = std::move(next);
      }
      return terms.empty() ? identity(kind, dtype) : terms[0];
    }
    const std::size_t lanes = options_.order == SumOrder::lanes ? 32 : 1;
    std::vector<Element> sums(lanes, identity(kind, dtype));
    for (std::size_t i = 0; i < terms.size(); ++i) sums[i % lanes] = combine(kind, dtype, sums[i % lanes], terms[i]);
    Element total = sums[0];
    for (std::size_t l = 1; l < lanes; ++l) total = combine(kind, dtype, total, sums[l]);
    return total;
  }

  // ---- operators

  Element element(const Node& node, const Dims& index) const {
    switch (node.op) {
      case Op::constant: return get(tensor_from(node.as<ConstantAttributes>()), index);
      case Op::iota: {
        const auto& a = node.as<IotaAttributes>();
        const std::int64_t i = index[at(a.dimension)];
        return {round_to(a.type.dtype, static_cast<double>(i)), i};
      }
      case Op::broadcast: {
        Dims from;
        for (const std::int64_t d : node.as<BroadcastAttributes>().mapping) from.push_back(index[at(d)]);
        return get(operand(node, 0), from);
      }
      case Op::reshape: return get(operand(node, 0), ravel(index, node.type().dims));
      case Op::transpose: {
        Dims from(index.size());
        for (std::size_t d = 0; d < index.size(); ++d)
          from[at(node.as<TransposeAttributes>().permutation[d])] = index[d];
        return get(operand(node, 0), from);
      }
      case Op::slice: {
        Dims from = index;
        const auto& a = node.as<SliceAttributes>();
        for (std::size_t d = 0; d < from.size(); ++d) from[d] = a.starts[d] + index[d] * a.strides[d];
        return get(operand(node, 0), from);
      }
      case Op::reverse: {
        Dims from = index;
        for (const std::int64_t d : node.as<ReverseAttributes>().dimensions) {
          from[at(d)] = node.type().dims[at(d)] - 1 - index[at(d)];
        }
        return get(operand(node, 0), from);
      }
      case Op::concatenate: {
        Dims from = index;
        const auto d = at(node.as<ConcatenateAttributes>().dimension);
        std::size_t part = 0;
        while (from[d] >= operand(node, part).type.dims[d]) from[d] -= operand(node, part++).type.dims[d];
        return get(operand(node, part), from);
      }
      case Op::pad: return pad(node, index);
      case Op::dynamic_slice: {
        Dims from = index;
        const Dims& dims = operand(node, 0).type.dims;
        for (std::size_t d = 0; d < from.size(); ++d) from[d] += start(node, d, 1, dims[d], node.type().dims[d]);
        return get(operand(node, 0), from);
      }
      case Op::gather: return gather(node, index);
      case Op::reduce: return reduce(node, index);
      case Op::scan: return scan(node, index);
      case Op::reduce_window: return reduce_window(node, index);
      case Op::dot: return dot(node, index);
      case Op::convolution: return convolution(node, index);
      default: return elementwise(node, index);
    }
  }

  std::int64_t start(const Node& node, std::size_t d, std::size_t first, std::int64_t extent, std::int64_t size) const {
    return std::clamp<std::int64_t>(get(operand(node, first + d), 0).i, 0, extent - size);
  }

  Element pad(const Node& node, const Dims& index) const {
    const auto& a = node.as<PadAttributes>();
    Dims from(index.size());
    for (std::size_t d = 0; d < index.size(); ++d) {
      const std::int64_t place = index[d] - a.low[d];
      if (place < 0 || place % (a.interior[d] + 1) != 0) return get(operand(node, 1), 0);
      from[d] = place / (a.interior[d] + 1);
    }
    return in_range(from, operand(node, 0).type.dims) ? get(operand(node, 0), from) : get(operand(node, 1), 0);
  }

  /// Component k of the index vector at `batch`.
  std::int64_t index_component(const Node& node, Dims batch, std::int64_t vector_dim, std::int64_t k) const {
    const Tensor& indices = operand(node, 1);
    if (vector_dim < indices.type.rank()) batch.insert(batch.begin() + vector_dim, k);
    return get(indices, batch).i;
  }

  Element gather(const Node& node, const Dims& index) const {
    const auto& a = node.as<GatherAttributes>();
    const Dims& dims = operand(node, 0).type.dims;
    Dims batch, window, from(dims.size(), 0);
    for (std::size_t d = 0; d < index.size(); ++d) {
      (contains(a.offset_dims, d) ? window : batch).push_back(index[d]);
    }
    for (std::size_t k = 0; k < a.start_index_map.size(); ++k) {
      const auto d = at(a.start_index_map[k]);
      const std::int64_t i = index_component(node, batch, a.index_vector_dim, k);
      from[d] = std::clamp<std::int64_t>(i, 0, dims[d] - a.slice_sizes[d]);
    }
    for (std::size_t k = 0; k < a.operand_batching_dims.size(); ++k) {
      const std::int64_t d = a.start_indices_batching_dims[k];
      from[at(a.operand_batching_dims[k])] = batch[at(d < a.index_vector_dim ? d : d - 1)];
    }
    for (std::size_t d = 0, w = 0; d < dims.size(); ++d) {
      const std::int64_t dim = d;
      if (!contains(a.collapsed_slice_dims, dim) && !contains(a.operand_batching_dims, dim)) from[d] += window[w++];
    }
    return get(operand(node, 0), from);
  }

  /// The elements of x that lie at `index` of what is left without `dimensions`.
  static std::vector<Element> row_of(const Tensor& x, const Dims& dimensions, const Dims& index) {
    std::vector<Element> terms;
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      const Dims from = unravel(i, x.type.dims);
      Dims kept;
      for (std::size_t d = 0; d < from.size(); ++d) {
        if (!contains(dimensions, d)) kept.push_back(from[d]);
      }
      if (kept == index) terms.push_back(get(x, i));
    }
    return terms;
  }

  Element reduce(const Node& node, const Dims& index) const {
    const auto& a = node.as<ReduceAttributes>();
    const Tensor& x = operand(node, 0);
    return combine_all(a.kind, x.type.dtype, row_of(x, a.dimensions, index));
  }

  /// As kernels do it: in pairs of a maximum and a sum relative to it, one element after the other.
  void max_exp_sum(const Node& node, const Dims& index, std::vector<Tensor>& results, std::int64_t to) const {
    const DType dtype = node.type().dtype;
    const auto in = [&](double x) { return rounded(dtype, x, false); };
    double greatest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (const Element& e : row_of(operand(node, 0), node.as<MaxExpSumAttributes>().dimensions, index)) {
      const double next = std::isnan(e.f) || e.f > greatest ? e.f : greatest;
      const double before = greatest == next ? 1 : in(std::exp(in(greatest - next)));
      sum = in(in(sum * before) + in(std::exp(in(e.f - next))));
      greatest = next;
    }
    put(results[0], to, {greatest, 0});
    put(results[1], to, {sum, 0});
  }

  void arg_reduce(const Node& node, const Dims& index, std::vector<Tensor>& results, std::int64_t to) const {
    const auto& a = node.as<ArgReduceAttributes>();
    const Tensor& x = operand(node, 0);
    Element best;
    std::int64_t position = -1;
    for (std::int64_t i = 0; i < x.type.dims[at(a.dimension)]; ++i) {
      Dims from = index;
      from.insert(from.begin() + a.dimension, i);
      const Element e = get(x, from);
      const bool floats = is_floating(x.type.dtype);
      const bool nan = floats && std::isnan(e.f), best_nan = floats && std::isnan(best.f);
      const bool same = nan || best_nan ? nan && best_nan : floats ? e.f == best.f : e.i == best.i;
      bool more = floats                       ? e.f > best.f
                  : x.type.dtype == DType::u64 ? static_cast<std::uint64_t>(e.i) > static_cast<std::uint64_t>(best.i)
                                               : e.i > best.i;
      if (a.kind == ReduceKind::min) more = !more && !same;
      if (nan) more = true;
      if (best_nan) more = false;
      if (position < 0 || (same ? a.last : more)) {
        best = e;
        position = i;
      }
    }
    put(results[0], to, best);
    put(results[1], to, {0, position});
  }

  /// By counting: an element's rank is how many stand before it.
  void sort(const Node& node, std::vector<Tensor>& results) const {
    const auto& a = node.as<SortAttributes>();
    const auto d = at(a.dimension);
    const Tensor& keys = operand(node, 0);
    const auto less = [&](const Element& x, const Element& y) {
      if (is_floating(keys.type.dtype)) return std::isnan(y.f) ? !std::isnan(x.f) : x.f < y.f;
      if (keys.type.dtype == DType::u64) return static_cast<std::uint64_t>(x.i) < static_cast<std::uint64_t>(y.i);
      return x.i < y.i;
    };
    for (std::int64_t i = 0; i < keys.elements(); ++i) {
      const Dims index = unravel(i, keys.type.dims);
      const Element own = get(keys, index);
      Dims other = index, to = index;
      std::int64_t rank = 0;
      for (other[d] = 0; other[d] < keys.type.dims[d]; ++other[d]) {
        const Element e = get(keys, other);
        const bool before = a.descending ? less(own, e) : less(e, own),
                   after = a.descending ? less(e, own) : less(own, e);
        if (before || (!after && other[d] < index[d])) ++rank;
      }
      if (rank >= a.count) continue;
      to[d] = rank;
      for (std::size_t k = 0; k < results.size(); ++k)
        put(results[k], ravel(to, node.type().dims), get(operand(node, k), index));
    }
  }

  /// Element by element, line by line; the combiner is interpreted like any graph.
  void associative_scan(const Node& node, std::vector<Tensor>& results) const {
    const auto& a = node.as<AssociativeScanAttributes>();
    const auto d = at(a.dimension);
    const Dims& dims = node.type().dims;
    for (std::int64_t i = 0; i < element_count(dims); ++i) {
      // Ascending places of a line, or descending ones, so that the one before is done.
      const std::int64_t linear = a.reverse ? element_count(dims) - 1 - i : i;
      const Dims index = unravel(linear, dims);
      Dims before = index;
      before[d] += a.reverse ? 1 : -1;
      if (!in_range(before, dims)) {
        for (std::size_t k = 0; k < results.size(); ++k) put(results[k], linear, get(operand(node, k), index));
        continue;
      }
      std::vector<Tensor> scalars;
      for (const bool left : {true, false}) {
        for (std::size_t k = 0; k < results.size(); ++k) {
          Tensor& scalar = scalars.emplace_back(Tensor::zeros({node.type(k).dtype, {}}));
          put(scalar, 0, left ? get(results[k], before) : get(operand(node, k), index));
        }
      }
      const std::vector<Tensor> combined = Interpreter(*node.regions[0], scalars, options_).run();
      for (std::size_t k = 0; k < results.size(); ++k) put(results[k], linear, get(combined[k], 0));
    }
  }

  Element scan(const Node& node, const Dims& index) const {
    const auto& a = node.as<ScanAttributes>();
    const Tensor& x = operand(node, 0);
    const auto d = at(a.dimension);
    std::vector<Element> terms;
    for (std::int64_t i = 0; i < x.type.dims[d]; ++i) {
      const bool before = a.reverse ? i > index[d] : i < index[d];
      if (!before && !(i == index[d] && !a.exclusive)) continue;
      Dims from = index;
      from[d] = i;
      terms.push_back(get(x, from));
    }
    return combine_all(a.kind, x.type.dtype, std::move(terms));
  }

  Element reduce_window(const Node& node, const Dims& index) const {
    const auto& a = node.as<ReduceWindowAttributes>();
    const Tensor& x = operand(node, 0);
    std::vector<Element> terms;
    for (std::int64_t w = 0; w < element_count(a.sizes); ++w) {
      const Dims in_window = unravel(w, a.sizes);
      Dims from(index.size());
      bool hit = true;
      for (std::size_t d = 0; d < index.size(); ++d) {
        const std::int64_t place = index[d] * a.strides[d] + in_window[d] * a.window_dilation[d] - a.low[d];
        hit = hit && place >= 0 && place % a.base_dilation[d] == 0;
        from[d] = place / a.base_dilation[d];
      }
      if (hit && in_range(from, x.type.dims)) terms.push_back(get(x, from));
    }
    return combine_all(a.kind, x.type.dtype, std::move(terms));
  }

  /// Σ of products in the result's accumulator.
  Element sum_of_products(DType dtype, const std::vector<std::pair<Element, Element>>& pairs) const {
    std::vector<Element> terms;
    for (const auto& [x, y] : pairs) {
      const auto product = static_cast<std::uint64_t>(x.i) * static_cast<std::uint64_t>(y.i);
      terms.push_back({rounded(dtype, x.f * y.f, false), static_cast<std::int64_t>(product)});
    }
    return combine_all(ReduceKind::sum, dtype, std::move(terms));
  }

  Element dot(const Node& node, const Dims& index) const {
    const auto& a = node.as<DotAttributes>();
    const Tensor &x = operand(node, 0), &y = operand(node, 1);
    Dims contracted, left(x.type.dims.size()), right(y.type.dims.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < a.lhs_batch.size(); ++i) {
      left[at(a.lhs_batch[i])] = right[at(a.rhs_batch[i])] = index[next++];
    }
    const auto place_free = [&](Dims& to, const Dims& batch, const Dims& contracting) {
      for (std::size_t d = 0; d < to.size(); ++d) {
        const std::int64_t dim = d;
        if (!contains(batch, dim) && !contains(contracting, dim)) to[d] = index[next++];
      }
    };
    place_free(left, a.lhs_batch, a.lhs_contracting);
    place_free(right, a.rhs_batch, a.rhs_contracting);
    for (const std::int64_t d : a.lhs_contracting) contracted.push_back(x.type.dims[at(d)]);
    std::vector<std::pair<Element, Element>> pairs;
    for (std::int64_t i = 0; i < element_count(contracted); ++i) {
      const Dims k = unravel(i, contracted);
      for (std::size_t j = 0; j < k.size(); ++j) {
        left[at(a.lhs_contracting[j])] = k[j];
        right[at(a.rhs_contracting[j])] = k[j];
      }
      pairs.emplace_back(get(x, left), get(y, right));
    }
    return sum_of_products(a.result, pairs);
  }

  Element convolution(const Node& node, const Dims& index) const {
    const auto& a = node.as<ConvolutionAttributes>();
    const Tensor &x = operand(node, 0), &w = operand(node, 1);
    const std::int64_t output = index[at(a.output_feature)];
    const std::int64_t outputs = w.type.dims[at(a.kernel_output_feature)];
    const std::int64_t inputs = w.type.dims[at(a.kernel_input_feature)];
    const std::int64_t batch_per_group = x.type.dims[at(a.input_batch)] / a.batch_groups;
    std::vector<std::pair<Element, Element>> pairs;
    for (std::int64_t i = 0; i < w.elements(); ++i) {
      const Dims k = unravel(i, w.type.dims);
      if (k[at(a.kernel_output_feature)] != output) continue;
      Dims from(x.type.dims.size());
      const std::int64_t feature_group = output / (outputs / a.feature_groups);
      const std::int64_t batch_group = output / (outputs / a.batch_groups);
      from[at(a.input_feature)] = feature_group * inputs + k[at(a.kernel_input_feature)];
      from[at(a.input_batch)] = batch_group * batch_per_group + index[at(a.output_batch)];
      bool hit = true;
      for (std::size_t s = 0; s < a.input_spatial.size(); ++s) {
        const std::int64_t extent = w.type.dims[at(a.kernel_spatial[s])];
        std::int64_t tap = k[at(a.kernel_spatial[s])];
        if (!a.window_reversal.empty() && a.window_reversal[s]) tap = extent - 1 - tap;
        // The tap's value sits at the reversed place.
        const std::int64_t place =
            index[at(a.output_spatial[s])] * a.strides[s] + tap * a.kernel_dilation[s] - a.low[s];
        hit = hit && place >= 0 && place % a.input_dilation[s] == 0;
        from[at(a.input_spatial[s])] = place / a.input_dilation[s];
      }
      if (hit && in_range(from, x.type.dims)) pairs.emplace_back(get(x, from), get(w, k));
    }
    return sum_of_products(a.result, pairs);
  }

  // ---- operators that write where they please

  void whole(const Node& node, Tensor& result) const {
    const Tensor& x = operand(node, 0);
    if (node.op == Op::select_and_scatter) return select_and_scatter(node, result);
    result = x;
    if (node.op == Op::scatter) return scatter(node, result);
    const Tensor& update = operand(node, 1);
    for (std::int64_t i = 0; i < update.elements(); ++i) {
      Dims to = unravel(i, update.type.dims);
      for (std::size_t d = 0; d < to.size(); ++d) to[d] += start(node, d, 2, x.type.dims[d], update.type.dims[d]);
      put(result, ravel(to, x.type.dims), get(update, i));
    }
  }

  void scatter(const Node& node, Tensor& result) const {
    const auto& a = node.as<ScatterAttributes>();
    const Tensor& updates = operand(node, 2);
    const Dims& dims = result.type.dims;
    for (std::int64_t i = 0; i < updates.elements(); ++i) {
      const Dims index = unravel(i, updates.type.dims);
      Dims batch, window, to(dims.size(), 0), extents(dims.size(), 1);
      for (std::size_t d = 0; d < index.size(); ++d) {
        (contains(a.update_window_dims, d) ? window : batch).push_back(index[d]);
      }
      for (std::size_t k = 0; k < a.scatter_dims_to_operand_dims.size(); ++k) {
        to[at(a.scatter_dims_to_operand_dims[k])] = index_component(node, batch, a.index_vector_dim, k);
      }
      for (std::size_t k = 0; k < a.input_batching_dims.size(); ++k) {
        const std::int64_t d = a.scatter_indices_batching_dims[k];
        to[at(a.input_batching_dims[k])] = batch[at(d < a.index_vector_dim ? d : d - 1)];
      }
      const Dims first = to;
      for (std::size_t d = 0, w = 0; d < dims.size(); ++d) {
        const std::int64_t dim = d;
        if (contains(a.inserted_window_dims, dim) || contains(a.input_batching_dims, dim)) continue;
        extents[d] = updates.type.dims[at(a.update_window_dims[w])];
        to[d] += window[w++];
      }
      Dims last = first;
      for (std::size_t d = 0; d < dims.size(); ++d) last[d] += extents[d] - 1;
      if (!in_range(first, dims) || !in_range(last, dims)) continue;
      const std::int64_t target = ravel(to, dims);
      put(result, target, combine(a.combiner, result.type.dtype, get(result, target), get(updates, i)));
    }
  }

  void select_and_scatter(const Node& node, Tensor& result) const {
    const auto& a = node.as<SelectAndScatterAttributes>();
    const Tensor &x = operand(node, 0), &source = operand(node, 1);
    for (std::int64_t s = 0; s < source.elements(); ++s) {
      const Dims out = unravel(s, source.type.dims);
      std::int64_t chosen = -1;
      for (std::int64_t w = 0; w < element_count(a.sizes); ++w) {
        const Dims in_window = unravel(w, a.sizes);
        Dims from(out.size());
        for (std::size_t d = 0; d < out.size(); ++d) from[d] = out[d] * a.strides[d] + in_window[d] - a.low[d];
        if (!in_range(from, x.type.dims)) continue;
        const std::int64_t i = ravel(from, x.type.dims);
        const bool floats = is_floating(x.type.dtype);
        const auto beats = [&](const Element& e, const Element& best) {
          if (floats && (std::isnan(e.f) || std::isnan(best.f))) return std::isnan(e.f) && !std::isnan(best.f);
          if (a.select == ReduceKind::max) return floats ? e.f > best.f : e.i > best.i;
          return floats ? e.f < best.f : e.i < best.i;
        };
        if (chosen < 0 || beats(get(x, i), get(x, chosen))) chosen = i;
      }
      if (chosen < 0) continue;
      put(result, chosen, combine(ReduceKind::sum, x.type.dtype, get(result, chosen), get(source, s)));
    }
  }

  // ---- element-wise

  Element elementwise(const Node& node, const Dims& index) const {
    const std::int64_t i = ravel(index, node.type().dims);
    const Element x = get(operand(node, 0), i);
    const Element y = node.operands.size() > 1 ? get(operand(node, 1), i) : Element{};
    const Element z = node.operands.size() > 2 ? get(operand(node, 2), i) : Element{};
    const DType dtype = operand(node, node.op == Op::select ? 1 : 0).type.dtype;
    switch (node.op) {
      case Op::select: return x.i != 0 ? y : z;
      case Op::compare: return {0, compare(node.as<CompareAttributes>().direction, dtype, x, y)};
      case Op::is_finite: return {0, std::isfinite(x.f)};
      case Op::is_nan: return {0, std::isnan(x.f)};
      case Op::is_inf: return {0, std::isinf(x.f)};
      case Op::convert: return convert(dtype, node.type().dtype, x);
      case Op::bitcast_convert: {
        std::byte memory[8] = {};
        is_floating(dtype) ? store_element(dtype, x.f, memory) : store_integer(dtype, x.i, memory);
        return {is_floating(node.type().dtype) ? load_element(node.type().dtype, memory) : 0,
                is_floating(node.type().dtype) ? 0 : load_integer(node.type().dtype, memory)};
      }
      case Op::clamp: {
        const Element raised = combine(ReduceKind::max, dtype, y, x);
        return combine(ReduceKind::min, dtype, raised, z);
      }
      case Op::maximum: return combine(ReduceKind::max, dtype, x, y);
      case Op::minimum: return combine(ReduceKind::min, dtype, x, y);
      default: break;
    }
    return is_floating(dtype) ? Element{floating(node.op, dtype, x.f, y.f), 0}
                              : Element{0, integer(node.op, dtype, x.i, y.i)};
  }

  /// A function that has no second implementation here: the evaluator's, of one element.
  static double by_reference(Op op, DType dtype, double x, double y) {
    Builder b;
    std::vector<Value> operands;
    std::vector<Tensor> arguments;
    for (const double value : {x, y}) {
      if (std::ssize(operands) == info(op).max_operands) break;
      operands.push_back(b.parameter(dtype, {}));
      arguments.push_back(Tensor::zeros({dtype, {}}));
      arguments.back().floats[0] = value;
    }
    const Value result = b.add(op, std::move(operands));
    const Result<Graph> graph = b.finish({result});
    if (!graph) throw std::logic_error(fmt::format("naive_evaluate: {}", graph.error().message));
    const Result<std::vector<Tensor>> results = evaluate(*graph, arguments);
    if (!results) throw std::logic_error(fmt::format("naive_evaluate: {}", results.error().message));
    return results->front().floats[0];
  }

  static std::int64_t compare(Comparison direction, DType dtype, Element x, Element y) {
    const bool floats = is_floating(dtype);
    const bool less = floats                ? x.f < y.f
                      : dtype == DType::u64 ? static_cast<std::uint64_t>(x.i) < static_cast<std::uint64_t>(y.i)
                                            : x.i < y.i;
    const bool equal = floats ? x.f == y.f : x.i == y.i;
    const bool ordered = !floats || !(std::isnan(x.f) || std::isnan(y.f));
    switch (direction) {
      case Comparison::eq: return equal;
      case Comparison::ne: return !equal;
      case Comparison::lt: return less;
      case Comparison::le: return less || equal;
      case Comparison::gt: return ordered && !less && !equal;
      case Comparison::ge: return ordered && !less;
    }
    return 0;
  }

  static Element convert(DType from, DType to, Element x) {
    if (is_floating(from)) {
      if (is_floating(to)) return x;
      if (to == DType::pred) return {0, x.f != 0};
      std::byte memory[8] = {};
      store_element(to, x.f, memory);
      return {0, load_integer(to, memory)};
    }
    const double value =
        from == DType::u64 ? static_cast<double>(static_cast<std::uint64_t>(x.i)) : static_cast<double>(x.i);
    return {value, to == DType::pred ? x.i != 0 : x.i};
  }

  static double floating(Op op, DType dtype, double x, double y) {
    switch (op) {
      case Op::negate: return -x;
      case Op::abs: return std::fabs(x);
      case Op::sign: return x == 0 || std::isnan(x) ? x : std::copysign(1.0, x);
      case Op::floor: return std::floor(x);
      case Op::ceil: return std::ceil(x);
      case Op::round_even: return std::fabs(x) < 4503599627370496.0 ? x - std::remainder(x, 1.0) : x;
      case Op::round_away: return std::copysign(std::floor(std::fabs(x) + 0.5), x);
      case Op::exp: return std::exp(x);
      case Op::expm1: return std::expm1(x);
      case Op::log: return std::log(x);
      case Op::log1p: return std::log1p(x);
      case Op::sqrt: return std::sqrt(x);
      case Op::rsqrt: return 1 / std::sqrt(x);
      case Op::cbrt: return std::cbrt(x);
      case Op::logistic: return 1 / (1 + std::exp(-x));
      case Op::erf: return std::erf(x);
      case Op::erfc: return std::erfc(x);
      case Op::sin: return std::sin(x);
      case Op::cos: return std::cos(x);
      case Op::tan: return std::tan(x);
      case Op::asin: return std::asin(x);
      case Op::acos: return std::acos(x);
      case Op::atan: return std::atan(x);
      case Op::sinh: return std::sinh(x);
      case Op::cosh: return std::cosh(x);
      case Op::tanh: return std::tanh(x);
      case Op::asinh: return std::asinh(x);
      case Op::acosh: return std::acosh(x);
      case Op::atanh: return std::atanh(x);
      case Op::add: return x + y;
      case Op::subtract: return x - y;
      case Op::multiply: return x * y;
      case Op::divide: return x / y;
      case Op::remainder: return std::fmod(x, y);
      case Op::power: return std::pow(x, y);
      case Op::atan2: return std::atan2(x, y);
      default: return by_reference(op, dtype, x, y);
    }
  }

  /// In 128 bits, wrapped at the end.
  static std::int64_t integer(Op op, DType dtype, std::int64_t x, std::int64_t y) {
    __extension__ using Wide = __int128;
    const bool u64 = dtype == DType::u64;
    const Wide a = u64 ? Wide{static_cast<std::uint64_t>(x)} : Wide{x};
    const Wide b = u64 ? Wide{static_cast<std::uint64_t>(y)} : Wide{y};
    const int width = byte_size(dtype) * 8;
    const std::uint64_t mask = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
    const std::uint64_t bits = static_cast<std::uint64_t>(x) & mask, by = static_cast<std::uint64_t>(y) & mask;
    const auto low = [](Wide value) { return static_cast<std::int64_t>(value); };
    switch (op) {
      case Op::negate: return low(-a);
      case Op::abs: return low(a < 0 ? -a : a);
      case Op::sign: return (a > 0) - (a < 0);
      case Op::bit_not: return dtype == DType::pred ? !x : ~x;
      case Op::popcount: return std::popcount(bits);
      case Op::add: return low(a + b);
      case Op::subtract: return low(a - b);
      case Op::multiply: return static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(y);
      case Op::divide: return b == 0 ? -1 : low(a / b);
      case Op::remainder: return b == 0 ? x : low(a % b);
      case Op::power: {
        if (b < 0) return a == 1 ? 1 : a == -1 ? (y % 2 == 0 ? 1 : -1) : 0;
        std::uint64_t product = 1;
        for (Wide k = 0; k < b; ++k) product *= static_cast<std::uint64_t>(x);
        return product;
      }
      case Op::bit_and: return x & y;
      case Op::bit_or: return x | y;
      case Op::bit_xor: return x ^ y;
      case Op::shift_left: return by >= static_cast<std::uint64_t>(width) ? 0 : static_cast<std::int64_t>(bits << by);
      case Op::shift_right_logical:
        return by >= static_cast<std::uint64_t>(width) ? 0 : static_cast<std::int64_t>(bits >> by);
      case Op::shift_right_arithmetic: {
        const bool negative = (bits >> (width - 1)) != 0;
        const std::int64_t extended = negative ? bits | ~mask : bits;
        return extended >> std::min<std::uint64_t>(by, 63);
      }
      default: throw std::logic_error(fmt::format("naive_evaluate: no {} of integers", to_string(op)));
    }
  }

  const Graph& graph_;
  std::span<const Tensor> arguments_;
  const NaiveOptions options_;
  std::vector<std::vector<Tensor>> values_;
};

}  // namespace

std::vector<Tensor> naive_evaluate(const Graph& graph, std::span<const Tensor> arguments, const NaiveOptions& options) {
  return Interpreter(graph, arguments, options).run();
}

}  // namespace stitch::graph::test
