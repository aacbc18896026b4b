#include "profiler/verify/block_sample.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "base/random.h"
#include "graph/reduce_kind.h"
#include "kernel/index/axes.h"
#include "kernel/program/residence.h"
#include "profiler/verify/axis_boxes.h"

namespace stitch::profiler {
namespace {

using kernel::Anchor;
using kernel::Buffer;
using kernel::GroupProgram;
using kernel::KernelProgram;
using kernel::Level;

/// More boxes than this are more trouble for the reference than the blocks they save.
constexpr std::size_t most_boxes = 16384;

bool is_written(const Buffer& buffer) {
  return buffer.kind == Buffer::Kind::output || buffer.kind == Buffer::Kind::scratch;
}

/// A group of a phase that all blocks take part in, and where its tiles are.
struct Placed {
  const GroupProgram* group = nullptr;
  std::size_t phase = 0;
  std::int64_t first = 0;  ///< tile of the phase
  bool partial = false;    ///< leaves partial results
  bool needed = false;     ///< all of it: a later phase reads what it stores
  int axis = -1;           ///< sampled: tiles run for some of its grid digits, and then for all digits of other axes
  std::int64_t digits = 1, stride = 1;

  [[nodiscard]] std::int64_t digit(std::int64_t tile) const { return tile / stride % digits; }
};

/// What a phase reads of an earlier one besides partial results: it has to be there, whoever runs.
std::set<Buffer> handed_over(const KernelProgram& program) {
  std::set<Buffer> buffers;
  for (const kernel::PhaseProgram& phase : program.phases) {
    for (const GroupProgram& group : phase.groups) {
      for (const kernel::Item& item : group.structure.program->items()) {
        const bool is_value = item.buffer.kind == Buffer::Kind::scratch &&
                              program.scratch[item.buffer.number].kind == kernel::Scratch::Kind::value;
        if (item.kind == kernel::Item::Kind::load && (is_value || item.buffer.kind == Buffer::Kind::output))
          buffers.insert(item.buffer);
      }
    }
  }
  return buffers;
}

/// Whether an element is the sum of what any blocks add to it.
bool adds_atomically(const KernelProgram& program) {
  for (const kernel::PhaseProgram& phase : program.phases) {
    for (const GroupProgram& group : phase.groups) {
      const auto& anchors = group.structure.anchors;
      if (std::any_of(anchors.begin(), anchors.end(), [](const Anchor& a) { return a.kind == Anchor::Kind::atomic; }))
        return true;
    }
  }
  return false;
}

bool writes_any(const GroupProgram& group, const std::set<Buffer>& buffers) {
  for (const Anchor& anchor : group.structure.anchors) {
    for (const Buffer& buffer : anchor.buffers) {
      if (buffers.contains(buffer)) return true;
    }
  }
  return false;
}

class Sampler {
 public:
  Sampler(const graph::Graph& graph, const KernelProgram& program, const codegen::GeneratedKernel& kernel)
      : graph_(graph),
        program_(program),
        kernel_(kernel),
        analysis_(graph, program.schedule.slabs),
        clusters_(kernel.blocks / kernel.cluster) {}

  std::optional<BlockSample> sample(std::int64_t budget, std::uint64_t seed) {
    if (program_.phases.size() == 1 && !kernel_.scratch.empty()) return std::nullopt;
    if (adds_atomically(program_)) return std::nullopt;
    // Blocks that hand on within themselves have nothing to do with one another.
    const bool apart = kernel::Residence(program_).hands_on_in_block();
    if (!apart && !place_groups()) return std::nullopt;
    const double share = static_cast<double>(budget) / kernel_work(program_);
    const std::vector<bool> chosen = choose(static_cast<std::int64_t>(share * clusters_), seed);
    const std::int64_t count = std::count(chosen.begin(), chosen.end(), true);
    if (count * 4 > clusters_ * 3) return std::nullopt;
    for (std::int64_t c = 0; c < clusters_; ++c) {
      for (int b = 0; chosen[c] && b < kernel_.cluster; ++b) sample_.blocks.push_back(c * kernel_.cluster + b);
    }
    for (const Placed& placed : placed_) {
      if (placed.partial && !restrict(placed, digits_run(placed, chosen))) return std::nullopt;
    }
    if (!apart) preset_counters();
    return std::move(sample_);
  }

