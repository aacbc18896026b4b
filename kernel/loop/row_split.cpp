#include "kernel/loop/row_split.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <set>

#include "graph/fill.h"
#include "graph/literal.h"
#include "graph/passes/loops/trip_count.h"
#include "graph/passes/loops/turn_lines.h"
#include "graph/strided_view.h"
#include "kernel/structure/kernel_graph.h"

namespace stitch::kernel {
namespace {

using graph::contains;
using graph::Dims;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::Value;

/// Launches are nothing beside what longer loops take, and a kernel that runs for tens of milliseconds can be neither
/// verified nor stopped.
constexpr std::int64_t most_turns = std::int64_t{1} << 14;
constexpr NodeId most_nodes = 1024;
constexpr std::size_t most_carried = 256;
/// Rows that have a block on each SM of a large GPU: more of them are no reason for another dimension.
constexpr std::int64_t enough_rows = 128;

/// Dimension of a reshape's operand that becomes `dimension` of its result unchanged.
std::optional<int> reshaped_dimension(const Dims& from, const Dims& to, int dimension) {
  const std::size_t d = dimension;
  std::int64_t before = 1, product = 1;
  for (std::size_t i = 0; i < d; ++i) before *= to[i];
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (product == before && from[i] == to[d]) return i;
    product *= from[i];
  }
  return std::nullopt;
}

std::optional<int> dot_dimension(const graph::DotAttributes& a, const Dims& lhs, const Dims& rhs, bool left,
                                 int dimension) {
  std::size_t at = dimension;
  if (at < a.lhs_batch.size()) return left ? a.lhs_batch[at] : a.rhs_batch[at];
  at -= a.lhs_batch.size();
  const auto nth_free = [](const Dims& dims, const Dims& batch, const Dims& contracting,
                           std::size_t& n) -> std::optional<int> {
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const std::int64_t number = d;
      if (contains(batch, number) || contains(contracting, number)) continue;
      if (n == 0) return d;
      --n;
    }
    return std::nullopt;
  };
  const std::optional<int> of_lhs = nth_free(lhs, a.lhs_batch, a.lhs_contracting, at);
  if (of_lhs) return left ? *of_lhs : -1;
  return left ? -1 : nth_free(rhs, a.rhs_batch, a.rhs_contracting, at);
}

class Splitter {
 public:
  Splitter(const Graph& kernel, NodeId loop)
      : kernel_(kernel), loop_(kernel.node(loop)), body_(*loop_.regions[0]), users_(graph::users(body_)) {}

  Result<RowSplit> split() {
    STITCH_TRY(check_size());
    STITCH_TRY(count_turns());
    classify();
    find_sequences();
    STITCH_TRY(check_operators());
    if (auto found = best_split()) return std::move(*found);
    return make_error(ErrorKind::constraint, "no dimension of the loop's values has rows of their own: {}",
                      why_.empty() ? "nothing is handed from turn to turn" : why_);
  }

 private:
  using Rows = std::vector<std::optional<int>>;  ///< per carried value: its row dimension

  /// A body is one kernel or none: it is not taken apart, and looking at it takes time in proportion to its square.
  Status check_size() const {
    if (body_.size() > most_nodes || loop_.operands.size() > most_carried)
      return make_error(ErrorKind::constraint,
                        "the loop's body has {} operators and carries {} values, at most {} and {}", body_.size(),
                        loop_.operands.size(), most_nodes, most_carried);
    std::set<Value> results;
    for (const Value result : kernel_.results()) {
      if (!results.insert(result).second)
        return make_error(ErrorKind::constraint, "result {} of the loop is asked for twice", result.result);
    }
    return {};
  }

  Status count_turns() {
    const auto start = [&](std::size_t i) -> std::optional<std::int64_t> {
      const auto bits = graph::fill_bits(kernel_, loop_.operands[i]);
      const graph::DType dtype = kernel_.type(loop_.operands[i]).dtype;
      if (!bits || !graph::is_integer(dtype)) return std::nullopt;
      std::byte bytes[8];
      std::memcpy(bytes, &*bits, sizeof bytes);
      return graph::load_integer(dtype, bytes);
    };
    const auto turns = graph::trip_count(body_, *loop_.regions[1], start);
    if (!turns || *turns < 1) return make_error(ErrorKind::constraint, "how often the loop runs is not known");
    if (*turns > most_turns)
      return make_error(ErrorKind::constraint, "the loop runs {} times, at most {}", *turns, most_turns);
    split_.turns = *turns;
    std::vector<std::optional<std::int64_t>> starts;
    for (std::size_t i = 0; i < loop_.operands.size(); ++i) starts.push_back(start(i));
    lines_.emplace(body_, starts, split_.turns);
    return {};
  }

