#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "client/executor.h"
#include "graph/cut.h"
#include "graph/graph.h"
#include "tuning/plans/tuner.h"

namespace stitch::lab {

/// What a run of a whole graph did where.
struct RunSummary {
  std::int64_t fragments = 0;          ///< that ran on the device, as often as they ran
  std::int64_t launches = 0;           ///< of kernels on the device
  std::vector<std::string> evaluated;  ///< operators left to the reference evaluator, each once: dots, convolutions
};

/// Runs a graph as a program that uses Stitch would: its fragments by their plans on a device, what is left to
/// libraries on the reference evaluator. Loops that are not one kernel, and branches, are followed on the host, and the
/// fragments of their bodies run on the device too. Every fragment is tuned, and so verified, when it is met first.
class GraphRunner {
 public:
  /// Both must outlive the runner. `executor` must load what `tuner` compiles for.
  GraphRunner(const tuning::Tuner& tuner, client::Executor& executor) : tuner_(tuner), executor_(executor) {}

  /// Results for these arguments, whole and rounded to their dtypes. `graph`: simplified. Errors: those of tuning
  /// and of running plans, with the fragment's place; unsupported (an opaque operator); resource_exhausted (a loop
  /// of more than 2^20 trips).
  Result<std::vector<graph::ConstantAttributes>> run(const graph::Graph& graph,
                                                     std::vector<graph::ConstantAttributes> arguments,
                                                     RunSummary& summary);

 private:
  struct Loaded {
    tuning::TunedFragment tuned;
    std::unique_ptr<client::LoadedPlan> plan;
  };
  class Memory;
  Result<Loaded*> load(const graph::Graph& canonical, const Hash128& key);
  Status run_fragment(const graph::FragmentSite& site, Memory& memory, RunSummary& summary);
  Status run_other(const graph::Graph& graph, graph::NodeId id, Memory& memory, RunSummary& summary);
  Result<std::vector<graph::ConstantAttributes>> run_loop(const graph::Node& node,
                                                          std::vector<graph::ConstantAttributes> carried,
                                                          RunSummary& summary);

  const tuning::Tuner& tuner_;
  client::Executor& executor_;
  std::unordered_map<Hash128, Loaded> loaded_;
};

}  // namespace stitch::lab
