#include "profiler/verify/input_source.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "base/random.h"
#include "graph/literal.h"
#include "profiler/verify/element_ranges.h"

namespace stitch::profiler {
namespace {

using graph::DType;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;

/// Elements that are made between two looks at whether they are still wanted.
constexpr std::int64_t elements_between_looks = std::int64_t{1} << 20;

constexpr std::array<std::string_view, 6> distribution_names = {"mixed",    "small",         "large",
                                                                "denormal", "constant rows", "offset"};

/// Sum of four uniforms, centred and scaled to unit variance: near enough to a normal distribution, and cheap.
inline double roughly_normal(std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t bits = mix(seed, index);
  const std::uint64_t pairs = (bits & 0x0000FFFF0000FFFF) + (bits >> 16 & 0x0000FFFF0000FFFF);
  const std::uint64_t sum = (pairs & 0xFFFFFFFF) + (pairs >> 32);
  return (static_cast<std::int64_t>(sum) * 0x1.0p-16 - 2.0) * 1.7320508075688772;
}

/// Finite numbers only; to the nearest, ties to even, by way of f32.
std::uint16_t bf16_of(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

std::uint16_t f16_of(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  constexpr std::uint32_t smallest_normal = 113U << 23, infinity = 0x7C00;
  if (magnitude < smallest_normal) {
    // The unit of 0.5f's last place is f16's smallest denormal: the sum is rounded as wanted.
    const float sum = std::bit_cast<float>(magnitude) + 0.5F;
    return sign | (std::bit_cast<std::uint32_t>(sum) - std::bit_cast<std::uint32_t>(0.5F));
  }
  const std::uint32_t rounded = (magnitude + 0xFFF + (magnitude >> 13 & 1) - (112U << 23)) >> 13;
  return sign | std::min(rounded, infinity);
}

/// Rounds `values` to the dtype and writes them as they lie in memory.
void encode(DType dtype, std::span<const double> values, std::byte* to) {
  const auto each = [&](auto&& bits_of) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto bits = bits_of(values[i]);
      std::memcpy(to + i * sizeof(bits), &bits, sizeof(bits));
    }
  };
  switch (dtype) {
    case DType::f64: return each([](double value) { return value; });
    case DType::f32: return each([](double value) { return static_cast<float>(value); });
    case DType::bf16: return each(bf16_of);
    case DType::f16: return each(f16_of);
    default: {
      const std::size_t size = graph::byte_size(dtype);
      for (std::size_t i = 0; i < values.size(); ++i) graph::store_element(dtype, values[i], to + i * size);
    }
  }
}

/// What encode leaves of `values`.
void round(DType dtype, std::span<double> values) {
  switch (dtype) {
    case DType::f64: return;
    case DType::f32:
      for (double& value : values) value = static_cast<float>(value);
      return;
    case DType::bf16:
      for (double& value : values) {
        value = std::bit_cast<float>(static_cast<std::uint32_t>(bf16_of(value)) << 16);
      }
      return;
    default: {
      std::array<std::byte, 8> element{};
      for (double& value : values) {
        encode(dtype, std::span(&value, 1), element.data());
        value = graph::load_element(dtype, element.data());
      }
    }
  }
}

/// The operands that a value's elements are made of, by position: not what selects or places them.
std::size_t data_operands(const Node& node) {
  switch (node.op) {
    case Op::gather:
    case Op::dynamic_slice: return 1;
    case Op::dynamic_update_slice: return 2;
    default: return node.operands.size();
  }
}

/// Narrows the range of every integer parameter that `value` is computed from.
class Limiter {
 public:
  Limiter(const Graph& graph, std::vector<std::optional<InputSource::Range>>& ranges)
      : graph_(graph), ranges_(ranges) {}

  void limit(graph::Value value, InputSource::Range range) {
    std::vector<bool> seen(graph_.size(), false);
    walk(value, range, seen);
  }

  /// Index vectors that are put together from one array per component, each with its own limit; else the smallest.
  void limit_vectors(graph::Value indices, std::int64_t along, const std::vector<std::int64_t>& last) {
    if (last.empty()) return;
    const Node& node = graph_.node(indices.node);
    std::int64_t parts = 0;
    if (node.op == Op::concatenate && node.as<graph::ConcatenateAttributes>().dimension == along) {
      for (const graph::Value part : node.operands) {
        const auto width = graph_.type(part).dims[along];
        const auto begin = last.begin() + std::min<std::ptrdiff_t>(parts, std::ssize(last) - 1);
        const auto end = last.begin() + std::min<std::ptrdiff_t>(parts + width, std::ssize(last));
        if (begin < end) limit(part, {0, *std::min_element(begin, end)});
        parts += width;
      }
      return;
    }
    limit(indices, {0, *std::min_element(last.begin(), last.end())});
  }

