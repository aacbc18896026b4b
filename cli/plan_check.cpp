#include "cli/plan_check.h"

#include <algorithm>

#include "base/random.h"
#include "graph/literal.h"
#include "graph/reference/evaluate.h"
#include "kernel/contraction/contraction_schedule.h"

namespace stitch::cli {
namespace {

using graph::Box;
using graph::TensorType;

/// Longest chain of additions that a stored kernel may make in one thread: its schedule, which would tell, is not
/// needed for running it, so the bound is generous.
constexpr std::int64_t serial_additions = 4096;
constexpr std::int64_t box_length = 1024;

using Buffer = std::vector<std::byte>;

Buffer fill(const profiler::InputSource& source, const TensorType& type) {
  Buffer buffer(type.bytes());
  source.filler()(0, buffer);
  return buffer;
}

/// Runs of neighbours along the last dimension: the first, the last, and others that the seed draws.
std::vector<Box> boxes_of(const TensorType& type, const PlanCheckOptions& options) {
  const Box whole = Box::whole(type.dims);
  if (type.elements() <= options.most_compared || type.dims.empty()) return {whole};
  std::vector<Box> boxes;
  Random random(options.seed);
  const std::int64_t length = std::min(type.dims.back(), box_length);
  const std::int64_t count = std::max<std::int64_t>(2, options.most_compared / length);
  for (std::int64_t b = 0; b < count; ++b) {
    Box box{graph::Dims(type.dims.size(), 0), graph::Dims(type.dims.size(), 1)};
    for (std::size_t d = 0; d < type.dims.size(); ++d) {
      const bool last = d + 1 == type.dims.size();
      if (last) box.size[d] = length;
      const std::int64_t positions = type.dims[d] - box.size[d] + 1;
      const std::int64_t drawn = random.below(positions);
      box.start[d] = b == 0 ? 0 : b == 1 ? positions - 1 : drawn;
    }
    if (std::find(boxes.begin(), boxes.end(), box) == boxes.end()) boxes.push_back(std::move(box));
  }
  return boxes;
}

/// The first element of the box that is not what the reference says; empty when all are.
std::string compare_box(const graph::Tensor& reference, const Buffer& bytes, std::int64_t result) {
  const TensorType& type = reference.type;
  const std::size_t step = graph::byte_size(type.dtype);
  graph::Dims index = reference.box.start;
  for (std::int64_t i = 0; i < reference.elements(); ++i) {
    std::int64_t flat = 0;
    for (std::size_t d = 0; d < index.size(); ++d) flat = flat * type.dims[d] + index[d];
    const std::byte* const at = &bytes[flat * step];
    const double value = graph::load_element(type.dtype, at);
    // 64-bit integers do not fit into a double.
    const bool exact = !reference.integers.empty() && reference.bound(i) == 0;
    const bool right = exact ? graph::load_integer(type.dtype, at) == reference.integers[i]
                             : graph::accepts(reference.at(i), reference.bound(i), value);
    if (!right) {
      return fmt::format("result {} at {}: {:.9g} instead of {:.9g} ± {:.3g}", result, graph::to_string(index), value,
                         reference.at(i), reference.bound(i));
    }
    graph::next_index(reference.box, index);
  }
  return {};
}

Status check_once(client::LoadedPlan& loaded, const graph::Graph& fragment, profiler::Distribution distribution,
                  const PlanCheckOptions& options, PlanCheck& check) {
  const api::Plan& plan = loaded.plan();
  const std::uint64_t seed = mix(options.seed, static_cast<std::uint64_t>(distribution));
  const auto ranges = profiler::ranges_drawn(fragment, distribution);
  std::vector<Buffer> in, out;
  std::vector<graph::Input> inputs;
  for (std::size_t p = 0; p < plan.parameters.size(); ++p) {
    const profiler::InputSource source(plan.parameters[p], distribution, mix(seed, p), ranges[p]);
    in.push_back(fill(source, plan.parameters[p]));
    inputs.push_back(source.input());
  }
  for (const TensorType& type : plan.results) out.emplace_back(type.bytes());
  const std::vector<std::span<const std::byte>> parameters(in.begin(), in.end());
  const std::vector<std::span<std::byte>> results(out.begin(), out.end());
  if (const Status ran = loaded.run(parameters, results); !ran) {
    if (ran.error().kind != ErrorKind::runtime && ran.error().kind != ErrorKind::timeout) return ran;
    check.failure = ran.error().message;
    return {};
  }
  std::vector<std::vector<Box>> wanted;
  for (const TensorType& type : plan.results) wanted.push_back(boxes_of(type, options));
  graph::EvaluateOptions evaluate;
  evaluate.bounds = true;
  evaluate.error_model.serial_additions = serial_additions;
  evaluate.error_model.flush_denormals = true;
  // A stored kernel may be one that promotes.
  if (plan.target.architecture.starts_with("sm_90")) evaluate.error_model.narrow_part = kernel::promoted_depth;
  STITCH_ASSIGN(const auto reference, graph::evaluate_parts(fragment, inputs, wanted, evaluate));
  for (std::size_t r = 0; r < reference.size(); ++r) {
    for (const graph::Tensor& box : reference[r]) {
      check.failure = compare_box(box, out[r], r);
      if (!check.failure.empty()) return {};
      check.compared += box.elements();
    }
  }
  return {};
}

}  // namespace

Result<PlanCheck> check_plan(const api::Plan& plan, const graph::Graph& fragment,
                             const client::ArtifactSource& artifacts, client::Executor& executor,
                             const PlanCheckOptions& options) {
  STITCH_ASSIGN(const auto loaded, executor.load(plan, artifacts));
  PlanCheck check;
  for (const profiler::Distribution distribution : options.distributions) {
    STITCH_TRY(check_once(*loaded, fragment, distribution, options, check));
    if (check.failure.empty()) continue;
    check.failure =
        fmt::format("inputs {} (seed {}): {}", profiler::to_string(distribution), options.seed, check.failure);
    return check;
  }
  check.correct = true;
  return check;
}

}  // namespace stitch::cli
