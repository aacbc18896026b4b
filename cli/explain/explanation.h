#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "search/partition/fusion_plan.h"
#include "search/schedule/scorer.h"
#include "tuning/models/model_tuning.h"

namespace stitch::cli {

/// What stands between two kernels of a plan: why they are not one.
struct BoundaryExplanation {
  int from = 0, to = 0;             ///< kernels; `to` reads what `from` writes, or they are independent
  std::int64_t bytes = 0;           ///< of the values that `to` reads from `from`; 0: independent
  std::optional<double> merged_us;  ///< predicted time of both as one kernel; nothing: that is impossible
  double gain_us = 0;               ///< predicted gain of merging; negative: a loss
  std::string why;                  ///< for people
};

/// How one reduction or store of a group gets its values across threads.
struct AnchorExplanation {
  std::string what;    ///< "reduce sum f32[8,128]", "store result 0"
  std::string scheme;  ///< thread, warp, block, cluster or grid: how far its values travel
  std::string how;     ///< "5 shuffles, 8 partial results through shared memory"
};

struct GroupExplanation {
  int phase = 0;
  int threads = 0;
  std::int64_t tiles = 0;
  int sweeps = 1;
  std::vector<std::string> axes;      ///< "768: vector 4, lane 32, reg 6"
  std::vector<std::string> held;      ///< values kept between sweeps, and where
  std::string ahead;                  ///< "2 loads a turn ahead": while a turn computes; empty: none
  std::vector<std::string> retained;  ///< of what it loads, for later phases or from earlier ones
  std::vector<AnchorExplanation> anchors;
};

struct KernelExplanation {
  std::string name, description;
  std::vector<graph::NodeId> nodes;  ///< of the fragment
  std::int64_t blocks = 0;
  int threads = 0, cluster = 1, registers = 0;
  std::int64_t shared_bytes = 0, bytes = 0;
  std::vector<std::string> syncs;  ///< between phases
  std::int64_t slabs = 1;          ///< that go through all phases, one after the other
  std::vector<GroupExplanation> groups;
  search::Score score;
  std::string kind;                            ///< of the kernel, by which its prediction may be off
  double uncertainty_us = 0;                   ///< how far
  std::optional<tuning::KernelReport> report;  ///< of a kernel that was generated and verified
};

struct FragmentExplanation {
  Hash128 key;
  std::string name;
  std::int64_t occurrences = 1;
  graph::Graph graph;
  double predicted_us = 0, uncertainty_us = 0, unfused_us = 0;
  std::optional<double> unconstrained_us;  ///< of a fragment under constraints: predicted without them
  std::int64_t unfused_kernels = 0;
  std::int64_t dependent_launches = 0;  ///< kernels that begin while the one before them still runs
  double dependent_saving_us = 0;       ///< what each of them saves; 0: the device has no such launches
  double unwaited_saving_us = 0;        ///< and all together by what they load before they wait
  std::vector<KernelExplanation> kernels;
  std::vector<BoundaryExplanation> boundaries;
  std::int64_t boundaries_left_out = 0;  ///< pairs that were not examined
  std::string failure;                   ///< why there is no plan, or why its kernels could not be run
};

/// Plans a fragment and says why the plan is what it is; with `run`, its kernels are also generated and run on the
/// tuner's device, which counts events. `most_pairs`: pairs of kernels whose merger is examined.
FragmentExplanation explain_fragment(const tuning::ModelFragments::Entry& entry, const tuning::Tuner& tuner, bool run,
                                     int most_pairs = 64);

std::string to_text(const FragmentExplanation& fragment);
nlohmann::ordered_json to_document(const FragmentExplanation& fragment);

}  // namespace stitch::cli