 private:
  void walk(graph::Value value, InputSource::Range range, std::vector<bool>& seen) {
    const Node& node = graph_.node(value.node);
    if (seen[value.node] || !graph::is_integer(node.type(value.result).dtype)) return;
    seen[value.node] = true;
    if (node.op == Op::parameter) return narrow(value.node, range);
    for (std::size_t o = 0; o < data_operands(node); ++o) walk(node.operands[o], range, seen);
  }

  void narrow(NodeId parameter, InputSource::Range range) {
    const auto position = std::find(graph_.parameters().begin(), graph_.parameters().end(), parameter);
    auto& known = ranges_[position - graph_.parameters().begin()];
    if (known) {
      range.low = std::max(range.low, known->low);
      range.high = std::max(range.low, std::min(range.high, known->high));
    }
    known = range;
  }

  const Graph& graph_;
  std::vector<std::optional<InputSource::Range>>& ranges_;
};

/// Per component of an index vector the largest start that keeps every slice inside.
std::vector<std::int64_t> last_starts(const graph::Dims& dims, const graph::Dims& indexed, const graph::Dims& sizes) {
  std::vector<std::int64_t> last;
  for (const std::int64_t d : indexed) {
    const std::size_t at = d;
    last.push_back(std::max<std::int64_t>(0, dims[at] - (sizes.empty() ? 1 : sizes[at])));
  }
  return last;
}

}  // namespace

std::string_view to_string(Distribution distribution) {
  return distribution_names[static_cast<std::size_t>(distribution)];
}

std::vector<Distribution> default_distributions() {
  return {Distribution::mixed,    Distribution::small,         Distribution::large,
          Distribution::denormal, Distribution::constant_rows, Distribution::offset};
}

InputSource::InputSource(graph::TensorType type, Distribution distribution, std::uint64_t seed,
                         std::optional<Range> range)
    : type_(std::move(type)), distribution_(distribution), seed_(seed), range_(range) {
  if (!range_ || !graph::is_integer(type_.dtype) || graph::byte_size(type_.dtype) == 8) return;
  const int bits = graph::byte_size(type_.dtype) * 8;
  const bool is_unsigned = graph::is_unsigned_integer(type_.dtype);
  const std::int64_t largest = (std::int64_t{1} << (is_unsigned ? bits : bits - 1)) - 1;
  range_->low = std::clamp(range_->low, is_unsigned ? 0 : -largest - 1, largest);
  range_->high = std::clamp(range_->high, range_->low, largest);
}

void InputSource::floats(std::int64_t first, std::span<double> values) const {
  const auto each = [&](auto&& value) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(first + i);
  };
  const std::uint64_t seed = seed_;
  switch (distribution_) {
    case Distribution::mixed: return each([seed](auto i) { return roughly_normal(seed, i); });
    case Distribution::small: return each([seed](auto i) { return roughly_normal(seed, i) * 1e-3; });
    case Distribution::large: {
      const double scale = type_.dtype == DType::f8e4m3 ? 50.0 : 100.0;
      return each([seed, scale](auto i) { return roughly_normal(seed, i) * scale; });
    }
    case Distribution::denormal: {
      const double tiny = graph::smallest_normal(type_.dtype) * 0.25;
      return each([seed, tiny](auto i) {
        return roughly_normal(seed, i) * (random_at(seed ^ 0x5bd1e995, i) % 4 == 0 ? tiny : 1.0);
      });
    }
    case Distribution::constant_rows: {
      const auto row =
          static_cast<std::uint64_t>(std::max<std::int64_t>(1, type_.dims.empty() ? 1 : type_.dims.back()));
      std::uint64_t end = 0;
      double value = 0;
      return each([&](auto i) {
        if (i >= end) end = (i / row + 1) * row, value = roughly_normal(seed, i / row);
        return value;
      });
    }
    case Distribution::offset: {
      const double centre = type_.dtype == DType::f32 || type_.dtype == DType::f64 ? 100.0 : 4.0;
      return each([seed, centre](auto i) { return centre + 0.1 * roughly_normal(seed, i); });
    }
  }
}

void InputSource::integers(std::int64_t first, std::span<std::int64_t> values) const {
  const auto each = [&](auto&& value) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(random_at(seed_, first + i));
  };
  if (type_.dtype == DType::pred) return each([](auto bits) { return static_cast<std::int64_t>(bits >> 63); });
  if (range_) {
    const auto span = static_cast<std::uint64_t>(range_->high - range_->low) + 1;
    return each(
        [this, span](auto bits) { return range_->low + static_cast<std::int64_t>(span == 0 ? bits : bits % span); });
  }
  if (!graph::is_unsigned_integer(type_.dtype)) {
    return each([](auto bits) { return static_cast<std::int64_t>(bits % 17) - 8; });
  }
  // Random keys are unsigned: they take all their bits.
  const int unused = 64 - graph::byte_size(type_.dtype) * 8;
  if (distribution_ == Distribution::large || distribution_ == Distribution::mixed) {
    return each([unused](auto bits) { return static_cast<std::int64_t>(bits >> unused); });
  }
  each([](auto bits) { return static_cast<std::int64_t>(bits % 17); });
}

