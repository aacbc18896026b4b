// What a model costs before any search: reading it, simplifying it, its canonical form, cutting it into fragments.
// The models are those of bench/models.
//
//   graph_benchmark [--benchmark_filter=REGEX]
//
// `nodes` counts those of the step's input, regions included (of an import: of what it made); `node_rate` is nodes per
// second. The label of a simplification names its rounds and its most expensive passes.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "graph/canonical.h"
#include "graph/cut.h"
#include "graph/simplify.h"
#include "import/import.h"

namespace stitch {
namespace {

constexpr const char* models[] = {"bert_train", "gpt2_train", "resnet50_train"};

template <class T>
T must(Result<T> result) {
  if (result) return *std::move(result);
  std::cerr << result.error().message << "\n";
  std::abort();
}

std::string file_name(const std::string& model) { return model + ".hlo.txt.gz"; }

std::string file_bytes(const std::string& model) {
  std::ifstream stream(std::filesystem::path(STITCH_SOURCE_DIR) / "bench" / "models" / "hlo" / file_name(model),
                       std::ios::binary);
  std::ostringstream bytes;
  bytes << stream.rdbuf();
  return bytes.str();
}

/// Each model is read, and simplified, once.
const graph::Graph& imported(const std::string& model) {
  static std::map<std::string, graph::Graph> graphs;
  const auto found = graphs.find(model);
  if (found != graphs.end()) return found->second;
  return graphs.emplace(model, must(import::import_bytes(file_bytes(model), file_name(model))).graph).first->second;
}

const graph::Graph& simplified(const std::string& model) {
  static std::map<std::string, graph::Graph> graphs;
  const auto found = graphs.find(model);
  if (found != graphs.end()) return found->second;
  graph::Graph graph = imported(model);
  must(graph::simplify(graph));
  return graphs.emplace(model, std::move(graph)).first->second;
}

std::int64_t node_count(const graph::Graph& graph) {
  std::int64_t count = 0;
  graph::for_each_region(graph, [&](const graph::RegionSite& site) { count += site.graph.size(); });
  return count;
}

void count_nodes(benchmark::State& state, const graph::Graph& graph) {
  const double nodes = node_count(graph);
  state.counters["nodes"] = nodes;
  state.counters["node_rate"] = benchmark::Counter(nodes, benchmark::Counter::kIsIterationInvariantRate);
}

void BM_import(benchmark::State& state, const char* model) {
  const std::string bytes = file_bytes(model);
  for (auto _ : state) benchmark::DoNotOptimize(must(import::import_bytes(bytes, file_name(model))));
  count_nodes(state, imported(model));
}

std::string most_expensive(graph::SimplifyReport report) {
  std::stable_sort(report.passes.begin(), report.passes.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  std::string text = fmt::format("{} rounds, {} nodes left", report.rounds, report.nodes_after);
  for (std::size_t i = 0; i < 4; ++i) {
    text += fmt::format("; {} {:.1f} ms in {} runs", report.passes[i].name, 1e3 * report.passes[i].seconds,
                        report.passes[i].runs);
  }
  return text;
}

void BM_simplify(benchmark::State& state, const char* model) {
  const graph::Graph& original = imported(model);
  graph::SimplifyReport report;
  for (auto _ : state) {
    state.PauseTiming();
    graph::Graph graph = original;
    state.ResumeTiming();
    report = must(graph::simplify(graph));
  }
  if (!report.settled) state.SkipWithError("does not settle");
  state.SetLabel(most_expensive(report));
  count_nodes(state, original);
}

void BM_simplify_again(benchmark::State& state, const char* model) {
  graph::Graph graph = simplified(model);
  for (auto _ : state) {
    if (must(graph::simplify(graph)).rounds > 1) state.SkipWithError("was not settled");
  }
  count_nodes(state, graph);
}

void BM_canonicalise(benchmark::State& state, const char* model) {
  const graph::Graph& graph = simplified(model);
  for (auto _ : state) benchmark::DoNotOptimize(must(graph::canonicalise(graph)));
  count_nodes(state, graph);
}

void BM_cut(benchmark::State& state, const char* model) {
  const graph::Graph& graph = simplified(model);
  std::size_t fragments = 0;
  for (auto _ : state) fragments = graph::cut(graph).fragments.size();
  state.counters["fragments"] = static_cast<double>(fragments);
  count_nodes(state, graph);
}

void register_models() {
  constexpr std::pair<const char*, void (*)(benchmark::State&, const char*)> steps[] = {
      {"import", BM_import},
      {"simplify", BM_simplify},
      {"simplify_again", BM_simplify_again},
      {"canonicalise", BM_canonicalise},
      {"cut", BM_cut},
  };
  for (const auto& [name, step] : steps) {
    for (const char* model : models) {
      benchmark::RegisterBenchmark(fmt::format("{}/{}", name, model).c_str(), step, model)
          ->Unit(benchmark::kMillisecond);
    }
  }
}

}  // namespace
}  // namespace stitch

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  stitch::register_models();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
