#include "kernel/rewrite/small_selection.h"

#include <algorithm>
#include <map>
#include <vector>

#include "graph/infer_checks.h"
#include "graph/literal.h"
#include "graph/passes/conversions.h"
#include "graph/reduce_kind.h"
#include "kernel/rewrite/rewriting.h"

namespace stitch::kernel {
namespace {

using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::ReduceKind;
using graph::SortAttributes;
using graph::Value;

class SmallSelection {
 public:
  explicit SmallSelection(const Graph& kernel) : kernel_(kernel), graph_(kernel) {}

  std::optional<Graph> run() {
    const bool any = std::ranges::any_of(kernel_.nodes(), [&](const Node& node) { return is_small(node); });
    if (!any) return std::nullopt;
    for (NodeId id = 0; id < kernel_.size(); ++id) copy(id);
    return graph_.finish();
  }

 private:
  /// A value as its elements along one dimension, each with the other dimensions.
  struct Parts {
    std::int64_t dimension = 0;
    std::vector<Value> elements;
  };

  [[nodiscard]] bool is_small(const Node& node) const {
    if (node.op != Op::sort) return false;
    const auto& a = node.as<SortAttributes>();
    const DType dtype = kernel_.type(node.operands[0]).dtype;
    // Ascending, NaN would be last, and is the extreme of a reduction; the highest 64-bit integers are no doubles.
    const bool ordered = a.descending ? dtype != DType::pred : graph::is_integer(dtype) && graph::byte_size(dtype) <= 4;
    if (!ordered || a.count < 1 || a.count > most_selected) return false;
    return std::all_of(node.operands.begin() + 1, node.operands.end(),
                       [&](Value operand) { return is_place(operand, a.dimension); });
  }

  /// Whether a value's elements are their places along a dimension: an iota, or one that is repeated.
  [[nodiscard]] bool is_place(Value value, std::int64_t dimension) const {
    const Node* node = &kernel_.node(value.node);
    if (node->op == Op::broadcast) {
      const Dims& mapping = node->as<graph::BroadcastAttributes>().mapping;
      const auto found = std::ranges::find(mapping, dimension);
      if (found == mapping.end()) return false;
      dimension = found - mapping.begin();
      node = &kernel_.node(node->operands[0].node);
    }
    return node->op == Op::iota && node->as<graph::IotaAttributes>().dimension == dimension &&
           graph::is_integer(node->type().dtype) &&
           graph::counts_exactly(node->type().dtype, node->type().dims[dimension]);
  }

  void copy(NodeId id) {
    const Node& node = kernel_.node(id);
    if (is_small(node)) return select(id);
    const Parts* parts = nullptr;
    for (const Value operand : node.operands) {
      if (const auto found = parts_.find(operand); found != parts_.end() && parts == nullptr) parts = &found->second;
    }
    if (parts != nullptr && graph::is_elementwise(node.op) && node.results.size() == 1) {
      compute_parts(id, *parts);
    } else if (parts != nullptr && node.op == Op::reduce &&
               node.as<graph::ReduceAttributes>().dimensions == Dims{parts->dimension}) {
      graph_.replace({id}, combined(node, *parts));
    } else {
      graph_.take_over(id);
    }
  }

  // ---- selections -------------------------------------------------------------------------------------------

  /// Whether a value's elements are at least 0, or NaN: softmax and the like.
  [[nodiscard]] bool is_never_negative(Value value, int depth = 0) const {
    constexpr int deepest = 12;
    const Node& node = kernel_.node(value.node);
    const auto operand = [&](std::size_t i) { return is_never_negative(node.operands[i], depth + 1); };
    if (depth > deepest) return false;
    switch (node.op) {
      case Op::exp:
      case Op::logistic: return true;
      case Op::convert: return graph::is_floating(kernel_.type(node.operands[0]).dtype) && operand(0);
      case Op::reshape:
      case Op::broadcast:
      case Op::transpose:
      case Op::slice: return operand(0);
      case Op::add:
      case Op::multiply:
      case Op::divide: return operand(0) && operand(1);
      case Op::reduce: return node.as<graph::ReduceAttributes>().kind == ReduceKind::sum && operand(0);
      default: return false;
    }
  }

  Value spread(Value x, const Dims& dims, std::int64_t dimension) {
    Dims mapping;
    for (std::int64_t d = 0; d < std::ssize(dims); ++d) {
      if (d != dimension) mapping.push_back(d);
    }
    return graph_.add(Op::broadcast, {x}, graph::BroadcastAttributes{dims, mapping});
  }

  Value converted(Value x, DType dtype) {
    return graph_.type(x).dtype == dtype ? x : graph_.add(Op::convert, {x}, graph::ConvertAttributes{dtype});
  }

