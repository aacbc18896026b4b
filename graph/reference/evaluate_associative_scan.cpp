#include <algorithm>
#include <cmath>

#include "graph/reference/evaluate_functions.h"
#include "graph/reference/evaluate_run.h"

// associative-scan: tuples combined by a region. An associative combiner leaves the order of combination to the kernel,
// and what that does to rounding has no closed form. So the scan is computed in the two orders between which kernels
// lie, one element after the other (in chunks, where lines are long) and doubling distances (Hillis and Steele 1986);
// the bound is several times the larger of both bounds, plus what the two differ by and what is around sums.

namespace stitch::graph::reference {
namespace {

/// One block per component, all of [rows, lines]: row r has what is combined in step r.
using Tuple = std::vector<Block>;

/// Up to this many rows are combined one after the other; more in chunks of about the root of their number.
constexpr std::int64_t most_serial_rows = 1024;
/// How much larger the error of an order may be than of the two that are looked at: where terms cancel, what others
/// combine on the way is several times larger (guess).
constexpr double other_orders = 8;
/// Sums may cancel in both orders and not in others, which begin some rows further on: what these combine is about as
/// large as what there is in one of so many rows before (guess).
constexpr std::int64_t rows_alike = 8;

/// The combiner on tensors of `dims` in place of scalars.
Result<Graph> lifted(const Graph& combiner, const Dims& dims) {
  Graph graph;
  std::vector<Value> copies;
  for (const Node& node : combiner.nodes()) {
    std::vector<Value> operands;
    for (const Value operand : node.operands) operands.push_back(copies[operand.node]);
    Attributes attributes = node.attributes;
    if (node.op == Op::parameter) attributes = ParameterAttributes{{node.type().dtype, dims}};
    STITCH_ASSIGN(Value copy, graph.add(node.op, std::move(operands), std::move(attributes)));
    if (node.op == Op::constant) {
      STITCH_ASSIGN(copy, graph.add(Op::broadcast, {copy}, BroadcastAttributes{dims, {}}));
    }
    copies.push_back(copy);
  }
  for (const Value result : combiner.results()) graph.add_result(copies[result.node]);
  return graph;
}

class TupleScan {
 public:
  TupleScan(const Graph& combiner, const EvaluateOptions& options, Memory& memory, std::int64_t rows,
            std::int64_t lines)
      : combiner_(combiner), options_(options), memory_(memory), rows_(rows), lines_(lines) {}

  /// Row by row; or chunk by chunk: within all chunks side by side, then over their totals, then both together.
  Result<Tuple> in_chunks(const Tuple& x) {
    const std::int64_t chunk =
        rows_ <= most_serial_rows ? rows_ : static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(rows_))));
    STITCH_ASSIGN(Tuple out, copied(x));
    for (std::int64_t i = 1; i < chunk; ++i) {
      STITCH_TRY(combine_rows(out, {i - 1, chunk}, out, {i, chunk}));
    }
    for (std::int64_t first = chunk; first < rows_; first += chunk) {
      // The chunk's last row has the total of all before once it is combined with the chunk's before.
      const std::int64_t last = std::min(first + chunk, rows_) - 1;
      STITCH_TRY(combine_rows(out, {first - 1, rows_}, out, {last, rows_}));
    }
    for (std::int64_t i = 0; i + 1 < chunk; ++i) {  // the last row of all has its total, also of a chunk cut short
      STITCH_TRY(combine_rows(out, {chunk - 1, chunk}, out, {chunk + i, chunk}, rows_ - 1));
    }
    return out;
  }

  /// Every row with the one 1, 2, 4, … before it.
  Result<Tuple> by_doubling(const Tuple& x) {
    STITCH_ASSIGN(Tuple out, copied(x));
    for (std::int64_t distance = 1; distance < rows_; distance *= 2) {
      STITCH_ASSIGN(const Tuple before, copied(out));
      STITCH_TRY(combine_rows(before, {0, 1}, out, {distance, 1}));
    }
    return out;
  }

 private:
  struct Rows {
    std::int64_t first, step;
  };

  Result<Tuple> copied(const Tuple& x) { return rows_of(x, {0, 1}, rows_); }

  /// Rows `right` of `to`, up to row `end`, become combinations of rows `left` of `from` with them.
  Status combine_rows(const Tuple& from, Rows left, Tuple& to, Rows right, std::int64_t end) {
    if (right.first >= end) return {};
    const std::int64_t count = (end - right.first - 1) / right.step + 1;
    STITCH_ASSIGN(const Tuple before, rows_of(from, left, count));
    STITCH_ASSIGN(const Tuple after, rows_of(to, right, count));
    STITCH_ASSIGN(const Graph graph, lifted(combiner_, {count, lines_}));
    std::vector<Source> sources;
    for (const Block& block : before) sources.push_back({nullptr, &block});
    for (const Block& block : after) sources.push_back({nullptr, &block});
    std::vector<Wanted> wanted;
    for (const Value result : graph.results()) wanted.push_back({result, {Box::whole({count, lines_})}});
    Evaluation inside(graph, sources, options_, memory_, false);
    STITCH_ASSIGN(const auto blocks, inside.run(wanted));
    for (std::size_t k = 0; k < to.size(); ++k) {
      STITCH_ASSIGN(const Block dense, expanded(memory_, blocks[k][0]));
      Storage& target = *to[k].data;
      if (!dense.exact() && target.bounds.empty()) target.bounds.assign(rows_ * lines_, 0.0);
      copy_values({{count, lines_}, {lines_, 1}, {right.step * lines_, 1}}, dense, 0, target, right.first * lines_);
      target.nonnegative = target.nonnegative && dense.data->nonnegative;
    }
    return {};
  }
  Status combine_rows(const Tuple& from, Rows left, Tuple& to, Rows right) {
    return combine_rows(from, left, to, right, rows_);
  }

  Result<Tuple> rows_of(const Tuple& x, Rows rows, std::int64_t count) {
    Tuple out;
    for (const Block& block : x) {
      STITCH_ASSIGN(StorageRef storage, memory_.make(block.dtype, count * lines_, !block.exact()));
      copy_values({{count, lines_}, {rows.step * lines_, 1}, {lines_, 1}}, block, rows.first * lines_, *storage, 0);
      storage->nonnegative = block.data->nonnegative;
      out.push_back({block.dtype, Box::whole({count, lines_}), std::move(storage), false});
    }
    return out;
  }

  const Graph& combiner_;
  const EvaluateOptions& options_;
  Memory& memory_;
  const std::int64_t rows_, lines_;
};

