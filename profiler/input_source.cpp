#include "profiler/input_source.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/random.h"

namespace stitch::profiler {
namespace {

using graph::DType;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;

constexpr std::array<std::string_view, 6> distribution_names = {"mixed",    "small",         "large",
                                                                "denormal", "constant rows", "offset"};

/// Sum of four uniforms, centred and scaled to unit variance: near enough to a normal distribution, and cheap.
double roughly_normal(std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t bits = random_at(seed, index);
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<double>((bits >> (16 * i)) & 0xFFFF) / 65536.0;
  return (sum - 2.0) * 1.7320508075688772;
}

/// Lowers the limit of every integer parameter that `value` is computed from.
void limit(const Graph& graph, graph::Value value, InputSource::Range range, std::vector<bool>& seen,
           std::vector<std::optional<InputSource::Range>>& ranges) {
  const Node& node = graph.node(value.node);
  const DType dtype = node.type(value.result).dtype;
  if (seen[static_cast<std::size_t>(value.node)] || !graph::is_integer(dtype)) return;
  seen[static_cast<std::size_t>(value.node)] = true;
  if (node.op == Op::parameter) {
    const auto position = std::find(graph.parameters().begin(), graph.parameters().end(), value.node);
    auto& known = ranges[static_cast<std::size_t>(position - graph.parameters().begin())];
    if (known) {
      range.low = std::max(range.low, known->low);
      range.high = std::max(range.low, std::min(range.high, known->high));
    }
    known = range;
    return;
  }
  for (const graph::Value operand : node.operands) limit(graph, operand, range, seen, ranges);
}

/// Largest start index that keeps every slice inside.
std::int64_t last_start(const graph::Dims& dims, const graph::Dims& indexed, const graph::Dims& sizes) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t d : indexed) {
    const std::int64_t size = sizes.empty() ? 1 : sizes[static_cast<std::size_t>(d)];
    least = std::min(least, dims[static_cast<std::size_t>(d)] - size);
  }
  return indexed.empty() ? 0 : std::max<std::int64_t>(0, least);
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
    : type_(std::move(type)), distribution_(distribution), seed_(seed), range_(range) {}

double InputSource::floating(std::int64_t index) const {
  const auto i = static_cast<std::uint64_t>(index);
  const double normal = roughly_normal(seed_, i);
  switch (distribution_) {
    case Distribution::mixed: return normal;
    case Distribution::small: return normal * 1e-3;
    case Distribution::large: return normal * (type_.dtype == DType::f8e4m3 ? 50.0 : 100.0);
    case Distribution::denormal:
      return random_at(seed_ ^ 0x5bd1e995, i) % 4 == 0 ? normal * graph::smallest_normal(type_.dtype) * 0.25 : normal;
    case Distribution::constant_rows: {
      const std::int64_t row = type_.dims.empty() ? 1 : std::max<std::int64_t>(1, type_.dims.back());
      return roughly_normal(seed_, static_cast<std::uint64_t>(index / row));
    }
    case Distribution::offset:
      return (type_.dtype == DType::f32 || type_.dtype == DType::f64 ? 100.0 : 4.0) + 0.1 * normal;
  }
  return normal;
}

std::int64_t InputSource::integer(std::int64_t index) const {
  const std::uint64_t bits = random_at(seed_, static_cast<std::uint64_t>(index));
  if (type_.dtype == DType::pred) return static_cast<std::int64_t>(bits >> 63);
  if (range_) {
    const auto span = static_cast<std::uint64_t>(range_->high - range_->low) + 1;
    return range_->low + static_cast<std::int64_t>(bits % span);
  }
  if (graph::is_unsigned_integer(type_.dtype)) {
    // Random keys are unsigned: they take all their bits.
    const int width = graph::byte_size(type_.dtype) * 8;
    if (distribution_ == Distribution::large || distribution_ == Distribution::mixed) {
      return static_cast<std::int64_t>(width == 64 ? bits : bits >> (64 - width));
    }
    return static_cast<std::int64_t>(bits % 17);
  }
  return static_cast<std::int64_t>(bits % 17) - 8;
}

graph::Input InputSource::input() const {
  return [*this](graph::Tensor& part) -> Status {
    const graph::Dims strides = graph::row_major_strides(part.type.dims);
    if (part.box.empty()) return {};
    graph::Dims index = part.box.start;
    std::size_t i = 0;
    const bool floats = graph::is_floating(part.type.dtype);
    do {
      std::int64_t flat = 0;
      for (std::size_t d = 0; d < index.size(); ++d) flat += index[d] * strides[d];
      if (floats) {
        part.floats[i++] = floating(flat);
      } else {
        part.integers[i++] = integer(flat);
      }
    } while (graph::next_index(part.box, index));
    // The reference must see what the dtype holds, as the kernel does.
    if (floats && part.type.dtype != DType::f64) {
      part.floats = graph::tensor_from_bytes(part.type, part.box, graph::to_bytes(part)).floats;
    }
    return {};
  };
}

Filler InputSource::filler() const {
  return [*this](std::uint64_t offset, std::span<std::byte> bytes) {
    const auto size = static_cast<std::uint64_t>(graph::byte_size(type_.dtype));
    const auto count = static_cast<std::int64_t>(bytes.size() / size);
    graph::Tensor chunk = graph::Tensor::zeros({type_.dtype, {count}});
    const auto first = static_cast<std::int64_t>(offset / size);
    const bool floats = graph::is_floating(type_.dtype);
    for (std::int64_t i = 0; i < count; ++i) {
      if (floats) {
        chunk.floats[static_cast<std::size_t>(i)] = floating(first + i);
      } else {
        chunk.integers[static_cast<std::size_t>(i)] = integer(first + i);
      }
    }
    const std::vector<std::byte> encoded = graph::to_bytes(chunk);
    std::copy(encoded.begin(), encoded.end(), bytes.begin());
  };
}

std::vector<std::optional<InputSource::Range>> integer_ranges(const Graph& graph) {
  std::vector<std::optional<InputSource::Range>> ranges(graph.parameters().size());
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    std::vector<bool> seen(static_cast<std::size_t>(graph.size()), false);
    const auto dims = [&](std::size_t operand) -> const graph::Dims& {
      return graph.type(node.operands[operand]).dims;
    };
    if (node.op == Op::gather) {
      const auto& gather = node.as<graph::GatherAttributes>();
      limit(graph, node.operands[1], {0, last_start(dims(0), gather.start_index_map, gather.slice_sizes)}, seen,
            ranges);
    } else if (node.op == Op::scatter) {
      const auto& scatter = node.as<graph::ScatterAttributes>();
      limit(graph, node.operands[1], {0, last_start(dims(0), scatter.scatter_dims_to_operand_dims, {})}, seen, ranges);
    } else if (node.op == Op::dynamic_slice || node.op == Op::dynamic_update_slice) {
      const std::size_t first = node.op == Op::dynamic_slice ? 1 : 2;
      const graph::Dims& sizes = node.op == Op::dynamic_slice ? node.type().dims : dims(1);
      for (std::size_t o = first; o < node.operands.size(); ++o) {
        const std::size_t d = o - first;
        limit(graph, node.operands[o], {0, dims(0)[d] - sizes[d]}, seen, ranges);
      }
    } else if ((node.op == Op::divide || node.op == Op::remainder) && graph::is_integer(node.type().dtype)) {
      limit(graph, node.operands[1], {1, 7}, seen, ranges);
    }
  }
  return ranges;
}

}  // namespace stitch::profiler
