#include "search/schedule/fixed_rows.h"

#include <algorithm>

#include "search/schedule/thread_layout.h"

namespace stitch::search {
namespace {

using graph::ReduceKind;
using kernel::Anchor;
using kernel::AxisMapping;
using kernel::Level;

constexpr std::int64_t most_threads = 1024;
constexpr std::int64_t vector_bytes = 16;

/// Bytes of what an anchor's operand has: 16-bit floats are added in f32.
int element_bytes(const Anchor& anchor, const graph::Graph& graph) {
  return graph::byte_size(graph::info(graph.node(anchor.node).results[0].dtype).accumulator);
}

/// Threads that share a row of so many vectors: a warp has up to eight of them a lane, more threads eight each.
std::int64_t threads_of(std::int64_t vectors) {
  constexpr std::int64_t each = 8, warp = 32;
  if (vectors <= each * warp) return std::min(warp, power_above(vectors));
  return std::min(most_threads, power_above(divide_up(vectors, each)));
}

}  // namespace

AxisMapping fixed_row(std::int64_t elements, int element_bytes) {
  AxisMapping row;
  std::int64_t& vector = row.at(Level::vector);
  for (vector = vector_bytes / element_bytes; vector > 1 && elements % vector != 0;) vector /= 2;
  const std::int64_t vectors = divide_up(elements, vector), threads = threads_of(vectors);
  row.at(Level::lane) = std::min<std::int64_t>(threads, 32);
  row.at(Level::warp) = threads / row.at(Level::lane);
  const std::int64_t each = divide_up(vectors, threads);
  // A thread of a large block has 64 registers: it holds less of its row.
  constexpr std::int64_t most_held = 32;
  const bool holds = each * vector < most_held || (each * vector == most_held && threads < most_threads);
  if (holds) {
    row.at(Level::reg) = each;
    return row;
  }
  const std::int64_t even = each % 4 == 0 ? 4 : each % 2 == 0 ? 2 : 1;
  row.at(Level::reg) = std::min(each, vector == 1 ? 8 : even);
  row.at(Level::loop) = divide_up(each, row.at(Level::reg));
  return row;
}

std::optional<std::int64_t> fixed_row_elements(const Anchor& anchor, const graph::Graph& graph) {
  if (anchor.kind != Anchor::Kind::reduce && anchor.kind != Anchor::Kind::partial) return std::nullopt;
  const graph::Node& node = graph.node(anchor.node);
  if (node.op != graph::Op::reduce || !graph::is_floating(node.results[0].dtype)) return std::nullopt;
  const auto& reduce = node.as<graph::ReduceAttributes>();
  if (reduce.kind != ReduceKind::sum && reduce.kind != ReduceKind::product) return std::nullopt;
  const graph::Dims& dims = graph.type(node.operands[0]).dims;
  std::int64_t elements = 1;
  bool kept = false;
  for (std::size_t d = dims.size(); d-- > 0;) {
    const bool reduced = graph::contains(reduce.dimensions, d);
    if (dims[d] == 1) continue;
    if (reduced && kept) return std::nullopt;
    kept = kept || !reduced;
    if (reduced) elements *= dims[d];
  }
  if (elements <= 1 || elements > longest_fixed_row) return std::nullopt;
  return elements;
}

std::optional<std::int64_t> fixed_row_vector(const kernel::GroupStructure& group) {
  const graph::Graph& graph = group.program->graph();
  std::optional<std::int64_t> vector;
  for (const Anchor& anchor : group.anchors) {
    const auto elements = fixed_row_elements(anchor, graph);
    if (!elements) continue;
    const std::int64_t own = fixed_row(*elements, element_bytes(anchor, graph)).at(Level::vector);
    vector = std::min(vector.value_or(own), own);
  }
  return vector;
}

bool keeps_rows_fixed(const kernel::GroupStructure& group, const kernel::GroupMapping& mapping) {
  const graph::Graph& graph = group.program->graph();
  const auto& extents = group.program->axes().extents;
  return std::ranges::all_of(group.anchors, [&](const Anchor& anchor) {
    const auto elements = fixed_row_elements(anchor, graph);
    if (!elements) return true;
    if (anchor.kind != Anchor::Kind::reduce || std::ranges::distance(anchor.reduced) != 1) return false;
    const int axis = *anchor.reduced.begin();
    if (extents[axis] != *elements || axis == group.partial_axis || mapping.shifted) return false;
    AxisMapping row = mapping.axes[axis];
    row.interleaved = false;
    return row == fixed_row(*elements, element_bytes(anchor, graph));
  });
}

bool keeps_rows_fixed(const kernel::KernelProgram& program) {
  return std::ranges::all_of(program.phases, [](const kernel::PhaseProgram& phase) {
    return std::ranges::all_of(phase.groups, [](const kernel::GroupProgram& group) {
      return keeps_rows_fixed(group.structure, group.mapping);
    });
  });
}

}  // namespace stitch::search