  void classify() {
    for (std::size_t i = 0; i < loop_.operands.size(); ++i) {
      CarriedValue carried;
      const Value result = body_.results()[i];
      if (graph::without_reshapes(body_, result) == Value{body_.parameters()[i], 0}) {
        carried.kind = CarriedValue::Kind::invariant;
      } else if (is_stacked(i, carried)) {
        carried.kind = CarriedValue::Kind::stacked;
      } else {
        carried.kind = CarriedValue::Kind::state;
      }
      split_.carried.push_back(carried);
    }
  }

  void find_sequences() {
    for (NodeId id = 0; id < body_.size(); ++id) {
      const Node& node = body_.node(id);
      if (node.op != Op::dynamic_slice) continue;
      const auto number = parameter_number(body_, node.operands[0].node);
      if (!number || split_.carried[*number].kind != CarriedValue::Kind::invariant) continue;
      const Dims& extents = body_.type(node.operands[0]).dims;
      if (const auto axis = lines_->axis(extents, node.as<graph::DynamicSliceAttributes>().sizes, node, 1))
        split_.sequences[id] = *axis;
    }
  }

  /// Whether every turn writes a slice of carried value i, all of them all of it.
  bool is_stacked(std::size_t i, CarriedValue& carried) const {
    const Value update = graph::without_reshapes(body_, body_.results()[i]);
    const Node& node = body_.node(update.node);
    if (node.op != Op::dynamic_update_slice || !is_only_updated(body_.parameters()[i], update.node)) return false;
    const auto axis = lines_->axis(node.type().dims, body_.type(node.operands[1]).dims, node, 2);
    if (!axis) return false;
    carried.update = update.node;
    carried.turn_dimension = axis->dimension;
    return true;
  }

  /// Whether nothing but the update, through reshapes, has to do with the parameter, and nothing but the result with
  /// the update.
  [[nodiscard]] bool is_only_updated(NodeId parameter, NodeId update) const {
    NodeId at = parameter;
    while (at != update) {
      const auto& readers = users_[at];
      if (readers.size() != 1) return false;
      const Node& reader = body_.node(readers[0]);
      if (readers[0] != update && reader.op != Op::reshape) return false;
      if (reader.operands[0].node != at ||
          std::count(reader.operands.begin(), reader.operands.end(), Value{at, 0}) != 1)
        return false;
      at = readers[0];
    }
    for (;;) {
      const auto& readers = users_[at];
      const auto stored = std::count(body_.results().begin(), body_.results().end(), Value{at, 0});
      if (readers.empty()) return stored == 1;
      if (stored != 0 || readers.size() != 1 || body_.node(readers[0]).op != Op::reshape) return false;
      at = readers[0];
    }
  }

  Status check_operators() const {
    for (NodeId id = 0; id < body_.size(); ++id) {
      const Op op = body_.node(id).op;
      const graph::OpCategory category = graph::info(op).category;
      const bool unknown = category == graph::OpCategory::control || category == graph::OpCategory::boundary ||
                           (category == graph::OpCategory::contraction && op != Op::dot);
      if (unknown) return make_error(ErrorKind::constraint, "the loop's body has a {}", graph::to_string(op));
    }
    return {};
  }

  /// The first dimension of a state that has enough rows, else the one with most.
  std::optional<RowSplit> best_split() {
    std::optional<RowSplit> best;
    for (std::size_t i = 0; i < split_.carried.size(); ++i) {
      if (split_.carried[i].kind != CarriedValue::Kind::state) continue;
      const Dims& dims = body_.type(body_.results()[i]).dims;
      for (std::size_t d = 0; d < dims.size(); ++d) {
        if (dims[d] <= (best ? best->rows : 1) || !seed(i, d)) continue;
        best = split_;
        if (best->rows >= enough_rows) return best;
      }
    }
    return best;
  }

