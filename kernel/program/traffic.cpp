#include "kernel/program/traffic.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "graph/in_place.h"

namespace stitch::kernel {
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
  for (const NodeId user : uses[value.node]) {
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

/// Per parameter: the bytes that the kernel takes of it.
std::vector<std::int64_t> parameter_bytes(const Graph& kernel) {
  const auto uses = graph::users(kernel);
  const std::vector<bool> results = graph::is_result(kernel);
  std::vector<std::int64_t> bytes;
  for (const NodeId id : kernel.parameters()) {
    const std::int64_t full = kernel.node(id).type().bytes();
    const std::optional<std::int64_t> part = results[id] ? std::nullopt : bytes_taken(kernel, {id, 0}, uses);
    bytes.push_back(part ? std::min(*part, full) : full);
  }
  return bytes;
}

/// Bytes that one sweep loads of each buffer, at most; of one slab.
std::map<Buffer, std::int64_t> sweep_bytes(const GroupProgram& group, std::size_t sweep) {
  std::map<Buffer, std::int64_t> bytes;
  const auto count = [&](const std::vector<ItemId>& items) {
    for (const ItemId id : items) {
      const Item& item = group.structure.program->at(id);
      if (item.kind != Item::Kind::load) continue;
      std::int64_t elements = 1;
      for (const int a : item.axes) elements *= group.extents[a];
      const double all = elements * graph::byte_size(item.dtype);
      bytes[item.buffer] += std::llround(all * (1 - group.found_share(id)));
    }
  };
  if (sweep == 0) count(group.hoisted);
  count(group.sweeps[sweep].uniform);
  count(group.sweeps[sweep].body);
  return bytes;
}

}  // namespace

std::int64_t kernel_bytes(const Graph& kernel) {
  const std::vector<std::int64_t> parameters = parameter_bytes(kernel);
  std::int64_t bytes = std::accumulate(parameters.begin(), parameters.end(), std::int64_t{0});
  for (const Value result : kernel.results()) {
    const bool in_place = graph::updated_parameter(kernel, result).has_value();
    bytes += kernel.type(in_place ? kernel.node(result.node).operands[1] : result).bytes();
  }
  return bytes;
}

std::int64_t scheduled_bytes(const Graph& kernel, const KernelProgram& program) {
  const std::vector<std::int64_t> taken = parameter_bytes(kernel);
  std::int64_t bytes = kernel_bytes(kernel);
  if (program.recurrent != nullptr) return bytes;  // what turns and phases hand on stays on chip
  const std::int64_t slabs = program.schedule.slabs.count;
  std::map<Buffer, std::int64_t> read;
  for (const PhaseProgram& phase : program.phases) {
    for (const GroupProgram& group : phase.groups) {
      // What a scatter adds to has been stored by an earlier phase: it is read and written once more.
      for (const Anchor& anchor : group.structure.anchors) {
        if (anchor.kind == Anchor::Kind::atomic) bytes += 2 * kernel.type(kernel.node(anchor.node).operands[2]).bytes();
      }
      for (std::size_t sweep = 0; sweep < group.sweeps.size(); ++sweep) {
        for (const auto& [buffer, here] : sweep_bytes(group, sweep)) {
          const std::size_t number = buffer.number;
          if (buffer.kind == Buffer::Kind::input) read[buffer] += slabs * std::min(here, taken[number]);
          if (buffer.kind == Buffer::Kind::output)
            read[buffer] += slabs * std::min(here, kernel.type(kernel.results()[number]).bytes());
        }
      }
    }
  }
  // The first reading of an input is in kernel_bytes; outputs are read only by later phases.
  for (const auto& [buffer, total] : read) {
    const bool input = buffer.kind == Buffer::Kind::input;
    bytes += input ? std::max<std::int64_t>(0, total - taken[buffer.number]) : total;
  }
  for (std::size_t i = 0; i < program.scratch.size(); ++i) bytes += 2 * program.scratch_bytes(i);
  return bytes;
}

}  // namespace stitch::kernel