 private:
  bool place_groups() {
    const std::set<Buffer> read = handed_over(program_);
    for (std::size_t p = 0; p < program_.phases.size(); ++p) {
      if (program_.runs_alone(p)) continue;  // one block takes all of it, whichever it is
      const std::vector<std::int64_t> first = first_tiles(program_, kernel_, p);
      for (std::size_t g = 0; g < program_.phases[p].groups.size(); ++g) {
        Placed placed{&program_.phases[p].groups[g], p, first.empty() ? 0 : first[g]};
        placed.partial = placed.group->structure.has_partials();
        placed.needed = writes_any(*placed.group, read);
        if ((placed.partial || placed.needed) && first.empty()) return false;
        if (placed.partial) choose_axis(placed);
        placed_.push_back(placed);
      }
    }
    return true;
  }

  /// The longest grid axis that all of the group's partial reductions combine over.
  static void choose_axis(Placed& placed) {
    kernel::AxisSet common = kernel::AxisSet::first(kernel::AxisSet::capacity);
    for (const Anchor& anchor : placed.group->structure.anchors) {
      if (anchor.kind == Anchor::Kind::partial) common &= anchor.reduced;
    }
    placed.stride = placed.group->tiles;
    std::int64_t after = 1;
    for (int a = std::ssize(placed.group->extents); a-- > 0;) {
      const std::int64_t extent = placed.group->extent(a, Level::grid);
      // Tiles of shifted rows are of other elements in every row.
      if (common.contains(a) && extent > placed.digits && !placed.group->is_shifted(a)) {
        placed.axis = a;
        placed.digits = extent;
        placed.stride = after;
      }
      after *= extent;
    }
  }

  [[nodiscard]] std::size_t cluster_of(const Placed& placed, std::int64_t tile) const {
    return (placed.first + tile) % clusters_;  // as codegen/kernel.cpp has them taken
  }

  [[nodiscard]] std::vector<bool> digits_run(const Placed& placed, const std::vector<bool>& chosen) const {
    std::vector<bool> run(placed.digits, false);
    for (std::int64_t t = 0; t < placed.group->tiles; ++t) {
      if (chosen[cluster_of(placed, t)]) run[placed.digit(t)] = true;
    }
    return run;
  }

  /// Adds what must run too: all tiles of every digit of a sampled axis that has one.
  void close(std::vector<bool>& chosen) const {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Placed& placed : placed_) {
        if (!placed.partial) continue;
        const std::vector<bool> run = digits_run(placed, chosen);
        for (std::int64_t t = 0; t < placed.group->tiles; ++t) {
          const std::size_t cluster = cluster_of(placed, t);
          if (!run[placed.digit(t)] || chosen[cluster]) continue;
          chosen[cluster] = changed = true;
        }
      }
    }
  }

  [[nodiscard]] std::vector<bool> choose(std::int64_t wanted, std::uint64_t seed) const {
    std::vector<bool> edges(clusters_, false);
    edges.front() = edges.back() = true;
    for (const Placed& placed : placed_) {
      edges[cluster_of(placed, 0)] = edges[cluster_of(placed, placed.group->tiles - 1)] = true;
      for (std::int64_t t = 0; placed.needed && t < placed.group->tiles; ++t) edges[cluster_of(placed, t)] = true;
    }
    wanted = std::min(wanted, clusters_ / 2);
    // What the others need may come to far more than was drawn: then fewer are drawn.
    for (std::int64_t draws = wanted;; draws /= 2) {
      std::vector<bool> chosen = edges;
      std::int64_t count = std::count(chosen.begin(), chosen.end(), true);
      Random random(seed);
      while (count < draws) {
        const std::size_t cluster = random.below(clusters_);
        count += chosen[cluster] ? 0 : 1;
        chosen[cluster] = true;
      }
      close(chosen);
      if (draws <= 2 || std::count(chosen.begin(), chosen.end(), true) <= wanted + wanted / 4) return chosen;
    }
  }

