#include <algorithm>
#include <array>
#include <cstring>

#include "graph/literal.h"
#include "graph/op.h"
#include "graph/passes/conversions.h"
#include "graph/passes/scans/scan_combiner.h"
#include "graph/reduce_kind.h"
#include "import/hlo/attribute.h"
#include "import/hlo/combiner.h"
#include "import/hlo/element_program.h"
#include "import/hlo/lowering.h"
#include "import/hlo/rules.h"

namespace stitch::import::hlo {
namespace {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::ReduceKind;
using graph::Value;

constexpr std::string_view strange_combiner = "its combining function is not one of ours";

/// The initial value is the one that changes nothing.
bool is_identity(const Builder& builder, Value init, ReduceKind kind) {
  const std::optional<Scalar> scalar = constant_scalar(builder.graph(), init);
  if (!scalar) return false;
  const DType dtype = builder.graph().type(init).dtype;
  std::array<std::byte, 8> identity{};
  const std::uint64_t bits = graph::identity_bits(kind, dtype);
  std::memcpy(identity.data(), &bits, sizeof bits);
  if (graph::is_floating(dtype)) return scalar->real == graph::load_element(dtype, identity.data());
  return scalar->integer == graph::load_integer(dtype, identity.data());
}

/// What is left of a reduction after its initial value: combined in at the end, unless it changes nothing.
Value with_init(Builder& builder, Value reduced, Value init, ReduceKind kind) {
  if (is_identity(builder, init, kind)) return reduced;
  const Dims dims = builder.dims(reduced);
  const Value everywhere = dims.empty() ? init : builder.broadcast(init, dims, {});
  return builder.binary(graph::combining_op(kind), reduced, everywhere);
}

/// Whether a value counts 0, 1, … along one dimension and is the same along all others.
bool counts_along(const graph::Graph& graph, Value value, std::int64_t dimension) {
  for (;;) {
    const graph::Node& node = graph.node(value.node);
    switch (node.op) {
      case graph::Op::iota:
        return node.as<graph::IotaAttributes>().dimension == dimension &&
               graph::counts_exactly(node.type().dtype, node.type().dims[dimension]);
      case graph::Op::convert:
        // A narrow type would wrap around.
        if (graph::byte_size(node.type().dtype) < 4 || !graph::is_integer(node.type().dtype)) return false;
        break;
      case graph::Op::broadcast: {
        const Dims& mapping = node.as<graph::BroadcastAttributes>().mapping;
        const auto found = std::find(mapping.begin(), mapping.end(), dimension);
        if (found == mapping.end()) return false;
        dimension = found - mapping.begin();
        break;
      }
      default: return false;
    }
    value = node.operands[0];
  }
}

/// The reduction of (value, position) pairs as one operator; nothing when it is something else.
std::optional<Values> arg_reduced(const Site& site, const graph::Graph& combiner, const Dims& dimensions) {
  const std::optional<ArgCombiner> arg = arg_combiner(combiner);
  if (!arg || dimensions.size() != 1 || site.operands.size() != 4) return std::nullopt;
  Builder& builder = site.builder;
  const std::int64_t dimension = dimensions[0];
  if (dimension < 0 || dimension >= site.operand_type(0).rank()) return std::nullopt;
  if (!counts_along(builder.graph(), site.operand(1), dimension)) return std::nullopt;
  // The initial pair must not win against a real one: the least value, at a position that loses ties (or is 0 itself).
  if (!is_identity(builder, site.operand(2), arg->kind)) return std::nullopt;
  const std::optional<Scalar> start = constant_scalar(builder.graph(), site.operand(3));
  const std::int64_t extent = site.operand_type(0).dims[dimension];
  if (!start || extent == 0 || (arg->last ? start->integer > 0 : start->integer < 0)) return std::nullopt;
  const Value node = builder.add(graph::Op::arg_reduce, {site.operand(0)},
                                 graph::ArgReduceAttributes{arg->kind, dimension, site.types[1].dtype, arg->last});
  return Values{node, {node.node, 1}};
}

/// The single dimension in which a window is more than one element wide; nothing when there are none or several.
std::optional<std::size_t> window_dimension(const WindowText& window) {
  std::optional<std::size_t> found;
  for (std::size_t d = 0; d < window.sizes.size(); ++d) {
    if (window.sizes[d] == 1 && window.low[d] == 0 && window.high[d] == 0) continue;
    if (found) return std::nullopt;
    found = d;
  }
  return found;
}

bool all_ones(const Dims& dims) {
  return std::all_of(dims.begin(), dims.end(), [](std::int64_t d) { return d == 1; });
}

/// A window that reaches back (or ahead) over the whole extent makes a running sum.
std::optional<graph::ScanAttributes> scan_of(const WindowText& window, const Dims& dims, ReduceKind kind) {
  if (!all_ones(window.strides) || !all_ones(window.base_dilation) || !all_ones(window.window_dilation)) return {};
  const std::optional<std::size_t> d = window_dimension(window);
  if (!d) return std::nullopt;
  const std::int64_t size = window.sizes[*d], extent = dims[*d];
  const std::int64_t low = window.low[*d], high = window.high[*d];
  if (size < extent || extent < 2 || low + high != size - 1) return std::nullopt;
  graph::ScanAttributes scan{kind, static_cast<std::int64_t>(*d), false, false};
  if (high <= 0 && high >= -1) {
    scan.exclusive = high == -1;
  } else if (low <= 0 && low >= -1) {
    scan.reverse = true;
    scan.exclusive = low == -1;
  } else {
    return std::nullopt;
  }
  return scan;
}

Value windowed(Builder& builder, Value x, const WindowText& window, ReduceKind kind) {
  if (const auto scan = scan_of(window, builder.dims(x), kind)) return builder.add(graph::Op::scan, {x}, *scan);
  return builder.add(graph::Op::reduce_window, {x},
                     graph::ReduceWindowAttributes{kind, window.sizes, window.strides, window.low, window.high,
                                                   window.base_dilation, window.window_dilation});
}

bool combines_scalars(const graph::Graph& combiner) {
  return std::ranges::all_of(combiner.nodes(), [](const graph::Node& node) {
    const bool leaf = node.op == graph::Op::parameter || node.op == graph::Op::constant;
    return node.results.size() == 1 && node.type().rank() == 0 && (leaf || graph::is_elementwise(node.op));
  });
}

/// A running combination by any element-wise function (cumulative logarithms of sums): a window over the whole extent
/// whose function is associative and whose initial values, which fill the padding, change nothing. Nothing where it is
/// not that.
Result<std::optional<Values>> scanned(const Site& site, const WindowText& window,
                                      const std::shared_ptr<const graph::Graph>& combiner) {
  const std::optional<Values> nothing;
  const std::size_t count = site.operands.size() / 2;
  const Dims& dims = site.operand_type(0).dims;
  const auto scan = scan_of(window, dims, ReduceKind::sum);
  if (!scan || scan->exclusive || !combines_scalars(*combiner)) return nothing;
  std::vector<graph::ConstantAttributes> initial;
  std::vector<Value> operands;
  for (std::size_t i = 0; i < count; ++i) {
    const graph::Node& init = site.builder.graph().node(site.operand(count + i).node);
    if (init.op != graph::Op::constant || site.operand_type(i).dims != dims) return nothing;
    initial.push_back(init.as<graph::ConstantAttributes>());
    operands.push_back(site.operand(i));
  }
  STITCH_ASSIGN(const bool neutral, graph::is_neutral(*combiner, initial));
  if (!neutral) return nothing;
  STITCH_ASSIGN(const bool associative, graph::is_associative(*combiner));
  if (!associative) return nothing;
  const Value made = site.builder.add(graph::Op::associative_scan, std::move(operands),
                                      graph::AssociativeScanAttributes{scan->dimension, scan->reverse}, {combiner});
  Values results;
  for (std::size_t i = 0; i < count; ++i) results.push_back({made.node, static_cast<int>(i)});
  return std::optional(std::move(results));
}

/// Whether the operands are n tensors and n scalars of the same types.
bool has_inits(const Site& site) {
  const std::size_t count = site.operands.size() / 2;
  if (site.operands.size() % 2 != 0 || site.types.size() != count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const graph::TensorType& init = site.operand_type(count + i);
    if (init.rank() != 0 || init.dtype != site.operand_type(i).dtype) return false;
  }
  return true;
}

}  // namespace

Result<Values> lower_reduce(const Site& site) {
  if (!has_inits(site)) return site.error("the operands are not tensors and as many initial scalars");
  const std::size_t count = site.operands.size() / 2;
  STITCH_ASSIGN(const Dims dimensions, list_attribute(site.instruction, "dimensions"));
  STITCH_ASSIGN(const Computation* computation, site.lowering.called(site, "to_apply"));
  STITCH_ASSIGN(const std::shared_ptr<const graph::Graph> combiner, site.lowering.shared_region(*computation));
  if (std::optional<Values> pair = arg_reduced(site, *combiner, dimensions)) return std::move(*pair);
  const auto kinds = independent_kinds(*combiner);
  const bool ours =
      kinds && kinds->size() == count && std::find(kinds->begin(), kinds->end(), ReduceKind::replace) == kinds->end();
  if (!ours) return site.lowering.opaque(site, "reduce", strange_combiner);
  Values results;
  for (std::size_t i = 0; i < count; ++i) {
    const Value reduced = site.builder.reduce((*kinds)[i], site.operand(i), dimensions);
    results.push_back(with_init(site.builder, reduced, site.operand(count + i), (*kinds)[i]));
  }
  return results;
}

Result<Values> lower_reduce_window(const Site& site) {
  if (!has_inits(site)) return site.error("the operands are not tensors and as many initial scalars");
  const std::size_t count = site.operands.size() / 2;
  STITCH_ASSIGN(const WindowText window, window_attribute(site.instruction, site.operand_type(0).dims.size()));
  STITCH_ASSIGN(const Computation* computation, site.lowering.called(site, "to_apply"));
  STITCH_ASSIGN(const std::shared_ptr<const graph::Graph> combiner, site.lowering.shared_region(*computation));
  const auto kinds = independent_kinds(*combiner);
  bool ours = kinds && kinds->size() == count;
  for (std::size_t i = 0; ours && i < count; ++i) {
    const ReduceKind kind = (*kinds)[i];
    // A window's initial value also fills its padding: combining it in once is the same for idempotent kinds only.
    const bool neutral = is_identity(site.builder, site.operand(count + i), kind) || is_idempotent(kind);
    const bool scalar_type = site.operand_type(i).dtype != DType::pred;
    ours =
        neutral && scalar_type && kind != ReduceKind::replace && site.operand_type(i).dims == site.operand_type(0).dims;
  }
  if (!ours) {
    STITCH_ASSIGN(std::optional<Values> scan, scanned(site, window, combiner));
    if (scan) return std::move(*scan);
    return site.lowering.opaque(site, "reduce-window", strange_combiner);
  }
  Values results;
  for (std::size_t i = 0; i < count; ++i) {
    const Value reduced = windowed(site.builder, site.operand(i), window, (*kinds)[i]);
    results.push_back(with_init(site.builder, reduced, site.operand(count + i), (*kinds)[i]));
  }
  return results;
}

Result<Values> lower_select_and_scatter(const Site& site) {
  STITCH_ASSIGN(const WindowText window, window_attribute(site.instruction, site.operand_type(0).dims.size()));
  STITCH_ASSIGN(const Computation* select, site.lowering.called(site, "select"));
  STITCH_ASSIGN(const Computation* scatter, site.lowering.called(site, "scatter"));
  STITCH_ASSIGN(const std::shared_ptr<const graph::Graph> choice, site.lowering.shared_region(*select));
  STITCH_ASSIGN(const std::shared_ptr<const graph::Graph> combiner, site.lowering.shared_region(*scatter));
  const std::optional<ReduceKind> selected = selection_kind(*choice);
  const auto kinds = independent_kinds(*combiner);
  const bool sums = kinds && kinds->size() == 1 && (*kinds)[0] == ReduceKind::sum;
  if (!selected || !sums || !all_ones(window.window_dilation) || !all_ones(window.base_dilation)) {
    return site.lowering.opaque(site, "select-and-scatter", strange_combiner);
  }
  const graph::SelectAndScatterAttributes a{*selected, window.sizes, window.strides, window.low, window.high};
  const Value scattered = site.builder.add(site.op, {site.operand(0), site.operand(1)}, a);
  return Values{with_init(site.builder, scattered, site.operand(2), ReduceKind::sum)};
}

}  // namespace stitch::import::hlo
