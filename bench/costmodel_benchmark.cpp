// What ranking a candidate costs, without the search that makes it: counting, features, and the three models.
//
//   costmodel_benchmark [--benchmark_filter=REGEX]
//
// `candidates` is candidates per second of wall time over all threads of the run (/threads:2: two cores).
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdlib>
#include <iostream>

#include "costmodel/analytical.h"
#include "costmodel/combined.h"
#include "costmodel/kernel_features.h"
#include "costmodel/learned.h"
#include "costmodel/training.h"
#include "search/schedule/stitch_explorer.h"
#include "tests/profiler/sample_graphs.h"

namespace stitch::costmodel {
namespace {

template <class T>
T must(Result<T> result) {
  if (result) return *std::move(result);
  std::cerr << result.error().message << "\n";
  std::abort();
}

struct Candidates {
  graph::Graph graph;
  std::vector<search::StitchCandidate> all;
};

/// What tuning looks at of one kernel.
const Candidates& candidates(int kind) {
  static const auto make = [](Result<graph::Graph> graph) {
    auto made = std::make_unique<Candidates>();
    made->graph = must(std::move(graph));
    made->all = must(search::explore_stitches(made->graph, AnalyticalScorer(must(find_device("h100"))), {500, true}));
    return made;
  };
  static const std::unique_ptr<Candidates> made[] = {
      make(profiler::test::scaled_sum({1 << 20})), make(profiler::test::softmax(2048, 1024)),
      make(profiler::test::norm_backward(2048, 768)), make(profiler::test::packed(8))};
  return *made[kind];
}
constexpr const char* kinds[] = {"element-wise", "softmax", "norm backward", "packed"};

std::shared_ptr<const TrainedCostModel> model_of(TrainedCostModel::Kind kind) {
  const DeviceSpec device = must(find_device("h100"));
  TrainingSet set;
  set.device = device.name;
  for (int k = 0; k < 3; ++k) {
    for (const search::StitchCandidate& candidate : candidates(k).all) {
      TrainingSample sample;
      sample.features = to_row(kernel_features(candidates(k).graph, candidate.program, device));
      sample.analytical_us = candidate.predicted_us;
      // Made up: speed, not quality, is measured here.
      sample.measured = candidate.predicted_us * (candidate.schedule.threads > 256 ? 1.3 : 1);
      sample.kernel.low = static_cast<std::uint64_t>(k);
      set.samples.push_back(std::move(sample));
    }
  }
  TrainingOptions options;
  options.kind = kind, options.folds = 0;
  return std::make_shared<const TrainedCostModel>(must(train_model(set, options)).model);
}

/// Every thread goes through all candidates of a kernel.
template <class Work>
void over_candidates(benchmark::State& state, Work&& work) {
  const Candidates& some = candidates(static_cast<int>(state.range(0)));
  std::size_t at = 0;
  for (auto step : state) {
    (void)step;
    work(some.graph, some.all[at].program);
    at = at + 1 == some.all.size() ? 0 : at + 1;
  }
  state.counters["candidates"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  state.SetLabel(kinds[state.range(0)]);
}

void features(benchmark::State& state) {
  const DeviceSpec device = must(find_device("h100"));
  std::vector<float> row(feature_columns().size());
  over_candidates(state, [&](const graph::Graph& graph, const kernel::KernelProgram& program) {
    to_row(kernel_features(graph, program, device), row);
    benchmark::DoNotOptimize(row.data());
  });
}
BENCHMARK(features)->DenseRange(0, 3)->Threads(1)->Threads(2)->UseRealTime();

void score(benchmark::State& state, const search::Scorer& scorer) {
  over_candidates(state, [&](const graph::Graph& graph, const kernel::KernelProgram& program) {
    benchmark::DoNotOptimize(scorer.predict_us(graph, program));
  });
}

void analytical(benchmark::State& state) {
  static const AnalyticalScorer scorer(must(find_device("h100")));
  score(state, scorer);
}
BENCHMARK(analytical)->DenseRange(0, 3)->Threads(2)->UseRealTime();

void learned(benchmark::State& state) {
  static const auto scorer =
      must(LearnedScorer::create(model_of(TrainedCostModel::Kind::learned), must(find_device("h100"))));
  score(state, *scorer);
}
BENCHMARK(learned)->DenseRange(0, 2)->Threads(2)->UseRealTime();

void combined(benchmark::State& state) {
  static const auto scorer =
      must(CombinedScorer::create(model_of(TrainedCostModel::Kind::combined), must(find_device("h100"))));
  score(state, *scorer);
}
BENCHMARK(combined)->DenseRange(0, 2)->Threads(2)->UseRealTime();

/// Training on 1,500 candidates, without folds.
void train(benchmark::State& state) {
  for (auto step : state) {
    (void)step;
    benchmark::DoNotOptimize(model_of(TrainedCostModel::Kind::combined));
  }
}
BENCHMARK(train)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stitch::costmodel

BENCHMARK_MAIN();
