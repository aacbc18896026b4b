#include "graph/passes/concatenations.h"

#include <algorithm>

#include "graph/infer_checks.h"
#include "graph/passes/splat.h"

namespace stitch::graph {
namespace {

std::size_t dimension_of(const Node& node) { return node.as<ConcatenateAttributes>().dimension; }

/// Parts with those of inner concatenations along the same dimension, without empty ones.
std::vector<Value> flattened(const Rewriter& graph, const Node& node) {
  std::vector<Value> parts;
  for (const Value& part : node.operands) {
    if (graph.dims(part)[dimension_of(node)] == 0) continue;
    if (graph.is(part, Op::concatenate) && dimension_of(graph.node(part)) == dimension_of(node)) {
      const auto& inner = graph.node(part).operands;
      parts.insert(parts.end(), inner.begin(), inner.end());
    } else {
      parts.push_back(part);
    }
  }
  return parts;
}

/// Two neighbours as one value: slices of one tensor that continue each other, or repetitions of one value.
std::optional<Value> joined_slices(Rewriter& graph, Value a, Value b, std::size_t along) {
  if (graph.is(a, Op::slice) && graph.is(b, Op::slice) && graph.operand(a) == graph.operand(b)) {
    const auto &left = graph.node(a).as<SliceAttributes>(), &right = graph.node(b).as<SliceAttributes>();
    for (std::size_t d = 0; d < left.starts.size(); ++d) {
      if (left.strides[d] != 1 || right.strides[d] != 1) return std::nullopt;
      const bool continues = left.limits[d] == right.starts[d];
      const bool equal = left.starts[d] == right.starts[d] && left.limits[d] == right.limits[d];
      if (d == along ? !continues : !equal) return std::nullopt;
    }
    Dims limits = left.limits;
    limits[along] = right.limits[along];
    return graph.slice(graph.operand(a), left.starts, limits, left.strides);
  }
  if (graph.is(a, Op::broadcast) && graph.is(b, Op::broadcast) && graph.operand(a) == graph.operand(b)) {
    const auto &left = graph.node(a).as<BroadcastAttributes>(), &right = graph.node(b).as<BroadcastAttributes>();
    if (left.mapping != right.mapping || contains(left.mapping, along)) return std::nullopt;
    Dims dims = left.dims;
    dims[along] += right.dims[along];
    return graph.broadcast(graph.operand(a), dims, left.mapping);
  }
  return std::nullopt;
}

/// A repeated scalar at one end is padding.
Replacement as_pad(Rewriter& graph, const std::vector<Value>& parts, std::size_t along) {
  const auto is_fill = [&](Value v) {
    return graph.is(v, Op::broadcast) && graph.node(v).as<BroadcastAttributes>().mapping.empty();
  };
  if (parts.size() < 2 || is_fill(parts.front()) == is_fill(parts.back())) return {};
  const bool low = is_fill(parts.front());
  const Value fill = low ? parts.front() : parts.back();
  std::vector<Value> rest(parts.begin() + (low ? 1 : 0), parts.end() - (low ? 0 : 1));
  const std::size_t rank = graph.dims(fill).size();
  PadAttributes widths{Dims(rank, 0), Dims(rank, 0), Dims(rank, 0)};
  (low ? widths.low : widths.high)[along] = graph.dims(fill)[along];
  return graph.add(Op::pad, {graph.concatenate(std::move(rest), along), graph.operand(fill)}, widths);
}

/// What is padded with zeros along one dimension, and where it lies there.
struct Piece {
  Value value;
  std::int64_t begin, end;
};

/// Pieces of an addition tree whose inner additions have no other users.
bool collect_pieces(const Rewriter& graph, Value x, std::optional<std::size_t>& along, std::vector<Piece>& pieces) {
  if (graph.is(x, Op::add)) {
    if (graph.uses(x) != 1) return false;
    return collect_pieces(graph, graph.operand(x, 0), along, pieces) &&
           collect_pieces(graph, graph.operand(x, 1), along, pieces);
  }
  if (!graph.is(x, Op::pad) || !is_identity(graph, graph.operand(x, 1), ReduceKind::sum)) return false;
  const auto& a = graph.node(x).as<PadAttributes>();
  for (std::size_t d = 0; d < a.low.size(); ++d) {
    if (a.low[d] < 0 || a.high[d] < 0 || a.interior[d] != 0) return false;
    if (a.low[d] == 0 && a.high[d] == 0) continue;
    if (along.value_or(d) != d) return false;
    along = d;
  }
  if (!along) return false;
  const Value source = graph.operand(x);
  pieces.push_back({source, a.low[*along], a.low[*along] + graph.dims(source)[*along]});
  return true;
}

}  // namespace

Replacement concatenation(Rewriter& graph, const Node& node) {
  const std::size_t along = dimension_of(node);
  std::vector<Value> parts;
  for (const Value& part : flattened(graph, node)) {
    const auto both = parts.empty() ? std::nullopt : joined_slices(graph, parts.back(), part, along);
    if (both) {
      parts.back() = *both;
    } else {
      parts.push_back(part);
    }
  }
  if (parts.empty()) return {};
  if (Replacement pad = as_pad(graph, parts, along)) return pad;
  if (parts == node.operands && parts.size() > 1) return {};
  return graph.concatenate(std::move(parts), along);
}

Replacement sum_of_pads(Rewriter& graph, const Node& node) {
  std::optional<std::size_t> along;
  std::vector<Piece> pieces;
  for (const Value& operand : node.operands) {
    if (!collect_pieces(graph, operand, along, pieces)) return {};
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  std::vector<Value> parts;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0 && pieces[i].begin != pieces[i - 1].end) return {};
    parts.push_back(pieces[i].value);
  }
  const Value middle = graph.concatenate(std::move(parts), *along);
  const Dims& dims = node.type().dims;
  PadAttributes widths{Dims(dims.size(), 0), Dims(dims.size(), 0), Dims(dims.size(), 0)};
  widths.low[*along] = pieces.front().begin;
  widths.high[*along] = dims[*along] - pieces.back().end;
  if (widths.low[*along] == 0 && widths.high[*along] == 0) return middle;
  const DType dtype = node.type().dtype;
  return graph.add(Op::pad, {middle, graph.scalar(dtype, 0)}, widths);
}

}  // namespace stitch::graph
