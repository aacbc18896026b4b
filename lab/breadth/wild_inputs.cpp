#include "lab/breadth/wild_inputs.h"

#include <array>
#include <cstring>
#include <limits>

#include "base/random.h"
#include "graph/literal.h"
#include "graph/reference/evaluate_error.h"

namespace stitch::lab {
namespace {

using graph::DType;

double notable_float(DType dtype, std::uint64_t bits) {
  const double sign = (bits & 1) != 0 ? -1 : 1;
  switch (bits / 2 % 6) {
    case 0: return std::numeric_limits<double>::quiet_NaN();
    case 1: return sign * std::numeric_limits<double>::infinity();
    case 2: return sign * 0.0;
    case 3: return sign * graph::largest_finite(dtype);
    case 4: return sign * graph::smallest_normal(dtype);
    default: return sign * graph::smallest_normal(dtype) * 0.5;
  }
}

std::int64_t notable_integer(DType dtype, std::uint64_t bits) {
  const int width = graph::byte_size(dtype) * 8;
  const auto top = std::uint64_t{1} << (width - 1);
  const std::array<std::uint64_t, 8> list = {
      0, 1, ~std::uint64_t{0}, top, top - 1, top + 1, 2, static_cast<std::uint64_t>(width)};
  return static_cast<std::int64_t>(list[bits % list.size()]);
}

void store(DType dtype, Wildness wildness, std::uint64_t bits, std::byte* to) {
  const bool notable = wildness == Wildness::notable && bits >> 61 == 0;
  if (dtype == DType::pred) {
    graph::store_integer(dtype, static_cast<std::int64_t>(bits >> 60 & 1), to);
  } else if (wildness == Wildness::all_bits) {
    std::memcpy(to, &bits, static_cast<std::size_t>(graph::byte_size(dtype)));
  } else if (graph::is_floating(dtype)) {
    const double uniform = static_cast<double>(bits >> 11) * 0x1.0p-53;
    graph::store_element(dtype, notable ? notable_float(dtype, bits) : 4 * uniform - 2, to);
  } else {
    const std::int64_t low = graph::is_unsigned_integer(dtype) ? 0 : -4;
    graph::store_integer(dtype, notable ? notable_integer(dtype, bits) : low + static_cast<std::int64_t>(bits % 13),
                         to);
  }
}

}  // namespace

std::vector<graph::Tensor> wild_inputs(const graph::Graph& graph, Wildness wildness, std::uint64_t seed) {
  std::vector<graph::Tensor> arguments;
  for (const graph::NodeId parameter : graph.parameters()) {
    const graph::TensorType& type = graph.node(parameter).type();
    const std::uint64_t own = mix(seed, arguments.size());
    const auto size = static_cast<std::size_t>(graph::byte_size(type.dtype));
    std::vector<std::byte> bytes(static_cast<std::size_t>(type.bytes()));
    for (std::size_t i = 0; i * size < bytes.size(); ++i)
      store(type.dtype, wildness, random_at(own, i), &bytes[i * size]);
    arguments.push_back(graph::tensor_from_bytes(type, graph::Box::whole(type.dims), bytes));
  }
  return arguments;
}

}  // namespace stitch::lab
