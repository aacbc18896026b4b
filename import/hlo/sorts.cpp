#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "graph/literal.h"
#include "graph/reference/evaluate.h"
#include "graph/sorting.h"
#include "import/hlo/attribute.h"
#include "import/hlo/lowering.h"
#include "import/hlo/rules.h"
#include "import/hlo/total_order.h"

namespace stitch::import::hlo {
namespace {

using graph::DType;
using graph::Graph;
using graph::Op;
using graph::Tensor;
using graph::Value;

constexpr std::string_view strange_comparator = "its comparator is no order of one operand's elements";

/// What a comparator compares: one operand's elements, in the order that Op::sort has or in that of all bits.
struct Comparator {
  std::size_t key = 0;  ///< operand
  bool descending = false;
  bool total = false;  ///< floats by sign and magnitude: -0 before +0, NaN by their signs
};

/// Nodes that the comparator's result depends on.
std::vector<bool> needed_nodes(const Graph& comparator) {
  std::vector<bool> needed(comparator.size(), false);
  needed[comparator.results()[0].node] = true;
  for (graph::NodeId id = comparator.size(); id-- > 0;) {
    if (!needed[id]) continue;
    for (const Value operand : comparator.node(id).operands) needed[operand.node] = true;
  }
  return needed;
}

/// Whether it does nothing but order, select and take bits apart: then samples of every class and bit tell which order
/// it is. Arithmetic could make any of it.
bool only_orders(const Graph& comparator, const std::vector<bool>& needed) {
  for (graph::NodeId id = 0; id < comparator.size(); ++id) {
    const graph::Node& node = comparator.node(id);
    switch (needed[id] ? node.op : Op::constant) {
      case Op::parameter:
      case Op::constant:
      case Op::compare:
      case Op::select:
      case Op::bitcast_convert:
      case Op::is_nan:
      case Op::bit_and:
      case Op::bit_or:
      case Op::bit_xor:
      case Op::bit_not: break;
      case Op::convert:  // to a wider type, which has all of the narrow one's values
        if (graph::byte_size(node.type().dtype) < 4) return false;
        break;
      default: return false;
    }
  }
  return true;
}

/// Values of a type of every sign, class and magnitude.
std::vector<Tensor> samples_of(DType dtype) {
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<Tensor> samples;
  const auto add = [&](double real, std::int64_t integer) {
    Tensor& sample = samples.emplace_back(Tensor::zeros({dtype, {}}));
    (graph::is_floating(dtype) ? sample.floats[0] = real : sample.integers[0] = integer);
  };
  if (graph::is_floating(dtype)) {
    for (const double x : {-nan, -2.0, -1.0, -0.125, -0.0, 0.0, 0.125, 1.0, 2.0, nan}) add(x, 0);
    if (dtype != DType::f8e4m3) {  // which has none
      for (const double x : {-infinity, infinity}) add(x, 0);
    }
    return samples;
  }
  const std::int64_t most = dtype == DType::pred  ? 1
                            : dtype == DType::u64 ? -1
                                                  : (std::int64_t{1} << (8 * graph::byte_size(dtype) - 1)) - 1;
  std::vector<std::int64_t> integers = {0, 1, most};
  if (dtype != DType::pred) integers.insert(integers.end(), {2, 100});
  if (graph::is_integer(dtype) && !graph::is_unsigned_integer(dtype)) integers.insert(integers.end(), {-1, -2, -100});
  for (const std::int64_t x : integers) add(0, x);
  return samples;
}

bool is_nan(const Tensor& x) { return graph::is_floating(x.type.dtype) && std::isnan(x.floats[0]); }

/// Whether x stands before y in ascending order; of numbers.
bool is_less(const Tensor& x, const Tensor& y, bool total) {
  if (!graph::is_floating(x.type.dtype)) {
    if (x.type.dtype == DType::u64)
      return static_cast<std::uint64_t>(x.integers[0]) < static_cast<std::uint64_t>(y.integers[0]);
    return x.integers[0] < y.integers[0];
  }
  if (!total) return x.floats[0] < y.floats[0];
  const auto key = [](double value) {
    const auto bits = std::bit_cast<std::int64_t>(value);
    return bits < 0 ? bits ^ std::numeric_limits<std::int64_t>::max() : bits;
  };
  return key(x.floats[0]) < key(y.floats[0]);
}

/// Two elements, and whether the comparator says that the first stands before the second.
struct Answer {
  Tensor x, y;
  bool before = false;
};

/// Whether the answers are those of an order. Where one is NaN, an order of Op::sort has it as the greatest, or says
/// that neither is before the other, which leaves its place open.
bool is_order(const std::vector<Answer>& answers, bool descending, bool total) {
  bool greatest = true, open = true;
  for (const Answer& answer : answers) {
    const Tensor &x = descending ? answer.y : answer.x, &y = descending ? answer.x : answer.y;
    if (!total && (is_nan(x) || is_nan(y))) {
      greatest = greatest && answer.before == (!is_nan(x) && is_nan(y));
      open = open && !answer.before;
    } else if (answer.before != is_less(x, y, total)) {
      return false;
    }
  }
  return greatest || open;
}

Tensor element_of_bits(DType dtype, std::uint64_t bits) {
  return graph::tensor_from_bytes({dtype, {}}, graph::Box::whole({}), graph::scalar_of(dtype, bits).data);
}

/// Bits of zero, of one, of a number of the middle, and of what the comparator's constants are.
std::vector<std::uint64_t> bases_of(const Graph& comparator, DType dtype) {
  const int bits = 8 * graph::byte_size(dtype);
  std::vector<std::uint64_t> bases = {0, std::uint64_t{1} << (bits - 1)};
  if (graph::is_floating(dtype)) bases.push_back((std::uint64_t{1} << (bits - 2)) | 1);
  for (const graph::Node& node : comparator.nodes()) {
    if (node.op != Op::constant) continue;
    const auto& constant = node.as<graph::ConstantAttributes>();
    if (graph::byte_size(constant.type.dtype) == graph::byte_size(dtype) && constant.type.elements() > 0)
      bases.push_back(graph::element_bits(constant, 0));
  }
  return bases;
}

/// Pairs by which orders are told from what is none: all of some samples of every class, and of some bits with one bit
/// changed, so that a comparator that leaves one out, or has one from a constant, gives itself away.
std::vector<Answer> pairs_for(const Graph& comparator, DType dtype) {
  std::vector<Answer> pairs;
  const std::vector<Tensor> samples = samples_of(dtype);
  for (const Tensor& x : samples) {
    for (const Tensor& y : samples) pairs.push_back({x, y});
  }
  if (dtype == DType::pred) return pairs;
  for (const std::uint64_t base : bases_of(comparator, dtype)) {
    for (int bit = 0; bit < 8 * graph::byte_size(dtype); ++bit) {
      const Tensor x = element_of_bits(dtype, base), y = element_of_bits(dtype, base ^ (std::uint64_t{1} << bit));
      if (is_nan(x) || is_nan(y)) continue;  // of NaN the samples ask
      pairs.push_back({x, y});
      pairs.push_back({y, x});
    }
  }
  return pairs;
}

/// Nothing: it is none of these, or depends on more than one operand.
std::optional<Comparator> comparator_of(const Graph& comparator, std::size_t operands) {
  if (comparator.results().size() != 1 || comparator.parameters().size() != 2 * operands) return std::nullopt;
  if (comparator.type(comparator.results()[0]) != graph::TensorType{DType::pred, {}}) return std::nullopt;
  const std::vector<bool> needed = needed_nodes(comparator);
  if (!only_orders(comparator, needed)) return std::nullopt;
  std::optional<std::size_t> key;
  for (std::size_t p = 0; p < comparator.parameters().size(); ++p) {
    if (!needed[comparator.parameters()[p]]) continue;
    if (key && *key != p / 2) return std::nullopt;
    key = p / 2;
  }
  if (!key) return std::nullopt;
  std::vector<Tensor> arguments;
  for (const graph::NodeId p : comparator.parameters()) arguments.push_back(Tensor::zeros(comparator.node(p).type()));
  std::vector<Answer> answers = pairs_for(comparator, arguments[2 * *key].type.dtype);
  for (Answer& answer : answers) {
    arguments[2 * *key] = answer.x;
    arguments[2 * *key + 1] = answer.y;
    const auto before = graph::evaluate(comparator, arguments);
    if (!before) return std::nullopt;
    answer.before = (*before)[0].integers[0] != 0;
  }
  for (const bool total : {false, true}) {
    for (const bool descending : {false, true}) {
      if (is_order(answers, descending, total)) return Comparator{*key, descending, total};
    }
  }
  return std::nullopt;
}

std::string too_long(std::int64_t length, DType keys) {
  return fmt::format("lines of {} elements: a block sorts at most {}", length, graph::longest_sorted_line(keys));
}

}  // namespace

Result<Values> lower_sort(const Site& site) {
  STITCH_ASSIGN(const graph::Dims dimensions, list_attribute(site.instruction, "dimensions"));
  if (dimensions.size() != 1) return site.error("it sorts along one dimension");
  const std::int64_t dimension = dimensions[0];
  if (dimension < 0 || dimension >= site.operand_type(0).rank()) return site.error("has no such dimension");
  STITCH_ASSIGN(const Computation* computation, site.lowering.called(site, "to_apply"));
  STITCH_ASSIGN(const std::shared_ptr<const Graph> region, site.lowering.shared_region(*computation));
  const std::optional<Comparator> comparator = comparator_of(*region, site.operands.size());
  if (!comparator) return site.lowering.opaque(site, "sort", strange_comparator);
  Value key = site.operand(comparator->key);
  const std::int64_t length = site.operand_type(0).dims[dimension];
  if (length > graph::longest_sorted_line(site.builder.dtype(key)))
    return site.lowering.opaque(site, "sort", too_long(length, site.builder.dtype(key)));
  Values operands;
  if (comparator->total) {
    const std::optional<DType> bits = signed_of_size(graph::byte_size(site.builder.dtype(key)));
    if (!bits) return site.lowering.opaque(site, "sort", strange_comparator);
    operands.push_back(total_order_key(site.builder, key, *bits));
  }
  // The key first; of the others each in its turn.
  const std::size_t first = operands.size();
  operands.push_back(key);
  for (std::size_t i = 0; i < site.operands.size(); ++i) {
    if (i != comparator->key) operands.push_back(site.operand(i));
  }
  const Value sorted =
      site.builder.add(site.op, operands, graph::SortAttributes{dimension, comparator->descending, length});
  Values results;
  auto next = static_cast<std::int32_t>(first + 1);
  for (std::size_t i = 0; i < site.operands.size(); ++i) {
    const std::int32_t result = i == comparator->key ? static_cast<std::int32_t>(first) : next++;
    results.push_back({sorted.node, result});
  }
  return results;
}

Result<Values> top_of_lines(const Site& site, std::int64_t count, bool largest) {
  const graph::TensorType& type = site.operand_type(0);
  if (type.rank() == 0 || site.types.size() != 2) return site.error("takes lines, and gives values and places");
  const std::int64_t dimension = type.rank() - 1, length = type.dims.back();
  if (count < 0 || count > length) return site.error(fmt::format("the first {} of {} elements", count, length));
  if (!graph::is_integer(site.types[1].dtype)) return site.error("places are integers");
  if (length > graph::longest_sorted_line(type.dtype))
    return site.lowering.opaque(site, "topk", too_long(length, type.dtype));
  const Value sorted =
      site.builder.add(Op::sort, {site.operand(0), site.builder.iota(site.types[1].dtype, type.dims, dimension)},
                       graph::SortAttributes{dimension, largest, count});
  return Values{sorted, {sorted.node, 1}};
}

Result<Values> lower_top_k(const Site& site) {
  STITCH_ASSIGN(const std::int64_t count, integer_attribute(site.instruction, "k"));
  const bool largest = find_attribute(site.instruction, "largest") == nullptr;
  STITCH_ASSIGN(const bool stated, flag_attribute(site.instruction, "largest"));
  return top_of_lines(site, count, largest || stated);
}

}  // namespace stitch::import::hlo
