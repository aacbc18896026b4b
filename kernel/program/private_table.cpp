#include "kernel/program/private_table.h"

#include <algorithm>

namespace stitch::kernel {
namespace {

constexpr std::int64_t bytes_of_thread = 64, most_bytes = 32 << 10;
/// Each element of the table costs two passes of its own: its identity and its way into device memory.
constexpr std::int64_t least_updates_of_element = 4;
/// What is no native operation of an SM takes some 40 cycles for a warp (guess), on all SMs together about 100 elements
/// a cycle. L2 takes one request of each line's slice a cycle, of up to four elements: less from this many lines down.
constexpr std::int64_t most_slow_requests = 64, line_bytes = 128;

bool is_integer_of_32_bits(graph::DType dtype) { return dtype == graph::DType::s32 || dtype == graph::DType::u32; }

}  // namespace

bool PrivateTable::is_native() const {
  return is_integer_of_32_bits(dtype) || (dtype == graph::DType::f32 && combiner != graph::ReduceKind::sum);
}

std::optional<PrivateTable> private_table(const graph::Graph& graph, const KernelProgram& program, std::size_t phase) {
  const PhaseProgram& of = program.phases[phase];
  const bool plain = program.recurrent == nullptr && program.schedule.cluster == 1 && program.schedule.slabs.count == 1;
  if (!plain || of.groups.size() != 1 || of.groups[0].structure.anchors.size() != 1 || program.runs_alone(phase))
    return std::nullopt;
  const Anchor& anchor = of.groups[0].structure.anchors[0];
  if (anchor.kind != Anchor::Kind::atomic) return std::nullopt;
  const graph::Node& node = graph.node(anchor.node);
  const PrivateTable table{node.type().elements(), anchor.dtype, node.as<graph::ScatterAttributes>().combiner,
                           anchor.buffers[0]};
  if (!is_integer_of_32_bits(table.dtype) && table.dtype != graph::DType::f32) return std::nullopt;
  if (table.bytes() > std::min<std::int64_t>(bytes_of_thread * program.schedule.threads, most_bytes))
    return std::nullopt;
  const std::int64_t updates = graph.type(node.operands[2]).elements();
  if (updates < least_updates_of_element * table.elements * std::min(of.tiles, program.clusters())) return std::nullopt;
  const std::int64_t lines = (table.bytes() + line_bytes - 1) / line_bytes;
  if (!table.is_native() && lines * of.groups[0].stores[0][0].width > most_slow_requests) return std::nullopt;
  return table;
}

}  // namespace stitch::kernel