  /// What the digits that run mean for the group's partial reductions; false when that is not known.
  bool restrict(const Placed& placed, const std::vector<bool>& run) {
    if (std::find(run.begin(), run.end(), false) == run.end()) return true;
    for (const Anchor& anchor : placed.group->structure.anchors) {
      if (anchor.kind != Anchor::Kind::partial) continue;
      if (!restrict_reduction(placed, anchor, run)) return false;
      if (!preset_partials(placed, anchor, run)) return false;
    }
    return true;
  }

  /// What the digits that run mean for the operand of one reduction.
  bool restrict_reduction(const Placed& placed, const Anchor& anchor, const std::vector<bool>& run) {
    const std::size_t a = placed.axis;
    const int axis = placed.group->structure.program->axes().axes[a];
    const std::int64_t extent = placed.group->extents[a];
    if (analysis_.axes()[axis].extent != extent) return false;
    const std::vector<graph::Interval> ranges = elements_of_digits(placed.group->mapping.axes[a], extent, run);
    const graph::Value operand = graph_.node(anchor.node).operands[0];
    auto boxes = boxes_of_axis(graph_, analysis_, operand, axis, ranges, most_boxes);
    if (!boxes) return false;
    sample_.restrictions.push_back({anchor.node, std::move(*boxes)});
    return true;
  }

  /// Sets of partials of digits that never run hold the identity.
  bool preset_partials(const Placed& placed, const Anchor& anchor, const std::vector<bool>& run) {
    const graph::Node& node = graph_.node(anchor.node);
    const bool is_arg = node.op == graph::Op::arg_reduce, is_pair = node.op == graph::Op::max_exp_sum;
    const graph::ReduceKind kind = is_arg    ? node.as<graph::ArgReduceAttributes>().kind
                                   : is_pair ? graph::ReduceKind::max
                                             : node.as<graph::ReduceAttributes>().kind;
    if (kind == graph::ReduceKind::replace) return false;
    // Sets are numbered by the grid digits of the reduced axes, the last one fastest.
    std::int64_t inner = 1;
    for (int a = placed.axis + 1; a < std::ssize(placed.group->extents); ++a) {
      if (anchor.reduced.contains(a)) inner *= placed.group->extent(a, Level::grid);
    }
    for (std::size_t r = 0; r < anchor.buffers.size(); ++r) {
      const std::size_t number = anchor.buffers[r].number;
      const kernel::Scratch& scratch = program_.scratch[number];
      std::uint64_t bits = is_pair && r == 1 ? 0 : graph::identity_bits(kind, scratch.dtype);
      // An index that loses every tie.
      if (is_arg && r == 1) {
        const int unused = 64 - 8 * graph::byte_size(scratch.dtype);
        const bool last = node.as<graph::ArgReduceAttributes>().last;
        bits = last ? ~std::uint64_t{0} : ~std::uint64_t{0} >> (unused + 1);
      }
      for (std::int64_t set = 0; set < program_.partial_count[number]; ++set) {
        if (run[set / inner % placed.digits]) continue;
        const int size = graph::byte_size(scratch.dtype);
        const std::int64_t offset = set * scratch.elements * size;
        BlockSample::Preset* last = sample_.presets.empty() ? nullptr : &sample_.presets.back();
        if (last != nullptr && last->scratch == anchor.buffers[r].number &&
            last->offset + last->count * size == offset) {
          last->count += scratch.elements;
        } else {
          sample_.presets.push_back({anchor.buffers[r].number, offset, size, scratch.elements, bits});
        }
      }
    }
    return true;
  }

