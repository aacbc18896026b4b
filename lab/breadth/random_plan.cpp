#include "lab/breadth/random_plan.h"

#include <algorithm>

#include "base/random.h"
#include "costmodel/analytical.h"
#include "graph/simplify.h"
#include "search/partition/part_prices.h"

namespace stitch::lab {
namespace {

/// Likes any schedule as well as any other: what explorers take for the best is a draw among what is legal.
class RandomScorer final : public search::Scorer {
 public:
  RandomScorer(DeviceSpec device, std::uint64_t seed) : device_(std::move(device)), seed_(seed) {}

  [[nodiscard]] double predict_us(const graph::Graph&, const kernel::KernelProgram& program) const override {
    return 1 + uniform_at(seed_, schedule_bits(program));
  }
  [[nodiscard]] search::Score explain(const graph::Graph& graph, const kernel::KernelProgram& program) const override {
    return {predict_us(graph, program), {}, {}};
  }
  [[nodiscard]] const DeviceSpec& device() const override { return device_; }

 private:
  DeviceSpec device_;
  std::uint64_t seed_;
};

/// Vertices in a random order in which they can be computed. `stays`: the next one is a consumer of the last one where
/// that can be, so that neighbours stand side by side.
std::vector<int> random_order(const search::VertexGraph& vertices, Random& random, bool stays) {
  std::vector<int> missing(vertices.size()), ready, order;
  for (int v = 0; v < vertices.size(); ++v) {
    missing[v] = static_cast<int>(vertices.producers(v).size());
    if (missing[v] == 0) ready.push_back(v);
  }
  while (!ready.empty()) {
    const std::size_t at = stays && random.below(4) != 0 ? ready.size() - 1 : random.below(ready.size());
    const int vertex = ready[at];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(at));
    order.push_back(vertex);
    for (const int consumer : vertices.consumers(vertex)) {
      if (--missing[consumer] == 0) ready.push_back(consumer);
    }
  }
  return order;
}

/// Runs of a random order: whatever they are, they can be computed one after the other.
std::vector<search::VertexSet> random_parts(const search::VertexGraph& vertices, Random& random) {
  const std::vector<int> order = random_order(vertices, random, random.below(3) != 0);
  static const std::vector<std::uint64_t> one_in = {1, 2, 4, 8, 1000, 1000};  // how often a part ends
  const std::uint64_t ends = one_in[random.below(one_in.size())];
  std::vector<search::VertexSet> parts;
  for (const int vertex : order) {
    if (parts.empty() || random.below(ends) == 0) parts.emplace_back(vertices.size());
    parts.back().insert(vertex);
  }
  return parts;
}

/// Plans the parts, each split in two as long as no schedule fits it.
Result<std::vector<search::PlannedKernel>> plan_parts(const search::VertexGraph& vertices,
                                                      const std::vector<int>& order,
                                                      std::vector<search::VertexSet> parts,
                                                      search::KernelCache& cache) {
  std::vector<search::PlannedKernel> planned;
  std::ranges::reverse(parts);
  while (!parts.empty()) {
    const search::VertexSet part = std::move(parts.back());
    parts.pop_back();
    STITCH_ASSIGN(search::PlannedKernel kernel, search::plan_kernel(vertices, part, cache));
    if (kernel.kernel->feasible()) {
      planned.push_back(std::move(kernel));
      continue;
    }
    if (part.count() == 1) {
      const graph::NodeId node = vertices.node(part.members().front());
      return kernel.kernel->why.within(to_string(vertices.fragment().node(node).op));
    }
    search::VertexSet first(vertices.size()), second(vertices.size());
    int left = part.count() / 2;
    for (const int vertex : order) {
      if (part.contains(vertex)) (left-- > 0 ? first : second).insert(vertex);
    }
    parts.push_back(std::move(second));
    parts.push_back(std::move(first));
  }
  return planned;
}

/// Vertices by number are in topological order, as the fragment's nodes are.
std::vector<int> by_number(const search::VertexGraph& vertices) {
  std::vector<int> order;
  for (int v = 0; v < vertices.size(); ++v) order.push_back(v);
  return order;
}

}  // namespace

std::uint64_t schedule_bits(const kernel::KernelProgram& program) {
  std::uint64_t bits = 0;
  const auto add = [&](auto value) { bits = mix(bits, static_cast<std::uint64_t>(value)); };
  add(program.schedule.threads);
  add(program.schedule.cluster);
  add(program.schedule.slabs.count);
  add(program.blocks);
  add(program.shared_bytes);
  for (const kernel::Sync sync : program.schedule.syncs) add(sync);
  for (const kernel::PhaseProgram& phase : program.phases) {
    add(phase.tiles);
    for (const kernel::GroupProgram& group : phase.groups) {
      add(group.mapping.vector_axis);
      add(group.mapping.hold);
      add(group.mapping.shifted);
      add(group.mapping.stages);
      add(group.mapping.shared_stages ? 1 : 0);
      add(group.mapping.bulk_stages ? 1 : 0);
      for (const kernel::AxisMapping& axis : group.mapping.axes) {
        add(axis.interleaved);
        for (const std::int64_t extent : axis.extent) add(extent);
      }
    }
  }
  return bits;
}

Result<RandomPlan> random_plan(const graph::Graph& graph, const DeviceSpec& device, std::uint64_t seed,
                               const std::string& prefix) {
  Random random(seed);
  RandomPlan plan;
  plan.architecture = device.architecture();
  plan.fragment = graph;
  graph::SimplifyOptions simplification;
  simplification.reassociate = random.below(2) == 0;
  simplification.verify = true;
  STITCH_TRY(graph::simplify(plan.fragment, simplification));
  plan.expected = simplification.reassociate ? plan.fragment : graph;
  const search::VertexGraph vertices(plan.fragment);
  const RandomScorer any(device, random());
  const costmodel::AnalyticalScorer best(device);
  search::StitchOptions options;
  options.wide = random.below(4) == 0;
  options.combinations = random.below(4) == 0 ? 16 : 1;
  search::KernelCache cache(random.below(4) == 0 ? static_cast<const search::Scorer&>(best) : any, options);
  STITCH_ASSIGN(plan.planned, plan_parts(vertices, by_number(vertices), random_parts(vertices, random), cache));
  for (const search::PlannedKernel& planned : plan.planned) {
    codegen::GenerateOptions printing;
    printing.name = fmt::format("{}_{}", prefix, plan.kernels.size());
    STITCH_ASSIGN(codegen::GeneratedKernel kernel,
                  codegen::generate(planned.kernel->graph, planned.kernel->candidates.front().program, printing));
    plan.kernels.push_back(std::move(kernel));
  }
  return plan;
}

}  // namespace stitch::lab