/// Takes from floats that they are exact, by next to nothing: that a sum of exact numbers is one of its type holds for
/// the order in which it is added here, and says nothing of others.
void doubt(Tuple& x) {
  constexpr double next_to_nothing = 1e-300;
  for (Block& block : x) {
    if (!is_floating(block.dtype)) continue;
    Storage& storage = *block.data;
    if (storage.bounds.empty()) storage.bounds.assign(storage.floats.size(), 0.0);
    for (double& bound : storage.bounds) bound = std::max(bound, next_to_nothing);
  }
}

/// The largest bound of a float in each row or one of the `rows_alike` before it; what is not checked counts for
/// itself.
std::vector<double> bounds_nearby(const std::vector<double>& bounds, std::int64_t rows, std::int64_t lines) {
  std::vector<double> nearby = bounds;
  for (std::int64_t distance = 1; distance <= rows_alike; ++distance) {
    for (std::int64_t i = distance * lines; i < rows * lines; ++i) {
      const double before = bounds[i - distance * lines];
      if (before > nearby[i] && std::isfinite(before)) nearby[i] = before;
    }
  }
  return nearby;
}

/// Whether a component is a sum, or one is selected; products do not cancel.
bool is_sum(const Graph& combiner, Value component) {
  const Node& node = combiner.node(component.node);
  if (node.op == Op::select) return is_sum(combiner, node.operands[1]) || is_sum(combiner, node.operands[2]);
  return node.op == Op::add || node.op == Op::subtract;
}

/// Makes `one` what is known of both orders, [rows, lines] each.
void join_orders(Block& one, const Block& other, bool sum, std::int64_t rows, std::int64_t lines) {
  Storage& data = *one.data;
  data.nonnegative = data.nonnegative && other.data->nonnegative;
  const bool floats = is_floating(one.dtype);
  const std::size_t count = floats ? data.floats.size() : data.integers.size();
  if (data.bounds.empty()) data.bounds.assign(count, 0.0);
  std::vector<double> distances(count);
  for (std::size_t i = 0; i < count; ++i) {
    double apart = 0;
    if (floats) {
      const double a = data.floats[i], b = other.data->floats[i];
      const bool same = a == b || (std::isnan(a) && std::isnan(b));
      apart = same ? 0 : std::isfinite(a - b) ? std::abs(a - b) : unchecked;
    } else if (data.integers[i] != other.data->integers[i]) {
      apart = unchecked;
    }
    data.bounds[i] = std::max(data.bounds[i], other.exact() ? 0.0 : other.data->bounds[i]);
    distances[i] = apart;
  }
  const bool cancels = floats && sum;
  const std::vector<double> nearby =
      cancels ? bounds_nearby(data.bounds, rows, lines) : std::vector<double>(count, 0.0);
  for (std::size_t i = 0; i < count; ++i) data.bounds[i] = other_orders * data.bounds[i] + nearby[i] + distances[i];
}

