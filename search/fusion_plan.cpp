#include "search/fusion_plan.h"

#include <algorithm>
#include <map>
#include <optional>

#include "graph/in_place.h"

namespace stitch::search {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::Value;

/// Bytes that the users of `value` take of it, or nothing when one of them needs all of it.
std::optional<std::int64_t> bytes_taken(const Graph& kernel, Value value,
                                        const std::vector<std::vector<NodeId>>& uses) {
  std::int64_t total = 0;
  for (const NodeId user : uses[static_cast<std::size_t>(value.node)]) {
    const Node& node = kernel.node(user);
    const bool first = node.operands[0] == value && std::count(node.operands.begin(), node.operands.end(), value) == 1;
    if (node.op == Op::reshape) {
      const std::optional<std::int64_t> part = bytes_taken(kernel, {user, 0}, uses);
      if (!part) return std::nullopt;
      total += *part;
    } else if (first && node.op == Op::dynamic_update_slice && graph::updated_parameter(kernel, {user, 0})) {
      continue;  // only written to
    } else if (first && (node.op == Op::slice || node.op == Op::dynamic_slice || node.op == Op::gather)) {
      total += node.type().bytes();
    } else {
      return std::nullopt;
    }
  }
  return total;
}

}  // namespace

std::int64_t kernel_bytes(const Graph& kernel) {
  const auto uses = graph::users(kernel);
  const std::vector<bool> results = graph::is_result(kernel);
  std::int64_t bytes = 0;
  for (const NodeId id : kernel.parameters()) {
    const std::int64_t full = kernel.node(id).type().bytes();
    const std::optional<std::int64_t> part =
        results[static_cast<std::size_t>(id)] ? std::nullopt : bytes_taken(kernel, {id, 0}, uses);
    bytes += part ? std::min(*part, full) : full;
  }
  for (const Value result : kernel.results()) {
    const bool in_place = graph::updated_parameter(kernel, result).has_value();
    bytes += kernel.type(in_place ? kernel.node(result.node).operands[1] : result).bytes();
  }
  return bytes;
}

std::int64_t scheduled_bytes(const Graph& kernel, const KernelProgram& program) {
  std::int64_t bytes = kernel_bytes(kernel);
  std::map<Buffer, int> sweeps_reading;
  std::map<Buffer, std::int64_t> size;
  for (const PhaseProgram& phase : program.phases) {
    std::map<Buffer, int> here;
    for (const GroupProgram& group : phase.groups) {
      // What a scatter adds to has been stored by an earlier phase: it is read and written once more.
      for (const Anchor& anchor : group.structure.anchors) {
        if (anchor.kind == Anchor::Kind::atomic) bytes += 2 * kernel.type(kernel.node(anchor.node).operands[2]).bytes();
      }
      for (const Sweep& sweep : group.sweeps) {
        std::map<Buffer, bool> seen;
        std::vector<ItemId> items = sweep.uniform;  // where threads have one element each, all there is
        items.insert(items.end(), sweep.body.begin(), sweep.body.end());
        for (const ItemId id : items) {
          const Item& item = group.structure.program->at(id);
          if (item.kind != Item::Kind::load || item.buffer.kind == Buffer::Kind::table) continue;
          std::int64_t elements = 1;
          for (std::size_t a = 0; a < group.extents.size(); ++a) {
            if (((item.axes >> a) & 1) != 0) elements *= group.extents[a];
          }
          size[item.buffer] = std::max(size[item.buffer], elements * graph::byte_size(item.dtype));
          if (!seen[item.buffer]) ++here[item.buffer];
          seen[item.buffer] = true;
        }
      }
    }
    for (const auto& [buffer, count] : here) sweeps_reading[buffer] += count;
  }
  for (const auto& [buffer, count] : sweeps_reading) {
    std::int64_t full = size[buffer];
    if (buffer.kind == Buffer::Kind::input)
      full = std::min(full, kernel.node(kernel.parameters()[static_cast<std::size_t>(buffer.number)]).type().bytes());
    // The first reading of an input is in kernel_bytes; outputs and scratch are read only by later phases.
    const int again = buffer.kind == Buffer::Kind::input ? count - 1 : count;
    if (buffer.kind != Buffer::Kind::scratch) bytes += static_cast<std::int64_t>(again) * full;
  }
  for (std::size_t i = 0; i < program.scratch.size(); ++i) bytes += 2 * program.scratch_bytes(i);
  return bytes;
}

std::int64_t plan_bytes(const FusionPlan& plan) {
  std::int64_t bytes = 0;
  for (const PlannedKernel& planned : plan.kernels) {
    bytes += scheduled_bytes(planned.kernel->graph, planned.kernel->candidates.front().program);
  }
  return bytes;
}

}  // namespace stitch::search
