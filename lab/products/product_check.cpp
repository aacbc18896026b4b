#include "lab/products/product_check.h"

#include <fmt/format.h>

#include <optional>

#include "base/random.h"
#include "lab/breadth/kernel_batch.h"
#include "lab/products/product_candidate.h"
#include "lab/products/random_product.h"
#include "profiler/device/emulated_device.h"

namespace stitch::lab {
namespace {

void blame_product(CaseVerdict& verdict, const Error& error, std::string_view stage) {
  const bool no_kernel = error.kind == ErrorKind::unsupported || error.kind == ErrorKind::constraint;
  verdict.outcome = no_kernel && stage == "plan" ? CaseVerdict::Outcome::refused : CaseVerdict::Outcome::wrong;
  verdict.why = fmt::format("{}: {}: {}", stage, to_string(error.kind), error.message);
}

void note_product(const ProductCase& drawn, const ProductCandidate& candidate, CaseVerdict& verdict) {
  verdict.kernels = 1;
  const std::string architecture = drawn.device.architecture();
  const auto add = [&](std::string_view feature) { ++verdict.features[fmt::format("{} {}", architecture, feature)]; };
  add(fmt::format("{} of {}", drawn.product.kind, drawn.product.dtype));
  add(fmt::format("{} with {}", drawn.product.kind,
                  drawn.product.neighbour.empty() ? "nothing" : drawn.product.neighbour));
  for (const std::string& feature : candidate.features) {
    add(feature);
    if (candidate.chosen) add("chosen " + feature);
  }
  if (candidate.chosen) add("chosen");
  for (const graph::Node& node : candidate.graph->nodes()) {
    if (node.op != graph::Op::parameter && node.op != graph::Op::constant)
      ++verdict.operators[fmt::format("{} {}", to_string(node.op), to_string(node.type().dtype))];
  }
}

profiler::VerifyOptions product_verification(std::uint64_t seed) {
  profiler::VerifyOptions options;
  options.seed = seed;
  const std::vector<profiler::Distribution> all = profiler::default_distributions();
  options.distributions = {profiler::Distribution::mixed};
  const profiler::Distribution other = all[seed / 3 % all.size()];
  if (other != profiler::Distribution::mixed) options.distributions.push_back(other);
  return options;
}

std::int64_t result_elements(const graph::Graph& graph) {
  std::int64_t elements = 0;
  for (const graph::Value value : graph.results()) elements += graph.type(value).elements();
  return elements;
}

/// Whether turns of the loop have conflicts in shared memory; nothing: it cannot be said of these runs.
std::optional<bool> loop_conflicts(profiler::Device& device, const ProductCandidate& deeper,
                                   const profiler::KernelImage& image, const profiler::Verification& once) {
  profiler::VerifyOptions options;
  options.distributions = {profiler::Distribution::mixed};
  const auto longer = profiler::verify_kernel(device, *deeper.graph, deeper.execution, deeper.kernel, image, options);
  if (!longer || !longer->counters || !once.counters) return std::nullopt;
  if (once.blocks_run != once.blocks || longer->blocks_run != longer->blocks) return std::nullopt;
  return longer->counters->shared_extra_wavefronts > once.counters->shared_extra_wavefronts;
}

/// What is compiled for one case.
struct PreparedProduct {
  ProductCandidate candidate;
  std::optional<profiler::KernelImage> image, deeper;
};

void judge_product(const ProductCase& drawn, const PreparedProduct& prepared, CaseVerdict& verdict) {
  profiler::EmulatedOptions emulated;
  emulated.host_threads = 1;
  profiler::EmulatedDevice device(emulated);
  const ProductCandidate& candidate = prepared.candidate;
  const auto found = profiler::verify_kernel(device, *candidate.graph, candidate.execution, candidate.kernel,
                                             *prepared.image, product_verification(drawn.seed));
  const auto append_schedule = [&] { verdict.why += "\n    " + candidate.schedule; };
  if (!found) {
    blame_product(verdict, found.error(), "run");
    return append_schedule();
  }
  verdict.elements = result_elements(*candidate.graph) * std::ssize(found->distributions);
  verdict.compared = found->compared;
  if (!found->correct) {
    verdict.outcome = CaseVerdict::Outcome::wrong;
    verdict.why = found->failure;
    return append_schedule();
  }
  if (!prepared.deeper) return;
  if (const auto conflicts = loop_conflicts(device, *candidate.deeper, *prepared.deeper, *found))
    ++verdict.features[fmt::format("{} loop {} conflicts of {}", drawn.device.architecture(),
                                   *conflicts ? "with" : "without", drawn.product.dtype)];
}

}  // namespace

ProductCase product_case(std::uint64_t seed, std::int64_t number) {
  constexpr auto targets = static_cast<std::int64_t>(product_targets.size());
  const std::int64_t piece = number / cases_per_device;
  const std::int64_t problem = piece / targets * cases_per_device + number % cases_per_device;
  ProductCase drawn;
  drawn.problem = random_at(mix(seed, 0x90D5C7), static_cast<std::uint64_t>(problem));
  drawn.product = random_product(drawn.problem);
  drawn.device = *find_device(product_targets[static_cast<std::size_t>(piece % targets)]);
  drawn.seed = random_at(mix(seed, 0x5EED), static_cast<std::uint64_t>(number));
  return drawn;
}

std::vector<CaseVerdict> check_products(const codegen::Nvrtc& nvrtc, std::span<const ProductCase> cases) {
  std::vector<CaseVerdict> verdicts(cases.size());
  std::vector<std::optional<PreparedProduct>> prepared(cases.size());
  std::vector<const codegen::GeneratedKernel*> kernels;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Result<ProductCandidate> candidate = product_candidate(cases[i], fmt::format("product{}", i));
    if (!candidate) {
      blame_product(verdicts[i], candidate.error(), "plan");
      continue;
    }
    prepared[i] = PreparedProduct{*std::move(candidate), {}, {}};
    kernels.push_back(&prepared[i]->candidate.kernel);
    if (prepared[i]->candidate.deeper) kernels.push_back(&prepared[i]->candidate.deeper->kernel);
  }
  if (cases.empty()) return verdicts;
  auto images = compile_batch(nvrtc, kernels, cases.front().device.architecture());
  std::size_t next = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!prepared[i]) continue;
    PreparedProduct& one = *prepared[i];
    const Error* failed = nullptr;
    const auto take = [&](std::optional<profiler::KernelImage>& into) {
      Result<profiler::KernelImage>& image = images[next++];
      if (image) {
        into = std::move(*image);
      } else {
        failed = &image.error();
      }
    };
    take(one.image);
    if (one.candidate.deeper) take(one.deeper);
    if (failed != nullptr) {
      blame_product(verdicts[i], *failed, "compile");
      continue;
    }
    note_product(cases[i], one.candidate, verdicts[i]);
    judge_product(cases[i], one, verdicts[i]);
  }
  return verdicts;
}

BreadthReport check_product_range(const codegen::Nvrtc& nvrtc, std::uint64_t seed, std::int64_t from,
                                  std::int64_t count) {
  BreadthReport report;
  for (std::int64_t at = from; at < from + count;) {
    const std::int64_t until = std::min(from + count, (at / cases_per_device + 1) * cases_per_device);
    std::vector<ProductCase> cases;
    for (std::int64_t number = at; number < until; ++number) cases.push_back(product_case(seed, number));
    const std::vector<CaseVerdict> verdicts = check_products(nvrtc, cases);
    for (std::size_t i = 0; i < verdicts.size(); ++i) report.add(at + static_cast<std::int64_t>(i), verdicts[i]);
    at = until;
  }
  return report;
}

}  // namespace stitch::lab
