#include "cli/contractions/compiled_registers.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

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

template <class Case>
Status print_case(const std::string& name, const Case& each, int count, const DeviceSpec& device,
                  codegen::NvrtcCompiler& compiler) {
  const auto& best = each.choice.ranked.best;
  for (const std::size_t place : places_among(best.size(), count)) {
    const auto& schedule = best[place].schedule;
    const auto shape = shape_of(each.problem, schedule);
    STITCH_ASSIGN(const codegen::GeneratedKernel made, generated(each.problem, schedule));
    STITCH_ASSIGN(const codegen::CompiledKernel compiled,
                  compiler.compile(tuning::compile_request(made.source, device.architecture())));
    const codegen::ResourceUsage& used = compiled.resources;
    const ordered_json line = {{"name", name},
                               {"problem", to_string(each.problem)},
                               {"target", device.name},
                               {"place", place},
                               {"runs", to_string(schedule)},
                               {"predicted_us", best[place].predicted_us},
                               {"threads", shape.threads},
                               {"blocks", schedule.blocks_per_sm},
                               {"estimated", shape.registers},
                               {"registers", used.registers},
                               {"spilled", std::max(used.spill_store_bytes, used.spill_load_bytes)}};
    std::puts(line.dump(-1, ' ', false, ordered_json::error_handler_t::replace).c_str());
    std::fflush(stdout);  // whoever stops this has what was compiled
  }
  return {};
}

}  // namespace

Status print_compiled_registers(Product& product, int count, const DeviceSpec& device,
                                search::ContractionSpaceOptions space, codegen::NvrtcCompiler& compiler) {
  space.count = std::numeric_limits<std::size_t>::max();
  STITCH_TRY(choose(product, device, space));
  return std::visit(
      [&]<class Case>(const Case& each) -> Status {
        if constexpr (std::is_same_v<Case, std::monostate>) {
          return make_error(ErrorKind::unsupported, "no kernel of ours");
        } else {
          return print_case(product.name, each, count, device, compiler);
        }
      },
      product.of);
}

}  // namespace stitch::cli