  /// Arrivals are counted until all blocks are there, of clusters one for each at a barrier (codegen/device/grid.cuh).
  void preset_counters() {
    const auto absent = kernel_.blocks - sample_.blocks.size();
    const std::size_t phases = program_.phases.size();
    for (std::size_t slab = 0; std::cmp_less(slab, program_.schedule.slabs.count); ++slab) {
      for (std::size_t p = 1; p < phases; ++p) {
        if (program_.runs_alone(p - 1)) continue;
        const bool by_cluster = program_.schedule.syncs[p - 1] == kernel::Sync::barrier;
        sample_.presets.push_back({static_cast<int>(program_.scratch.size()),
                                   static_cast<std::int64_t>(slab * phases + p - 1) * 8, 4, 1,
                                   by_cluster ? absent / kernel_.cluster : absent});
      }
    }
  }

  const graph::Graph& graph_;
  const KernelProgram& program_;
  const codegen::GeneratedKernel& kernel_;
  const kernel::AxisAnalysis analysis_;
  const std::int64_t clusters_;
  std::vector<Placed> placed_;
  BlockSample sample_;
};

}  // namespace

std::int64_t kernel_work(const KernelProgram& program) {
  double work = 0;
  for (const kernel::PhaseProgram& phase : program.phases) {
    for (const GroupProgram& group : phase.groups) {
      double elements = 1;
      for (const std::int64_t extent : group.extents) elements *= extent;
      std::size_t items = 0;
      for (const kernel::Sweep& sweep : group.sweeps) items += sweep.body.size();
      work += elements * std::max<std::size_t>(1, items);
    }
  }
  work *= program.schedule.slabs.count;
  const kernel::Residence residence(program);
  work *= residence.turns() * residence.parts();
  return std::min(work, 9e18);
}

std::vector<std::int64_t> first_tiles(const KernelProgram& program, const codegen::GeneratedKernel& kernel,
                                      std::size_t phase) {
  const std::vector<GroupProgram>& groups = program.phases[phase].groups;
  if (groups.size() == 1) return {0};
  // Groups that share code stand together, so tiles are in order of the kernel's table, not of the program; a group is
  // found there by what only it writes.
  std::map<Buffer, int> writers;
  for (const kernel::PhaseProgram& each : program.phases) {
    for (const GroupProgram& group : each.groups) {
      std::map<Buffer, int> own;
      for (const Anchor& anchor : group.structure.anchors) {
        for (const Buffer& buffer : anchor.buffers) own[buffer] = 1;
      }
      for (const auto& [buffer, one] : own) writers[buffer] += one;
    }
  }
  std::map<Buffer, std::size_t> place;
  for (std::size_t i = kernel.arguments.size(); i-- > 0;) {
    if (kernel.arguments[i].kind == codegen::Argument::Kind::buffer) place[kernel.arguments[i].buffer] = i;
  }
  std::vector<std::pair<std::size_t, std::size_t>> order;  // place in the table, group
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::optional<std::size_t> found;
    for (const Anchor& anchor : groups[g].structure.anchors) {
      for (const Buffer& buffer : anchor.buffers) {
        if (!found && is_written(buffer) && writers[buffer] == 1 && place.contains(buffer)) found = place[buffer];
      }
    }
    if (!found) return {};
    order.emplace_back(*found, g);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::int64_t> first(groups.size(), 0);
  std::int64_t tile = 0;
  for (const auto& [at, g] : order) {
    first[g] = tile;
    tile += groups[g].tiles;
  }
  return first;
}

BlockSample sample_blocks(const graph::Graph& graph, const KernelProgram& program,
                          const codegen::GeneratedKernel& kernel, std::int64_t budget, std::uint64_t seed) {
  if (kernel_work(program) <= budget) return {};
  return Sampler(graph, program, kernel).sample(budget, seed).value_or(BlockSample{});
}

}  // namespace stitch::profiler
