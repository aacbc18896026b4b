#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/device_spec.h"
#include "codegen/compile/nvrtc.h"
#include "graph/graph.h"

// Differential tests in breadth: graphs, partitions, schedules and inputs at random, and the emulated device against
// the float64 reference. Number n of seed s is the same case everywhere:
//
//     const BreadthCase drawn = breadth_case(s, n);            // a graph, a device, and a seed for all else
//     const CaseVerdict verdict = check_cases(nvrtc, {&drawn, 1}).front();
//     if (verdict.outcome == CaseVerdict::Outcome::wrong) … shrink(check, drawn) …   (lab/breadth/shrinker.h)
//
// `stitch conformance random` runs any number of them, tests/lab some in every test run.
namespace stitch::lab {

/// How many cases with neighbouring numbers are for one device, so that their kernels are compiled together.
inline constexpr std::int64_t cases_per_device = 32;

struct BreadthCase {
  graph::Graph graph;
  DeviceSpec device;
  std::uint64_t seed = 0;  ///< of partition, schedules and inputs
};

BreadthCase breadth_case(std::uint64_t seed, std::int64_t number);

/// What became of a case.
struct CaseVerdict {
  enum class Outcome : std::uint8_t {
    right,
    refused,  ///< an operator fits no kernel: a plan is not made, and nothing wrong is computed
    wrong,    ///< wrong results, a finding of the device, or an error of a stage that should give none
  };
  Outcome outcome = Outcome::right;
  std::string why;  ///< of what is not right
  std::int64_t kernels = 0;
  std::int64_t elements = 0, compared = 0;        ///< of results, over all runs; of them, within a finite bound
  std::map<std::string, std::int64_t> operators;  ///< "add f32": in kernels that ran, how often
  std::map<std::string, std::int64_t> features;   ///< "cluster", "grid barrier": kernels that have it
};

/// Cases of one device; their kernels are compiled together, and each plan runs on two sets of inputs: plain ones, and
/// ones with NaN and infinities or of any bits.
std::vector<CaseVerdict> check_cases(const codegen::Nvrtc& nvrtc, std::span<const BreadthCase> cases);

/// What is wrong without where: verdicts of one fault have the same in common.
std::string fault_class(const CaseVerdict& verdict);

/// Verdicts of many cases, added up.
struct BreadthReport {
  std::int64_t graphs = 0, right = 0, refused = 0;
  std::int64_t kernels = 0, elements = 0, compared = 0;
  std::map<std::string, std::int64_t> operators, features;
  std::map<std::string, std::int64_t> refusals;  ///< by reason
  std::map<std::int64_t, std::string> failures;  ///< by number: why

  void add(std::int64_t number, const CaseVerdict& verdict);
  void add(const BreadthReport& other);
};

nlohmann::ordered_json to_document(const BreadthReport& report);
/// Error: parse.
Result<BreadthReport> report_from_document(const nlohmann::json& document);

/// Cases [from, from + count) of a seed.
BreadthReport check_range(const codegen::Nvrtc& nvrtc, std::uint64_t seed, std::int64_t from, std::int64_t count);

}  // namespace stitch::lab
