#include "tuning/contractions/product_kernels.h"

#include <algorithm>
#include <cmath>

#include "codegen/contraction/attention_kernel.h"
#include "codegen/contraction/chain_kernel.h"
#include "codegen/contraction/contraction_kernel.h"
#include "costmodel/contraction/product_features.h"
#include "profiler/verify/verify_attention.h"
#include "profiler/verify/verify_chain.h"
#include "profiler/verify/verify_contraction.h"
#include "tuning/contractions/attention_choice.h"
#include "tuning/contractions/chain_choice.h"
#include "tuning/contractions/contraction_choice.h"

namespace stitch::tuning {
namespace {

template <class Problem, class Schedule, class Time>
std::function<std::vector<float>(const costmodel::CompiledFacts*)> features_of(
    const std::shared_ptr<const Problem>& problem, const Schedule& schedule, const Time& time,
    const DeviceSpec& device) {
  return [problem, schedule, time, device](const costmodel::CompiledFacts* compiled) {
    return costmodel::to_row(costmodel::product_features(*problem, schedule, time, device, compiled));
  };
}

Result<ProductKernels> contraction_kernels(kernel::ContractionProblem derived, const DeviceSpec& device,
                                           const search::ContractionSpaceOptions& space,
                                           const costmodel::TrainedCostModel* model) {
  const auto problem = std::make_shared<const kernel::ContractionProblem>(std::move(derived));
  STITCH_ASSIGN(const ContractionChoice choice, choose_contraction(*problem, device, space, {}, model));
  ProductKernels kernels{problem->whole(), {}, choice.library.calls_us, choice.library.rest_us, choice.uncertainty_us};
  // Passes over rows ask for as much at once as there are registers for, and put variables of the loop aside.
  const int idle_spills = problem->row_reductions.empty() ? 0 : 64;
  for (const auto& [schedule, predicted_us] : choice.ranked.best) {
    const auto generate = [problem, schedule](const codegen::GenerateOptions& options) {
      return codegen::generate_contraction(*problem, schedule, options);
    };
    const auto time = costmodel::contraction_time(*problem, schedule, device);
    kernels.best.push_back({schedule_hash(schedule), predicted_us, time.total, std::llround(time.dram_bytes),
                            fmt::format("{} ({})", to_string(*problem), to_string(schedule.instruction)),
                            to_string(schedule), idle_spills, generate,
                            [problem, schedule] { return profiler::execution_of(*problem, schedule); },
                            features_of(problem, schedule, time, device)});
  }
  return kernels;
}

Result<ProductKernels> attention_kernels(kernel::AttentionProblem derived, const DeviceSpec& device,
                                         const search::ContractionSpaceOptions& space,
                                         const costmodel::TrainedCostModel* model) {
  const auto problem = std::make_shared<const kernel::AttentionProblem>(std::move(derived));
  STITCH_ASSIGN(const AttentionChoice choice, choose_attention(*problem, device, space, {}, model));
  ProductKernels kernels{problem->graph, {}, choice.unfused_us, 0, choice.uncertainty_us};
  for (const auto& [schedule, predicted_us] : choice.ranked.best) {
    const auto generate = [problem, schedule](const codegen::GenerateOptions& options) {
      return codegen::generate_attention(*problem, schedule, options);
    };
    const auto time = costmodel::attention_time(*problem, schedule, kernel::key_walk(*problem, schedule), device);
    kernels.best.push_back({schedule_hash(schedule), predicted_us, time.total, std::llround(time.dram_bytes),
                            fmt::format("attention {} ({})", to_string(*problem), to_string(schedule.instruction)),
                            to_string(schedule), 0, generate,
                            [problem, schedule] { return profiler::execution_of(*problem, schedule); },
                            features_of(problem, schedule, time, device)});
  }
  return kernels;
}

Result<ProductKernels> chain_kernels(kernel::ProductChain derived, const DeviceSpec& device,
                                     const search::ContractionSpaceOptions& space,
                                     const costmodel::TrainedCostModel* model) {
  const auto chain = std::make_shared<const kernel::ProductChain>(std::move(derived));
  STITCH_ASSIGN(const ChainChoice choice, choose_chain(*chain, device, space, {}, model));
  ProductKernels kernels{chain->graph, {}, choice.unfused_us, 0, choice.uncertainty_us};
  for (const auto& [schedule, predicted_us] : choice.ranked.best) {
    const auto generate = [chain, schedule](const codegen::GenerateOptions& options) {
      return codegen::generate_chain(*chain, schedule, options);
    };
    const auto time = costmodel::chain_time(*chain, schedule, kernel::chain_walk(*chain, schedule), device);
    kernels.best.push_back({schedule_hash(schedule), predicted_us, time.total, std::llround(time.dram_bytes),
                            fmt::format("chained products {} ({})", to_string(*chain), to_string(schedule.instruction)),
                            to_string(schedule), 0, generate,
                            [chain, schedule] { return profiler::execution_of(*chain, schedule); },
                            features_of(chain, schedule, time, device)});
  }
  return kernels;
}

}  // namespace

bool is_product(const graph::Graph& fragment) {
  return product_of(fragment).ok() || attention_of(fragment).ok() || chain_of(fragment).ok();
}

Result<ProductKernels> product_kernels(const graph::Graph& fragment, const DeviceSpec& device, std::size_t count,
                                       const costmodel::TrainedCostModel* model, search::PipelineAblation ablation) {
  search::ContractionSpaceOptions space = space_under(fragment.constraints, count);
  space.ablation = ablation;
  if (auto attention = attention_of(fragment)) return attention_kernels(*std::move(attention), device, space, model);
  if (auto chain = chain_of(fragment)) return chain_kernels(*std::move(chain), device, space, model);
  STITCH_ASSIGN(kernel::ContractionProblem product, product_of(fragment));
  const bool is_scaled = product.scales.has_value();
  auto kernels = contraction_kernels(std::move(product), device, space, model);
  if (!is_scaled) return kernels;
  // Not every device has tensor cores for what is scaled; for what it is made into where it is loaded most have.
  auto dequantised = dequantised_product(fragment);
  if (!dequantised) return kernels;
  auto others = contraction_kernels(*std::move(dequantised), device, space, model);
  const bool is_faster = others && (!kernels || others->best.front().predicted_us < kernels->best.front().predicted_us);
  return is_faster ? std::move(others) : std::move(kernels);
}

}  // namespace stitch::tuning
