#include "lab/products/product_candidate.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <map>
#include <tuple>

#include "base/random.h"
#include "codegen/contraction/attention_kernel.h"
#include "codegen/contraction/chain_kernel.h"
#include "codegen/contraction/contraction_kernel.h"
#include "kernel/contraction/contraction_rules.h"
#include "lab/products/random_product.h"
#include "profiler/verify/verify_attention.h"
#include "profiler/verify/verify_chain.h"
#include "profiler/verify/verify_contraction.h"
#include "search/contraction/attention_space.h"
#include "search/contraction/chain_space.h"
#include "search/contraction/contraction_space.h"
#include "tuning/contractions/attention_choice.h"
#include "tuning/contractions/chain_choice.h"
#include "tuning/contractions/contraction_choice.h"

namespace stitch::lab {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;

/// One of many that come by one after the other: first the way to multiply (by a warp, by four, with tensor copies,
/// with realigned ones), of which some have a hundred times the schedules of others, then any of its schedules.
template <class T>
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  void see(const T& each) {
    Way& way = ways_[way_of(each)];
    if (random_.below(++way.seen) == 0) way.drawn = each;
  }
  [[nodiscard]] std::optional<T> drawn() {
    if (ways_.empty()) return std::nullopt;
    return std::next(ways_.begin(), static_cast<std::ptrdiff_t>(random_.below(ways_.size())))->second.drawn;
  }

 private:
  struct Way {
    std::uint64_t seen = 0;
    T drawn;
  };
  using Name = std::tuple<kernel::ContractionInstruction, bool, bool, bool>;
  static Name way_of(const T& each) {
    if constexpr (requires { each.tensor_copies; })
      return {each.instruction, each.tensor_copies, each.paired, each.left_realigned || each.right_realigned};
    return {each.instruction, false, false, false};
  }

  Random random_;
  std::map<Name, Way> ways_;
};

void note_stages(int stages, std::vector<std::string>& features) {
  features.push_back(fmt::format("stages {}", stages));
}

std::vector<std::string> features_of(const ContractionSchedule& s) {
  std::vector<std::string> features = {std::string(to_string(s.instruction))};
  note_stages(s.stages, features);
  if (s.fragment_stages > 1) features.emplace_back("two stages in registers");
  if (s.split > 1) features.emplace_back("split depth");
  if (s.streamed > 0) features.emplace_back("streamed depth");
  if (s.tensor_copies) features.emplace_back("tensor copies");
  if (s.left_realigned || s.right_realigned) features.emplace_back("realigned copies");
  if (s.paired) features.emplace_back("pair that multiplies together");
  if (s.cluster > 1 && !s.paired) features.emplace_back("cluster that shares a tile");
  if (s.row_blocks > 1) features.emplace_back("cluster that shares rows");
  return features;
}

std::vector<std::string> features_of(const kernel::AttentionSchedule& s) {
  std::vector<std::string> features = {std::string(to_string(s.instruction))};
  note_stages(s.stages, features);
  if (s.split > 1) features.emplace_back("split keys");
  if (s.overlaps) features.emplace_back("scores beside weights");
  return features;
}

std::vector<std::string> features_of(const kernel::ChainSchedule& s) {
  std::vector<std::string> features = {std::string(to_string(s.instruction))};
  note_stages(s.stages, features);
  return features;
}

ContractionSchedule varied(const ContractionProblem& problem, const DeviceSpec& device, ContractionSchedule schedule,
                           Random& random) {
  const ContractionSchedule before = schedule;
  constexpr std::array<int, 5> groups = {1, 2, 4, 8, 16};
  if (problem.row_reductions.empty()) schedule.group = groups[random.below(groups.size())];
  if (!reads_tiles(schedule.instruction)) schedule.swizzle = random.below(6) != 0;
  return kernel::check_legality(problem, schedule, device) ? schedule : before;
}

Result<ContractionSchedule> schedule_for(const ContractionProblem& problem, const ProductCase& drawn, bool chosen) {
  const search::ContractionSpaceOptions space = tuning::space_under(problem.graph->constraints, 1);
  if (chosen) {
    STITCH_ASSIGN(const tuning::ContractionChoice choice, tuning::choose_contraction(problem, drawn.device, space));
    return choice.ranked.best.front().schedule;
  }
  Draw<ContractionSchedule> draw(drawn.seed);
  search::for_each_contraction(problem, drawn.device, space, [&](const ContractionSchedule& s) { draw.see(s); });
  Random random(mix(drawn.seed, 1));
  if (const auto any = draw.drawn()) return varied(problem, drawn.device, *any, random);
  return kernel::default_schedule(problem, drawn.device);
}