  void select(NodeId id) {
    const Node& node = kernel_.node(id);
    const auto& a = node.as<SortAttributes>();
    const graph::TensorType type = kernel_.type(node.operands[0]);
    const Dims rows = graph::without(type.dims, {a.dimension});
    const ReduceKind kind = a.descending ? ReduceKind::max : ReduceKind::min;
    const double lowest = graph::element(graph::scalar_of(type.dtype, graph::identity_bits(kind, type.dtype)), 0);
    const bool may_run_out = !graph::is_floating(type.dtype) || !is_never_negative(node.operands[0]);
    const Value place = graph_.add(Op::iota, {}, graph::IotaAttributes{{DType::s32, type.dims}, a.dimension});
    const graph::ArgReduceAttributes extreme{kind, a.dimension, DType::s32, false};
    Parts values{a.dimension, {}}, places{a.dimension, {}};
    Value left = graph_.at(node.operands[0]), places_left = place;
    for (std::int64_t i = 0; i < a.count; ++i) {
      const Value best = graph_.add(Op::arg_reduce, {left}, extreme);
      Value at{best.node, 1};
      if (i > 0 && may_run_out) {
        const Value first =
            graph_.add(Op::reduce, {places_left}, graph::ReduceAttributes{ReduceKind::min, {a.dimension}});
        const Value none = graph_.add(Op::compare, {best, graph_.filled(type.dtype, rows, lowest)},
                                      graph::CompareAttributes{graph::Comparison::eq});
        at = graph_.add(Op::select, {none, first, at});
      }
      values.elements.push_back(best);
      places.elements.push_back(at);
      if (i + 1 == a.count) break;
      const Value taken = graph_.add(Op::compare, {place, spread(at, type.dims, a.dimension)},
                                     graph::CompareAttributes{graph::Comparison::eq});
      left = graph_.add(Op::select, {taken, graph_.filled(type.dtype, type.dims, lowest), left});
      const auto length = static_cast<double>(type.dims[a.dimension]);
      places_left = graph_.add(Op::select, {taken, graph_.filled(DType::s32, type.dims, length), places_left});
    }
    keep({id}, values);
    for (std::int32_t r = 1; r < std::ssize(node.results); ++r) {
      Parts converted_places{a.dimension, {}};
      for (const Value each : places.elements) converted_places.elements.push_back(converted(each, node.type(r).dtype));
      keep({id, r}, converted_places);
    }
  }

  // ---- what is computed of them -----------------------------------------------------------------------------

  /// The value is these elements side by side.
  void keep(Value value, Parts parts) {
    Dims dims = kernel_.type(value).dims;
    dims[parts.dimension] = 1;
    std::vector<Value> apart;
    for (const Value each : parts.elements)
      apart.push_back(graph_.add(Op::reshape, {each}, graph::ReshapeAttributes{dims}));
    graph_.replace(value, apart.size() == 1
                              ? apart[0]
                              : graph_.add(Op::concatenate, apart, graph::ConcatenateAttributes{parts.dimension}));
    parts_[value] = std::move(parts);
  }

  /// Element `i` along the dimension of any value of the same shape.
  Value element(Value value, std::int64_t dimension, std::int64_t i) {
    const auto found = parts_.find(value);
    if (found != parts_.end() && found->second.dimension == dimension) return found->second.elements[i];
    const Node& node = kernel_.node(value.node);
    const Dims& dims = kernel_.type(value).dims;
    const Dims rows = graph::without(dims, {dimension});
    if (node.op == Op::broadcast) {
      Dims mapping = node.as<graph::BroadcastAttributes>().mapping;
      if (!std::ranges::count(mapping, dimension)) {
        for (std::int64_t& d : mapping) d -= d > dimension ? 1 : 0;
        return graph_.add(Op::broadcast, {graph_.at(node.operands[0])}, graph::BroadcastAttributes{rows, mapping});
      }
    }
    Dims starts(dims.size(), 0), limits = dims;
    starts[dimension] = i;
    limits[dimension] = i + 1;
    const Value slice =
        graph_.add(Op::slice, {graph_.at(value)}, graph::SliceAttributes{starts, limits, Dims(dims.size(), 1)});
    return graph_.add(Op::reshape, {slice}, graph::ReshapeAttributes{rows});
  }

  void compute_parts(NodeId id, const Parts& like) {
    const Node& node = kernel_.node(id);
    Parts parts{like.dimension, {}};
    const std::int64_t count = std::ssize(like.elements);
    for (std::int64_t i = 0; i < count; ++i) {
      std::vector<Value> operands;
      for (const Value operand : node.operands) operands.push_back(element(operand, parts.dimension, i));
      parts.elements.push_back(graph_.add(node.op, operands, node.attributes));
    }
    keep({id}, std::move(parts));
  }

  Value combined(const Node& node, const Parts& parts) {
    const ReduceKind kind = node.as<graph::ReduceAttributes>().kind;
    const DType dtype = node.type().dtype;
    const bool rounds = graph::is_floating(dtype) && (kind == ReduceKind::sum || kind == ReduceKind::product);
    const DType wide = rounds ? graph::info(dtype).accumulator : dtype;
    Value total = converted(parts.elements[0], wide);
    for (std::size_t i = 1; i < parts.elements.size(); ++i)
      total = graph_.add(graph::combining_op(kind), {total, converted(parts.elements[i], wide)});
    return converted(total, dtype);
  }

  const Graph& kernel_;
  Rewriting graph_;
  std::map<Value, Parts> parts_;  ///< of values of the kernel
};

}  // namespace

std::optional<Graph> select_one_by_one(const Graph& kernel) { return SmallSelection(kernel).run(); }

}  // namespace stitch::kernel