  /// Takes dimension `dimension` of carried value i for its rows, and finds those of all others.
  bool seed(std::size_t i, int dimension) {
    rows_ = body_.type(body_.results()[i]).dims[dimension];
    if (rows_ > std::numeric_limits<std::int32_t>::max()) return false;  // a block's first row is an s32
    Rows rows(split_.carried.size());
    if (!assume(rows, i, dimension)) return false;
    for (std::size_t c = 0; c < rows.size(); ++c) {
      if (split_.carried[c].kind == CarriedValue::Kind::invariant || rows[c]) continue;
      if (!assume_any(rows, c)) return false;
    }
    split_.rows = rows_;
    for (std::size_t c = 0; c < rows.size(); ++c) split_.carried[c].row_dimension = rows[c].value_or(-1);
    return true;
  }

  bool assume_any(Rows& rows, std::size_t i) {
    const CarriedValue& carried = split_.carried[i];
    const bool stacked = carried.kind == CarriedValue::Kind::stacked;
    const Dims& dims = stacked ? body_.node(carried.update).type().dims : body_.type(body_.results()[i]).dims;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] != rows_ || static_cast<int>(d) == carried.turn_dimension) continue;
      Rows attempt = rows;
      if (!assume(attempt, i, d)) continue;
      rows = std::move(attempt);
      return true;
    }
    // What has no rows is computed by every block for itself, and so it cannot be written by all of them.
    return !stacked && assume(rows, i, -1);
  }

  bool assume(Rows& rows, std::size_t i, int dimension) {
    std::set<std::pair<Value, int>> seen;
    open_ = {i};
    rows[i] = dimension;
    while (!open_.empty()) {
      const std::size_t next = open_.back();
      open_.pop_back();
      const CarriedValue& carried = split_.carried[next];
      if (carried.kind == CarriedValue::Kind::stacked) {
        const Node& update = body_.node(carried.update);
        if (!walk(rows, update.operands[1], *rows[next], seen)) return false;
        for (std::size_t o = 2; o < update.operands.size(); ++o) {
          if (!walk(rows, update.operands[o], -1, seen)) return false;
        }
      } else if (!walk(rows, body_.results()[next], *rows[next], seen)) {
        return false;
      }
    }
    return true;
  }

  /// Whether rows along `dimension` of a value (-1: all of the value) can be had from the block's part of the states.
  bool walk(Rows& rows, Value value, int dimension, std::set<std::pair<Value, int>>& seen) {
    if (!seen.insert({value, dimension}).second) return true;
    const Node& node = body_.node(value.node);
    if (node.op == Op::parameter) {
      const std::size_t number = *parameter_number(body_, value.node);
      const CarriedValue& carried = split_.carried[number];
      if (carried.kind == CarriedValue::Kind::invariant) return true;
      if (carried.kind == CarriedValue::Kind::stacked) return refuse(value, "is read while it is written");
      if (!rows[number]) {
        rows[number] = dimension;
        open_.push_back(number);
      }
      return *rows[number] == dimension || refuse(value, "is needed row by row and as a whole");
    }
    if (node.op == Op::constant || node.op == Op::iota) return true;
    if (dimension >= 0 && node.results.size() != 1 && !graph::is_elementwise(node.op))
      return refuse(value, "has several results");
    // Rows of what depends on no state may be taken of the whole: of a mask's numbers, counted in one dimension.
    if (dimension >= 0 && !rows_are_plain(body_, value.node, dimension))
      return walk(rows, value, -1, seen) || refuse(value, mixes);
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const int below = dimension < 0 ? -1 : *operand_dimension(body_, value.node, i, dimension);
      if (!walk(rows, node.operands[i], below, seen)) return false;
    }
    return true;
  }

  static constexpr std::string_view mixes = "mixes rows";

  /// Why not, by the first obstacle, or the operator on the way to it that mixes rows.
  bool refuse(Value value, std::string_view what) {
    if (why_.empty() || what == mixes)
      why_ = fmt::format("{} %{} {}", graph::to_string(body_.node(value.node).op), value.node, what);
    return false;
  }

  const Graph& kernel_;
  const Node& loop_;
  const Graph& body_;
  const std::vector<std::vector<NodeId>> users_;
  std::optional<graph::TurnLines> lines_;
  RowSplit split_;
  std::int64_t rows_ = 0;
  std::vector<std::size_t> open_;  ///< carried values that were assumed and not yet looked into
  std::string why_;
};

}  // namespace