Result<kernel::AttentionSchedule> schedule_for(const kernel::AttentionProblem& problem, const ProductCase& drawn,
                                               bool chosen) {
  const search::ContractionSpaceOptions space = tuning::space_under(problem.graph->constraints, 1);
  if (!chosen) {
    Draw<kernel::AttentionSchedule> draw(drawn.seed);
    search::for_each_attention(problem, drawn.device, space, [&](const auto& s, const auto&) { draw.see(s); });
    if (const auto any = draw.drawn()) return *any;
  }
  STITCH_ASSIGN(const tuning::AttentionChoice choice, tuning::choose_attention(problem, drawn.device, space));
  return choice.ranked.best.front().schedule;
}

Result<kernel::ChainSchedule> schedule_for(const kernel::ProductChain& chain, const ProductCase& drawn, bool chosen) {
  const search::ContractionSpaceOptions space = tuning::space_under(chain.graph->constraints, 1);
  if (!chosen) {
    Draw<kernel::ChainSchedule> draw(drawn.seed);
    search::for_each_chain(chain, drawn.device, space, [&](const auto& s, const auto&) { draw.see(s); });
    if (const auto any = draw.drawn()) return *any;
  }
  STITCH_ASSIGN(const tuning::ChainChoice choice, tuning::choose_chain(chain, drawn.device, space));
  return choice.ranked.best.front().schedule;
}

Result<codegen::GeneratedKernel> generate(const ContractionProblem& problem, const ContractionSchedule& schedule,
                                          const codegen::GenerateOptions& options) {
  return codegen::generate_contraction(problem, schedule, options);
}
Result<codegen::GeneratedKernel> generate(const kernel::AttentionProblem& problem,
                                          const kernel::AttentionSchedule& schedule,
                                          const codegen::GenerateOptions& options) {
  return codegen::generate_attention(problem, schedule, options);
}
Result<codegen::GeneratedKernel> generate(const kernel::ProductChain& chain, const kernel::ChainSchedule& schedule,
                                          const codegen::GenerateOptions& options) {
  return codegen::generate_chain(chain, schedule, options);
}

template <class Problem, class Schedule>
Result<ProductCandidate> made(const Problem& problem, const Schedule& schedule, const std::string& name) {
  ProductCandidate candidate;
  if constexpr (std::is_same_v<Problem, ContractionProblem>) {
    candidate.graph = problem.whole();
  } else {
    candidate.graph = problem.graph;
  }
  codegen::GenerateOptions options;
  options.name = name;
  STITCH_ASSIGN(candidate.kernel, generate(problem, schedule, options));
  candidate.execution = profiler::execution_of(problem, schedule);
  candidate.schedule = fmt::format("{}: {}", to_string(problem), to_string(schedule));
  candidate.features = features_of(schedule);
  return candidate;
}

template <class Problem>
Result<ProductCandidate> candidate_of(const Problem& problem, const ProductCase& drawn, bool chosen,
                                      const std::string& name) {
  STITCH_ASSIGN(const auto schedule, schedule_for(problem, drawn, chosen));
  STITCH_ASSIGN(ProductCandidate candidate, made(problem, schedule, name));
  candidate.chosen = chosen;
  if constexpr (std::is_same_v<Problem, ContractionProblem>) {
    if (!chosen || drawn.product.kind != "product" || problem.contracted == 0 || problem.rows * problem.columns == 0)
      return candidate;
    constexpr std::int64_t turns = 4;
    RandomProduct longer = random_product(drawn.problem, turns * schedule.block_depth * schedule.split);
    STITCH_ASSIGN(const ContractionProblem other, tuning::product_of(longer.graph));
    if (!kernel::check_legality(other, schedule, drawn.device)) return candidate;
    STITCH_ASSIGN(ProductCandidate deeper, made(other, schedule, name + "_deeper"));
    candidate.deeper = std::make_shared<const ProductCandidate>(std::move(deeper));
  }
  return candidate;
}

}  // namespace

Result<ProductCandidate> product_candidate(const ProductCase& drawn, const std::string& name) {
  const graph::Graph& graph = drawn.product.graph;
  const bool chosen = drawn.seed % 3 == 0;
  if (const auto attention = tuning::attention_of(graph)) return candidate_of(*attention, drawn, chosen, name);
  if (const auto chain = tuning::chain_of(graph)) return candidate_of(*chain, drawn, chosen, name);
  STITCH_ASSIGN(const ContractionProblem product, tuning::product_of(graph));
  return candidate_of(product, drawn, chosen, name);
}

}  // namespace stitch::lab