/// Where the elements of `box`, a part of `whole`, lie in [rows, lines]; rows count in the direction of the walk.
struct Layout {
  Dims strides;
  std::int64_t offset = 0;
};
Layout layout_of(const Box& whole, const Box& box, std::size_t dimension, bool reverse) {
  Layout layout{Dims(whole.size.size()), 0};
  std::int64_t lines = 1;
  for (std::size_t d = whole.size.size(); d-- > 0;) {
    if (d == dimension) continue;
    layout.strides[d] = lines;
    lines *= whole.size[d];
  }
  layout.strides[dimension] = reverse ? -lines : lines;
  if (reverse) layout.offset = (whole.size[dimension] - 1) * lines;
  for (std::size_t d = 0; d < box.start.size(); ++d)
    layout.offset += (box.start[d] - whole.start[d]) * layout.strides[d];
  return layout;
}

/// What the wanted boxes of all results depend on: everything up to (or from) them.
Box scanned_box(const Node& node, std::span<const Box> wanted) {
  const auto& a = node.as<AssociativeScanAttributes>();
  const std::size_t d = a.dimension;
  Box box = wanted[0];
  for (const Box& other : wanted) box = hull(box, other);
  const std::int64_t end = a.reverse ? node.type().dims[d] : box.end(d);
  if (!a.reverse) box.start[d] = 0;
  box.size[d] = end - box.start[d];
  return box;
}

}  // namespace

void Evaluation::demand_associative_scan(NodeId id) {
  const Node& node = graph_.node(id);
  std::vector<Box> wanted;
  for (std::int32_t r = 0; r < std::ssize(node.results); ++r) {
    for (const Box& box : slot({id, r}).region.boxes()) wanted.push_back(box);
  }
  const Box box = scanned_box(node, wanted);
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    slot(node.operands[i]).region.add(box);
    state(id).reads[i] = true;
  }
}

Status Evaluation::compute_associative_scan(NodeId id) {
  const Node& node = graph_.node(id);
  const auto& a = node.as<AssociativeScanAttributes>();
  const std::size_t d = a.dimension;
  std::vector<Box> wanted;
  for (std::int32_t r = 0; r < std::ssize(node.results); ++r) {
    for (const Box& box : slot({id, r}).region.boxes()) wanted.push_back(box);
  }
  const Box box = scanned_box(node, wanted);
  const std::int64_t rows = box.size[d], lines = box.elements() / rows;
  const Layout whole = layout_of(box, box, d, a.reverse);
  const OpContext c = context(id, 0);
  Tuple x;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    STITCH_ASSIGN(const Block part, c.operand(i, box));
    STITCH_ASSIGN(const Block dense, expanded(memory_, part));
    STITCH_ASSIGN(StorageRef storage, memory_.make(dense.dtype, rows * lines, !dense.exact()));
    copy_values({box.size, row_major_strides(box.size), whole.strides}, dense, 0, *storage, whole.offset);
    storage->nonnegative = dense.data->nonnegative;
    x.push_back({dense.dtype, Box::whole({rows, lines}), std::move(storage), false});
  }
  EvaluateOptions inside = options_;
  inside.restrictions.clear();
  TupleScan scan(*node.regions[0], inside, memory_, rows, lines);
  STITCH_ASSIGN(Tuple result, scan.in_chunks(x));
  if (options_.bounds) {
    doubt(x);
    STITCH_ASSIGN(const Tuple other, scan.by_doubling(x));
    const Graph& combiner = *node.regions[0];
    for (std::size_t k = 0; k < result.size(); ++k)
      join_orders(result[k], other[k], is_sum(combiner, combiner.results()[k]), rows, lines);
  }
  for (std::int32_t r = 0; r < std::ssize(node.results); ++r) {
    Slot& to = slot({id, r});
    for (const Box& part : to.region.boxes()) {
      const Layout from = layout_of(box, part, d, a.reverse);
      STITCH_ASSIGN(StorageRef storage, memory_.make(result[r].dtype, part.elements(), !result[r].exact()));
      copy_values({part.size, from.strides, row_major_strides(part.size)}, result[r], from.offset, *storage, 0);
      storage->nonnegative = result[r].data->nonnegative;
      to.blocks.push_back({result[r].dtype, part, std::move(storage), false});
    }
  }
  return {};
}

}  // namespace stitch::graph::reference