std::optional<NodeId> recurrent_loop(const Graph& kernel) {
  std::optional<NodeId> loop;
  for (NodeId id = 0; id < kernel.size(); ++id) {
    switch (kernel.node(id).op) {
      case Op::parameter:
      case Op::constant:
      case Op::broadcast:
      case Op::reshape: break;
      case Op::loop:
        if (loop) return std::nullopt;
        loop = id;
        break;
      default: return std::nullopt;
    }
  }
  if (!loop) return std::nullopt;
  for (const Value result : kernel.results()) {
    if (result.node != *loop) return std::nullopt;
  }
  for (const Value operand : kernel.node(*loop).operands) {
    const bool in_memory = kernel.node(graph::without_reshapes(kernel, operand).node).op == Op::parameter;
    if (!in_memory && !graph::fill_bits(kernel, operand)) return std::nullopt;
  }
  return loop;
}

bool rows_are_plain(const Graph& graph, NodeId id, int dimension) {
  const auto operands = graph.node(id).operands.size();
  for (std::size_t i = 0; i < operands; ++i) {
    if (!operand_dimension(graph, id, i, dimension)) return false;
  }
  return true;
}

Result<RowSplit> split_rows(const Graph& kernel, NodeId loop) { return Splitter(kernel, loop).split(); }

std::optional<int> operand_dimension(const Graph& graph, NodeId id, std::size_t operand, int dimension) {
  const Node& node = graph.node(id);
  const Dims& from = graph.type(node.operands[operand]).dims;
  const std::size_t d = dimension;
  if (graph::is_elementwise(node.op)) return from.empty() ? -1 : dimension;
  switch (node.op) {
    case Op::broadcast: {
      const auto& mapping = node.as<graph::BroadcastAttributes>().mapping;
      const auto found = std::find(mapping.begin(), mapping.end(), dimension);
      if (found == mapping.end()) return -1;
      const std::size_t at = found - mapping.begin();
      if (from[at] != node.type().dims[d]) return -1;  // one element, repeated
      return at;
    }
    case Op::reshape: return reshaped_dimension(from, node.type().dims, dimension);
    case Op::transpose: return node.as<graph::TransposeAttributes>().permutation[d];
    case Op::slice: {
      const auto& a = node.as<graph::SliceAttributes>();
      if (a.starts[d] == 0 && a.limits[d] == from[d] && a.strides[d] == 1) return dimension;
      return std::nullopt;
    }
    case Op::dynamic_slice:
      if (operand > 0) return -1;
      return node.type().dims[d] == from[d] ? std::optional(dimension) : std::nullopt;
    case Op::dynamic_update_slice:
      if (operand > 1) return -1;
      return graph.type(node.operands[1]).dims[d] == node.type().dims[d] ? std::optional(dimension) : std::nullopt;
    case Op::concatenate:
      return node.as<graph::ConcatenateAttributes>().dimension == dimension ? std::nullopt : std::optional(dimension);
    case Op::pad: {
      if (operand > 0) return -1;
      const auto& a = node.as<graph::PadAttributes>();
      if (a.low[d] == 0 && a.high[d] == 0 && a.interior[d] == 0) return dimension;
      return std::nullopt;
    }
    case Op::reverse:
      return contains(node.as<graph::ReverseAttributes>().dimensions, dimension) ? std::nullopt
                                                                                 : std::optional(dimension);
    case Op::reduce: {
      const Dims& reduced = node.as<graph::ReduceAttributes>().dimensions;
      int kept = 0;
      for (std::size_t i = 0; i < from.size(); ++i) {
        if (contains(reduced, i)) continue;
        if (kept++ == dimension) return i;
      }
      return std::nullopt;
    }
    case Op::dot:
      return dot_dimension(node.as<graph::DotAttributes>(), graph.type(node.operands[0]).dims,
                           graph.type(node.operands[1]).dims, operand == 0, dimension);
    default: return std::nullopt;
  }
}

}  // namespace stitch::kernel