void InputSource::rounded_floats(std::int64_t first, std::span<double> values) const {
  floats(first, values);
  // The reference must see what the dtype holds, as the kernel does.
  round(type_.dtype, values);
}

graph::Input InputSource::input(const std::stop_token& stop) const {
  return [*this, stop](graph::Tensor& part) -> Status {
    if (part.box.empty()) return {};
    const graph::Dims strides = graph::row_major_strides(part.type.dims);
    const auto [runs, length] = dense_runs(part.box, part.type.dims);
    graph::Dims index = runs.start;
    std::size_t at = 0;
    do {
      std::int64_t flat = 0;
      for (std::size_t d = 0; d < index.size(); ++d) flat += index[d] * strides[d];
      for (std::int64_t done = 0; done < length; done += elements_between_looks) {
        if (stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped while inputs were made");
        const std::size_t count = std::min(elements_between_looks, length - done);
        if (graph::is_floating(part.type.dtype)) {
          rounded_floats(flat + done, std::span(part.floats).subspan(at, count));
        } else {
          integers(flat + done, std::span(part.integers).subspan(at, count));
        }
        at += count;
      }
    } while (graph::next_index(runs, index));
    return {};
  };
}

void InputSource::operator()(std::uint64_t offset, std::span<std::byte> bytes) const {
  // A page at a time; short chunks stay in the first-level cache.
  constexpr std::size_t chunk = 512;
  const std::size_t size = graph::byte_size(type_.dtype);
  std::array<double, chunk> floating;
  std::array<std::int64_t, chunk> whole;
  for (std::size_t done = 0; done < bytes.size(); done += chunk * size) {
    const std::size_t count = std::min(chunk, (bytes.size() - done) / size);
    const std::int64_t first = (offset + done) / size;
    std::byte* to = &bytes[done];
    if (!graph::is_floating(type_.dtype)) {
      integers(first, std::span(whole).first(count));
      for (std::size_t i = 0; i < count; ++i) graph::store_integer(type_.dtype, whole[i], to + i * size);
      continue;
    }
    floats(first, std::span(floating).first(count));
    encode(type_.dtype, std::span(floating).first(count), to);
  }
}

std::vector<std::optional<InputSource::Range>> integer_ranges(const Graph& graph) {
  std::vector<std::optional<InputSource::Range>> ranges(graph.parameters().size());
  Limiter limiter(graph, ranges);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const auto dims = [&](std::size_t operand) -> const graph::Dims& {
      return graph.type(node.operands[operand]).dims;
    };
    if (node.op == Op::gather) {
      const auto& gather = node.as<graph::GatherAttributes>();
      limiter.limit_vectors(node.operands[1], gather.index_vector_dim,
                            last_starts(dims(0), gather.start_index_map, gather.slice_sizes));
    } else if (node.op == Op::scatter) {
      const auto& scatter = node.as<graph::ScatterAttributes>();
      limiter.limit_vectors(node.operands[1], scatter.index_vector_dim,
                            last_starts(dims(0), scatter.scatter_dims_to_operand_dims, {}));
    } else if (node.op == Op::dynamic_slice || node.op == Op::dynamic_update_slice) {
      const std::size_t first = node.op == Op::dynamic_slice ? 1 : 2;
      const graph::Dims& sizes = node.op == Op::dynamic_slice ? node.type().dims : dims(1);
      for (std::size_t o = first; o < node.operands.size(); ++o) {
        const std::size_t d = o - first;
        limiter.limit(node.operands[o], {0, dims(0)[d] - sizes[d]});
      }
    } else if ((node.op == Op::divide || node.op == Op::remainder) && graph::is_integer(node.type().dtype)) {
      limiter.limit(node.operands[1], {1, 7});
    }
  }
  return ranges;
}

std::vector<std::optional<InputSource::Range>> ranges_drawn(const Graph& graph, Distribution distribution) {
  std::vector<std::optional<InputSource::Range>> ranges = integer_ranges(graph);
  if (distribution == Distribution::mixed) return ranges;
  for (std::optional<InputSource::Range>& range : ranges) {
    if (!range || range->low != 0) continue;  // no index but a divisor
    const std::int64_t beyond = range->high / 8 + 1;
    range->low -= beyond;
    range->high += beyond;
  }
  return ranges;
}

}  // namespace stitch::profiler
