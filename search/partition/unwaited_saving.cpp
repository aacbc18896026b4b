#include "search/partition/unwaited_saving.h"

#include <algorithm>
#include <map>

#include "kernel/program/legality.h"
#include "kernel/structure/items.h"

namespace stitch::search {

double unwaited_saving_us(const graph::Graph& graph, const kernel::KernelProgram& program,
                          kernel::UnwaitedInputs inputs, const DeviceSpec& device) {
  if (device.dependent_saving_us() <= 0) return 0;
  const std::vector<kernel::ItemId> loads = kernel::unwaited_loads(program, inputs);
  if (loads.empty()) return 0;
  const kernel::GroupProgram& group = program.phases[0].groups[0];
  const double resident = std::max(1, kernel::resident_blocks(program, device));
  const double threads = group.threads * std::min<double>(program.blocks, resident * device.sm_count);
  std::map<int, double> bytes;  // by input
  for (const kernel::ItemId id : loads) {
    const kernel::Item& item = group.structure.program->at(id);
    bytes[item.buffer.number] += threads * group.register_elements(item.axes) * graph::byte_size(item.dtype);
  }
  double all = 0;
  for (const auto& [input, of_blocks] : bytes)
    all += std::min<double>(of_blocks, graph.node(graph.parameters()[input]).type().bytes());
  const double rest_of_gap = device.launch_us - device.dependent_saving_us();
  return std::min(all / device.reachable_bandwidth() * 1e6, rest_of_gap);
}

}  // namespace stitch::search
