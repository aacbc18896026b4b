// What fusion patterns save by the full model, beside the quantities that the delta evaluator multiplies.
//
//   delta_benchmark [--patterns N] [--only TEXT] [--device NAME]
//
// Of every distinct fragment of bench/models at most N of the patterns that the fusion explorer makes of it, evenly
// chosen. Prints one JSON object; bench/delta/fit fits constants to it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/device_spec.h"
#include "bench/model_fragments.h"
#include "costmodel/analytical.h"
#include "search/partition/fusion_explorer.h"
#include "search/partition/patterns.h"

namespace stitch {
namespace {

using nlohmann::ordered_json;
using search::VertexSet;

struct Options {
  int patterns = 60;
  std::string only, device = "h100";
};

/// One row per pattern: the features, what its operators take apart and together.
void add_rows(const std::string& name, const graph::Graph& fragment, const Options& options,
              const costmodel::AnalyticalScorer& scorer, ordered_json& fragments) {
  const search::VertexGraph vertices(fragment);
  if (vertices.size() < 2) return;
  const kernel::AxisAnalysis axes(fragment);
  const search::DeltaModel model = search::DeltaModel::of(scorer.device());
  const search::DeltaEvaluator evaluator(vertices, axes, model);
  std::vector<VertexSet> sets;
  for (const auto& patterns : generate_patterns(vertices, evaluator, {})) {
    for (const search::Pattern& pattern : patterns) {
      if (pattern.vertices.count() > 1) sets.push_back(pattern.vertices);
    }
  }
  search::KernelCache cache(scorer, {});
  const auto time = [&](const VertexSet& set) { return plan_of_partition(vertices, {set}, cache); };
  std::vector<double> alone;
  for (int v = 0; v < vertices.size(); ++v) {
    const auto plan = time(single(vertices, v).vertices);
    alone.push_back(plan ? plan->predicted_us : 0);
  }
  ordered_json rows = ordered_json::array();
  const std::size_t most = std::min(sets.size(), static_cast<std::size_t>(options.patterns));
  for (std::size_t i = 0; i < most; ++i) {
    const VertexSet& set = sets[i * sets.size() / most];
    const auto together = time(set);
    if (!together) continue;  // the explorer splits such a pattern
    double apart = 0;
    for (const int v : set.members()) apart += alone[v];
    const auto f = evaluator.features(set);
    rows.push_back(
        {f.bytes_saved, f.launches_saved, f.phases, f.bytes_again, f.operators, apart, together->predicted_us});
  }
  if (!rows.empty()) fragments.push_back({{"name", name}, {"rows", std::move(rows)}});
}

int run(const Options& options) {
  const auto device = find_device(options.device);
  if (!device) {
    std::fprintf(stderr, "no device '%s'\n", options.device.c_str());
    return 2;
  }
  const costmodel::AnalyticalScorer scorer(*device);
  ordered_json fragments = ordered_json::array();
  const Status visited =
      bench::for_each_model_fragment(options.only, [&](const std::string& name, const graph::Graph& fragment) {
        add_rows(name, fragment, options, scorer, fragments);
      });
  if (!visited) {
    std::fprintf(stderr, "%s\n", visited.error().message.c_str());
    return 1;
  }
  const search::DeltaModel model = search::DeltaModel::of(*device);
  const ordered_json document = {
      {"device", options.device},
      {"scorer", costmodel::AnalyticalScorer::version},
      {"columns", {"bytes_saved", "launches_saved", "phases", "bytes_again", "operators", "apart_us", "together_us"}},
      {"constants",
       {{"us_per_byte", model.us_per_byte},
        {"us_per_launch", model.us_per_launch},
        {"us_per_phase", model.us_per_phase},
        {"us_per_operator", model.us_per_operator}}},
      {"fragments", fragments}};
  std::printf("%s\n", document.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace stitch

int main(int argc, char** argv) {
  CLI::App app{"What fusion patterns save by the full model"};
  stitch::Options options;
  app.add_option("--patterns", options.patterns, "of a fragment")->capture_default_str();
  app.add_option("--only", options.only, "models whose file names contain this");
  app.add_option("--device", options.device)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return stitch::run(options);
}
