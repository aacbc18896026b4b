#include "kernel/program/slab_choice.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "kernel/structure/slab_separation.h"

namespace stitch::kernel {
namespace {

/// Inputs that several phases load, and bytes of each.
std::map<Buffer, std::int64_t> read_again(const KernelProgram& kernel) {
  std::map<Buffer, std::int64_t> loaded;
  std::map<Buffer, std::set<std::size_t>> phases;
  for (std::size_t p = 0; p < kernel.phases.size(); ++p) {
    for (const GroupProgram& group : kernel.phases[p].groups) {
      const ScalarProgram& program = *group.structure.program;
      for (const Item& item : program.items()) {
        if (item.kind != Item::Kind::load || item.buffer.kind != Buffer::Kind::input) continue;
        const std::int64_t bytes = program.loaded_bytes(item);
        if (bytes < least_reread) continue;
        loaded[item.buffer] = std::max(loaded[item.buffer], bytes);
        phases[item.buffer].insert(p);
      }
    }
  }
  std::erase_if(loaded, [&](const auto& each) { return phases.at(each.first).size() < 2; });
  return loaded;
}

bool retains_all(const KernelProgram& kernel, const std::map<Buffer, std::int64_t>& again) {
  return std::ranges::all_of(again, [&](const auto& each) {
    return std::ranges::any_of(kernel.phases, [&](const PhaseProgram& phase) {
      return std::ranges::any_of(phase.groups, [&](const GroupProgram& group) {
        return std::ranges::any_of(group.retained, [&](const RetainedLoad& load) {
          return load.share == 1 && group.structure.program->at(load.item).buffer == each.first;
        });
      });
    });
  });
}

/// Axes that all groups keep.
std::vector<int> kept_axes(const KernelProgram& kernel) {
  std::vector<int> axes = kernel.phases[0].groups[0].structure.program->axes().axes;
  std::erase_if(axes, [&](int axis) {
    return !std::ranges::all_of(kernel.phases, [&](const PhaseProgram& phase) {
      return std::ranges::all_of(phase.groups,
                                 [&](const GroupProgram& group) { return keeps_axis(group.structure, axis); });
    });
  });
  return axes;
}

/// The dimension of an input that begins with an axis; nothing where none does.
std::optional<Slabs> dimension_along(const graph::Graph& graph, const AxisAnalysis& analysis, const Buffer& input,
                                     int axis) {
  const graph::Value value{graph.parameters()[input.number], 0};
  for (std::size_t d = 0; d < graph.type(value).dims.size(); ++d) {
    const std::vector<int>& axes = analysis.of(value, d);
    if (!axes.empty() && axes.front() == axis) return Slabs{value, static_cast<int>(d), 1};
  }
  return std::nullopt;
}

/// In how many slabs of sectors or more an axis of so many places comes apart.
std::vector<std::int64_t> possible_counts(const graph::Graph& graph, Slabs slabs, std::int64_t extent) {
  constexpr std::int64_t least_run = 32;  // bytes side by side
  constexpr std::int64_t most = 1024;     // barriers would take longer than what they save
  std::vector<std::int64_t> counts;
  for (slabs.count = 2; slabs.count <= std::min(extent, most); ++slabs.count) {
    if (extent % slabs.count == 0 && slab_run_bytes(graph, slabs) >= least_run) counts.push_back(slabs.count);
  }
  return counts;
}

}  // namespace

std::int64_t slab_run_bytes(const graph::Graph& graph, const Slabs& slabs) {
  const graph::TensorType& type = graph.type(slabs.value);
  const std::size_t dimension = slabs.dimension;
  std::int64_t elements = type.dims[dimension] / slabs.count;
  for (std::size_t d = dimension + 1; d < type.dims.size(); ++d) elements *= type.dims[d];
  return elements * graph::byte_size(type.dtype);
}

bool keeps_an_axis(const KernelProgram& kernel) { return !kept_axes(kernel).empty(); }

std::vector<std::int64_t> slab_steps(const KernelProgram& kernel, std::size_t results) {
  std::vector<std::optional<std::int64_t>> steps(results);
  for (const PhaseProgram& phase : kernel.phases) {
    for (const GroupProgram& group : phase.groups) {
      for (const Anchor& anchor : group.structure.anchors) {
        if (anchor.kind != Anchor::Kind::store || anchor.buffers[0].kind != Buffer::Kind::output) continue;
        const std::int64_t own =
            group.structure.slab_axis < 0 || anchor.guard >= 0
                ? 0
                : slab_step(*group.structure.program, anchor.addresses.back(), group.structure.slab_axis).value_or(0);
        std::optional<std::int64_t>& step = steps[anchor.buffers[0].number];
        step = step && *step != own ? 0 : own;
      }
    }
  }
  std::vector<std::int64_t> all;
  for (const auto& step : steps) all.push_back(step.value_or(0));
  return all;
}

std::vector<Slabs> slab_options(const graph::Graph& graph, const KernelProgram& kernel, const DeviceSpec& device) {
  if (kernel.phases.size() < 2 || kernel.recurrent != nullptr) return {};
  const std::vector<int> kept = kept_axes(kernel);
  if (kept.empty()) return {};
  const std::map<Buffer, std::int64_t> again = read_again(kernel);
  if (again.empty() || retains_all(kernel, again)) return {};
  // Beside it lie what groups hold and exchange.
  const double room = 0.95 * device.shared_per_block * device.sm_count;
  const AxisAnalysis analysis(graph);
  std::vector<Slabs> options;
  for (const int axis : kept) {
    // Of the tensors that the slabs are parts of.
    std::int64_t all = 0, largest = 0;
    std::optional<Slabs> along;
    for (const auto& [buffer, bytes] : again) {
      const std::optional<Slabs> own = dimension_along(graph, analysis, buffer, axis);
      if (!own) continue;
      all += bytes;
      if (bytes > largest) {
        largest = bytes;
        along = own;
      }
    }
    if (!along) continue;
    const std::vector<std::int64_t> counts = possible_counts(graph, *along, analysis.axes()[axis].extent);
    for (const std::int64_t bytes : {largest, all}) {
      if (bytes <= room) continue;
      const auto fits = std::ranges::find_if(counts, [&](std::int64_t count) { return bytes <= room * count; });
      const auto first = fits - counts.begin(), last = std::min<std::ptrdiff_t>(first + 1, std::ssize(counts) - 1);
      for (std::ptrdiff_t i = std::max<std::ptrdiff_t>(first - 1, 0); i <= last; ++i) {
        Slabs slabs = *along;
        slabs.count = counts[i];
        if (std::ranges::find(options, slabs) == options.end()) options.push_back(slabs);
      }
    }
  }
  return options;
}

}  // namespace stitch::kernel
