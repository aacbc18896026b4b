// Plans of the fusion explorer beside the best partition there is, under the scorer that plans are made by.
//
//   partition_benchmark [--graphs N] [--most-operators N] [--only TEXT] [--device NAME]
//
// N random graphs of at most ten operators, and every distinct fragment of bench/models with at most twelve. Prints one
// JSON object; bench/partitions/measure makes a page of it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/device_spec.h"
#include "bench/model_fragments.h"
#include "costmodel/analytical.h"
#include "graph/print.h"
#include "tests/graph/random_graph.h"
#include "tests/search/exhaustive_partition.h"

namespace stitch {
namespace {

using nlohmann::ordered_json;

constexpr int most_random_operators = 10;

struct Options {
  int graphs = 500;
  int most_operators = 12;
  std::string only, device = "h100";
};

/// Which operators share a kernel: "{tanh.1 add.3} {reduce.7}".
std::string describe(const search::VertexGraph& vertices, const std::vector<search::VertexSet>& parts) {
  std::string text;
  for (const search::VertexSet& part : parts) {
    text += text.empty() ? "{" : " {";
    bool first = true;
    for (const int v : part.members()) {
      const graph::NodeId node = vertices.node(v);
      text += fmt::format("{}{}.{}", first ? "" : " ", to_string(vertices.fragment().node(node).op), node);
      first = false;
    }
    text += "}";
  }
  return text;
}

std::vector<search::VertexSet> parts_of(const search::VertexGraph& vertices, const search::FusionPlan& plan) {
  std::vector<search::VertexSet> parts;
  for (const search::PlannedKernel& kernel : plan.kernels) {
    search::VertexSet part(static_cast<std::size_t>(vertices.size()));
    for (const graph::NodeId node : kernel.nodes) {
      if (const int v = vertices.vertex_of(node); v >= 0) part.insert(v);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

/// A row of the page; nothing for a fragment of no or too many operators.
std::optional<ordered_json> compare(const graph::Graph& fragment, const std::string& name, int most_operators,
                                    const search::Scorer& scorer) {
  const search::VertexGraph vertices(fragment);
  if (vertices.size() == 0 || vertices.size() > most_operators) return std::nullopt;
  search::KernelCache cache(scorer, {});
  const auto best = search::test::best_partition(vertices, cache);
  const auto plan = search::explore_fusion(fragment, cache, {});
  ordered_json row = {{"name", name}, {"operators", vertices.size()}};
  if (!best || !plan) {
    row["error"] = (best ? plan.error() : best.error()).message;
    return row;
  }
  row["best_us"] = best->predicted_us, row["beam_us"] = plan->predicted_us;
  row["best_kernels"] = best->parts.size(), row["beam_kernels"] = plan->kernels.size();
  row["sets"] = best->kernels;
  const double ratio = plan->predicted_us > 0 ? best->predicted_us / plan->predicted_us : 1;
  row["ratio"] = ratio;
  if (ratio < 1 - 1e-6) {
    row["best"] = describe(vertices, best->parts);
    row["beam"] = describe(vertices, parts_of(vertices, *plan));
    row["graph"] = graph::to_text(fragment);
  }
  return row;
}

/// Half of the graphs are so small that launches are all that counts, half large enough for bytes to count.
graph::Graph random_fragment(std::uint64_t seed) {
  graph::test::RandomGraphOptions options;
  options.seed = seed;
  options.parameters = 1 + static_cast<int>(seed % 4);
  options.operators = 3 + static_cast<int>(seed / 4 % 8);
  options.scan = static_cast<int>(seed % 3 == 0), options.arg_reduce = static_cast<int>(seed % 5 == 0);
  if (seed % 7 == 0) options.dtypes = {graph::DType::f32, graph::DType::bf16, graph::DType::s32};
  if (seed % 2 == 0) options.most_rank = 3, options.most_extent = 4096, options.most_elements = 1 << 24;
  return graph::test::random_graph(options);
}

ordered_json random_rows(const Options& options, const search::Scorer& scorer) {
  ordered_json rows = ordered_json::array();
  for (std::uint64_t seed = 1; rows.size() < static_cast<std::size_t>(options.graphs); ++seed) {
    auto row = compare(random_fragment(seed), fmt::format("seed {}", seed), most_random_operators, scorer);
    if (row) rows.push_back(std::move(*row));
    if (rows.size() % 50 == 0) std::fprintf(stderr, "%zu random graphs\n", rows.size());
  }
  return rows;
}

Result<ordered_json> model_rows(const Options& options, const search::Scorer& scorer) {
  ordered_json rows = ordered_json::array();
  STITCH_TRY(bench::for_each_model_fragment(options.only, [&](const std::string& name, const graph::Graph& fragment) {
    if (auto row = compare(fragment, name, options.most_operators, scorer)) rows.push_back(std::move(*row));
  }));
  return rows;
}

int run(const Options& options) {
  const auto device = find_device(options.device);
  if (!device) {
    std::fprintf(stderr, "no device '%s'\n", options.device.c_str());
    return 2;
  }
  const costmodel::AnalyticalScorer scorer(*device);
  const auto models = model_rows(options, scorer);
  if (!models) {
    std::fprintf(stderr, "%s\n", models.error().message.c_str());
    return 1;
  }
  const ordered_json document = {{"device", options.device},
                                 {"most_random_operators", most_random_operators},
                                 {"most_operators", options.most_operators},
                                 {"random", random_rows(options, scorer)},
                                 {"models", *models}};
  std::printf("%s\n", document.dump(1).c_str());
  return 0;
}

}  // namespace
}  // namespace stitch

int main(int argc, char** argv) {
  CLI::App app{"Beam plans beside exhaustive partitions"};
  stitch::Options options;
  app.add_option("--graphs", options.graphs, "random graphs")->capture_default_str();
  app.add_option("--most-operators", options.most_operators, "of a fragment of bench/models")->capture_default_str();
  app.add_option("--only", options.only, "models whose file names contain this");
  app.add_option("--device", options.device)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return stitch::run(options);
}
