#include "profiler/input_source.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/random.h"
#include "graph/literal.h"
#include "profiler/element_ranges.h"

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
inline double roughly_normal(std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t bits = random_at(seed, index);
  const std::uint64_t pairs = (bits & 0x0000FFFF0000FFFF) + (bits >> 16 & 0x0000FFFF0000FFFF);
  const std::uint64_t sum = (pairs & 0xFFFFFFFF) + (pairs >> 32);
  return (static_cast<double>(static_cast<std::int64_t>(sum)) * 0x1.0p-16 - 2.0) * 1.7320508075688772;
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

void InputSource::floats(std::int64_t first, std::span<double> values) const {
  const auto each = [&](auto&& value) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(static_cast<std::uint64_t>(first) + i);
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
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = value(random_at(seed_, static_cast<std::uint64_t>(first) + i));
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
  if (type_.dtype == DType::f64) return;
  if (type_.dtype == DType::f32) {
    for (double& value : values) value = static_cast<double>(static_cast<float>(value));
    return;
  }
  for (double& value : values) value = graph::round_to(type_.dtype, value);
}

graph::Input InputSource::input() const {
  return [*this](graph::Tensor& part) -> Status {
    if (part.box.empty()) return {};
    const graph::Dims strides = graph::row_major_strides(part.type.dims);
    const auto [runs, length] = dense_runs(part.box, part.type.dims);
    graph::Dims index = runs.start;
    std::size_t at = 0;
    do {
      std::int64_t flat = 0;
      for (std::size_t d = 0; d < index.size(); ++d) flat += index[d] * strides[d];
      const auto count = static_cast<std::size_t>(length);
      if (graph::is_floating(part.type.dtype)) {
        rounded_floats(flat, std::span(part.floats).subspan(at, count));
      } else {
        integers(flat, std::span(part.integers).subspan(at, count));
      }
      at += count;
    } while (graph::next_index(runs, index));
    return {};
  };
}

Filler InputSource::filler() const {
  return [*this](std::uint64_t offset, std::span<std::byte> bytes) {
    // A page at a time; short chunks stay in the first-level cache.
    constexpr std::size_t chunk = 512;
    const auto size = static_cast<std::size_t>(graph::byte_size(type_.dtype));
    std::array<double, chunk> floating;
    std::array<std::int64_t, chunk> whole;
    for (std::size_t done = 0; done < bytes.size(); done += chunk * size) {
      const std::size_t count = std::min(chunk, (bytes.size() - done) / size);
      const auto first = static_cast<std::int64_t>((offset + done) / size);
      std::byte* to = &bytes[done];
      if (!graph::is_floating(type_.dtype)) {
        integers(first, std::span(whole).first(count));
        for (std::size_t i = 0; i < count; ++i) graph::store_integer(type_.dtype, whole[i], to + i * size);
        continue;
      }
      floats(first, std::span(floating).first(count));
      if (type_.dtype == DType::f32) {
        for (std::size_t i = 0; i < count; ++i) {
          const auto value = static_cast<float>(floating[i]);
          std::memcpy(to + i * size, &value, sizeof(value));
        }
      } else {
        for (std::size_t i = 0; i < count; ++i) graph::store_element(type_.dtype, floating[i], to + i * size);
      }
    }
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
