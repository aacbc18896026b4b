#include "cli/contractions/compiled_registers.h"

#include <tbb/parallel_for.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/processors.h"
#include "codegen/contraction/attention_kernel.h"
#include "codegen/contraction/chain_kernel.h"
#include "codegen/contraction/contraction_kernel.h"
#include "kernel/contraction/contraction_shape.h"
#include "tuning/kernels/built_kernel.h"

namespace stitch::cli {
namespace {

using nlohmann::ordered_json;

Result<codegen::GeneratedKernel> generated(const kernel::ContractionProblem& problem,
                                           const kernel::ContractionSchedule& schedule) {
  return codegen::generate_contraction(problem, schedule, {});
}
Result<codegen::GeneratedKernel> generated(const kernel::AttentionProblem& problem,
                                           const kernel::AttentionSchedule& schedule) {
  return codegen::generate_attention(problem, schedule, {});
}
Result<codegen::GeneratedKernel> generated(const kernel::ProductChain& chain, const kernel::ChainSchedule& schedule) {
  return codegen::generate_chain(chain, schedule, {});
}

std::set<std::size_t> places_among(std::size_t ranked, int count) {
  std::set<std::size_t> places;
  const double steps = std::max(1, count - 1);
  for (int i = 0; i < count; ++i) {
    const double place = std::exp(std::log(static_cast<double>(ranked)) * i / steps) - 1;
    places.insert(static_cast<std::size_t>(std::llround(place)));
  }
  return places;
}

/// One of the ranking, compiled to machine code.
template <class Case>
Result<ordered_json> compile_place(const Case& each, std::size_t place, const DeviceSpec& device,
                                   codegen::Compiler& compiler) {
  const auto& ranked = each.choice.ranked.best[place];
  const auto shape = shape_of(each.problem, ranked.schedule);
  STITCH_ASSIGN(const codegen::GeneratedKernel made, generated(each.problem, ranked.schedule));
  STITCH_ASSIGN(const codegen::CompiledKernel compiled,
                compiler.compile(tuning::compile_request(made.source, device.architecture())));
  const codegen::ResourceUsage& used = compiled.resources;
  return ordered_json{{"place", place},
                      {"runs", to_string(ranked.schedule)},
                      {"predicted_us", ranked.predicted_us},
                      {"threads", shape.threads},
                      {"blocks", ranked.schedule.blocks_per_sm},
                      {"estimated", shape.registers},
                      {"registers", used.registers},
                      {"spilled", std::max(used.spill_store_bytes, used.spill_load_bytes)}};
}

void print_line(const ordered_json& line) {
  std::puts(line.dump(-1, ' ', false, ordered_json::error_handler_t::replace).c_str());
  std::fflush(stdout);  // whoever stops this has what was compiled
}

template <class Case>
Status print_case(const std::string& name, const Case& each, int count, const DeviceSpec& device,
                  codegen::Compiler& compiler) {
  const auto& best = each.choice.ranked.best;
  for (const std::size_t place : places_among(best.size(), count)) {
    ordered_json line = {{"name", name}, {"problem", to_string(each.problem)}, {"target", device.name}};
    STITCH_ASSIGN(const ordered_json compiled, compile_place(each, place, device, compiler));
    line.update(compiled);
    print_line(line);
  }
  return {};
}

/// The best `count`, side by side, as many as there are processors.
template <class Case>
Status print_best(const std::string& name, const Case& each, std::size_t count, const DeviceSpec& device,
                  codegen::Compiler& compiler) {
  std::vector<std::optional<Result<ordered_json>>> made(std::min(count, each.choice.ranked.best.size()));
  const auto began = std::chrono::steady_clock::now();
  tbb::parallel_for(std::size_t{0}, made.size(),
                    [&](std::size_t place) { made[place] = compile_place(each, place, device, compiler); });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
  ordered_json kernels = ordered_json::array();
  int spilling = 0;
  for (std::optional<Result<ordered_json>>& kernel : made) {
    if (!*kernel) return kernel->error();
    if ((**kernel)["spilled"] > 0) ++spilling;
    kernels.push_back(std::move(**kernel));
  }
  print_line({{"name", name},
              {"problem", to_string(each.problem)},
              {"target", device.name},
              {"processors", usable_processors()},
              {"seconds", seconds.count()},
              {"spilling", spilling},
              {"kernels", std::move(kernels)}});
  return {};
}

/// Ranks the schedules of a product and does something with its case.
template <class Print>
Status with_ranked(Product& product, const DeviceSpec& device, const search::ContractionSpaceOptions& space,
                   const Print& print) {
  STITCH_TRY(choose(product, device, space));
  return std::visit(
      [&]<class Case>(const Case& each) -> Status {
        if constexpr (std::is_same_v<Case, std::monostate>) {
          return make_error(ErrorKind::unsupported, "no kernel of ours");
        } else {
          return print(each);
        }
      },
      product.of);
}

}  // namespace

Status print_compiled_registers(Product& product, int count, const DeviceSpec& device,
                                search::ContractionSpaceOptions space, codegen::Compiler& compiler) {
  space.count = std::numeric_limits<std::size_t>::max();
  return with_ranked(product, device, space,
                     [&](const auto& each) { return print_case(product.name, each, count, device, compiler); });
}

Status print_compiled_best(Product& product, int count, const DeviceSpec& device, search::ContractionSpaceOptions space,
                           codegen::Compiler& compiler) {
  space.count = std::max<std::size_t>(space.count, count);
  return with_ranked(product, device, space,
                     [&](const auto& each) { return print_best(product.name, each, count, device, compiler); });
}

}  // namespace stitch::cli
