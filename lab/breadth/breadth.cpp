#include "lab/breadth/breadth.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/random.h"
#include "lab/breadth/kernel_batch.h"
#include "lab/breadth/plan_run.h"
#include "lab/breadth/random_graph.h"
#include "lab/breadth/wild_inputs.h"
#include "profiler/device/emulated_device.h"

namespace stitch::lab {
namespace {

using Outcome = CaseVerdict::Outcome;

/// Of the table's devices those that today's toolkits compile for.
const std::vector<DeviceSpec>& compiled_for() {
  static const std::vector<DeviceSpec> devices = [] {
    std::vector<DeviceSpec> list;
    for (const DeviceSpec& device : known_devices()) {
      if (device.compute_major * 10 + device.compute_minor >= 75) list.push_back(device);
    }
    return list;
  }();
  return devices;
}

void blame(CaseVerdict& verdict, const Error& error, std::string_view stage) {
  const bool refused = error.kind == ErrorKind::constraint && stage == "plan";
  verdict.outcome = refused ? Outcome::refused : Outcome::wrong;
  verdict.why = fmt::format("{}: {}: {}", stage, to_string(error.kind), error.message);
}

void note_features(const kernel::KernelProgram& program, CaseVerdict& verdict) {
  const auto has = [&](std::string_view feature, bool present) {
    if (present) ++verdict.features[std::string(feature)];
  };
  using kernel::Sync;
  const auto& syncs = program.schedule.syncs;
  has("several phases", program.phases.size() > 1);
  has("last block", std::ranges::count(syncs, Sync::last_block) != 0);
  has("grid barrier", std::ranges::count(syncs, Sync::barrier) != 0);
  has("gate", std::ranges::count(syncs, Sync::gate) != 0);
  has("cluster", program.schedule.cluster > 1);
  has("slabs", program.schedule.slabs.count > 1);
  has("retained", program.schedule.retained > 0);
  has("several blocks", program.blocks > 1);
  const auto any_group = [&](auto&& is) {
    return std::ranges::any_of(program.phases,
                               [&](const auto& phase) { return std::ranges::any_of(phase.groups, is); });
  };
  has("several groups", std::ranges::any_of(program.phases, [](const auto& phase) { return phase.groups.size() > 1; }));
  has("shifted rows", any_group([](const auto& group) { return group.mapping.shifted; }));
  has("loads a turn ahead", any_group([](const auto& group) { return group.mapping.stages > 1; }));
  has("stages in shared memory", any_group([](const auto& group) { return group.mapping.shared_stages; }));
  has("stages by bulk copies", any_group([](const auto& group) { return group.mapping.bulk_stages; }));
  has("tensor cores", any_group([](const auto& group) { return group.mapping.tensor_cores; }));
  has("vectors", any_group([](const auto& group) { return group.vector_extent() > 1; }));
  has("held in shared memory", any_group([](const auto& group) { return group.held_bytes > 0; }));
  has("exchange between warps", any_group([](const auto& group) { return group.exchange_bytes > 0; }));
  has("loop over sweeps", any_group([](const auto& group) { return !group.outer_loops.empty(); }));
  has("loop in a sweep", any_group([](const auto& group) { return !group.inner_loops.empty(); }));
  has("interleaved", any_group([](const auto& group) {
        return std::ranges::any_of(group.mapping.axes, &kernel::AxisMapping::interleaved);
      }));
}

void note_contents(const RandomPlan& plan, CaseVerdict& verdict) {
  verdict.kernels = std::ssize(plan.kernels);
  for (const search::PlannedKernel& planned : plan.planned) {
    for (const graph::Node& node : planned.kernel->graph.nodes()) {
      if (node.op != graph::Op::parameter && node.op != graph::Op::constant)
        ++verdict.operators[fmt::format("{} {}", to_string(node.op), to_string(node.type().dtype))];
    }
    note_features(planned.kernel->candidates.front().program, verdict);
  }
}

/// Runs a plan on two sets of inputs.
void judge(const RandomPlan& plan, const std::vector<profiler::KernelImage>& images, const BreadthCase& drawn,
           CaseVerdict& verdict) {
  profiler::EmulatedOptions options;
  options.host_threads = 1;
  options.instruction_budget = std::uint64_t{1} << 26;
  profiler::EmulatedDevice device(options);
  const Wildness wild = drawn.seed % 3 == 0 ? Wildness::all_bits : Wildness::notable;
  for (const Wildness wildness : {Wildness::plain, wild}) {
    const auto inputs = wild_inputs(drawn.graph, wildness, mix(drawn.seed, static_cast<std::uint64_t>(wildness)));
    const Result<PlanVerdict> ran = run_plan(device, plan, images, inputs);
    if (!ran) return blame(verdict, ran.error(), "run");
    verdict.elements += ran->elements;
    verdict.compared += ran->compared;
    if (ran->failure.empty()) continue;
    verdict.outcome = Outcome::wrong;
    verdict.why = ran->failure;
    return;
  }
}

/// A refusal without names and numbers.
std::string reason_of(const std::string& why) {
  std::string reason;
  for (const char c : why) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) reason += c;
    if (digit && !reason.ends_with('#')) reason += '#';
  }
  return reason.substr(0, 160);
}

void add(std::map<std::string, std::int64_t>& into, const std::map<std::string, std::int64_t>& from) {
  for (const auto& [name, count] : from) into[name] += count;
}

}  // namespace

BreadthCase breadth_case(std::uint64_t seed, std::int64_t number) {
  const auto n = static_cast<std::uint64_t>(number);
  const auto& devices = compiled_for();
  const std::uint64_t device = random_at(mix(seed, 0xDE71CE), n / static_cast<std::uint64_t>(cases_per_device));
  return {random_graph(random_at(seed, n)), devices[device % devices.size()], random_at(mix(seed, 0x5EED), n)};
}

std::vector<CaseVerdict> check_cases(const codegen::Nvrtc& nvrtc, std::span<const BreadthCase> cases) {
  std::vector<CaseVerdict> verdicts(cases.size());
  std::vector<std::optional<RandomPlan>> plans(cases.size());
  std::vector<const codegen::GeneratedKernel*> kernels;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Result<RandomPlan> plan = random_plan(cases[i].graph, cases[i].device, cases[i].seed, fmt::format("graph{}", i));
    if (!plan) {
      blame(verdicts[i], plan.error(), "plan");
      continue;
    }
    plans[i] = std::move(*plan);
    for (const codegen::GeneratedKernel& kernel : plans[i]->kernels) kernels.push_back(&kernel);
  }
  if (cases.empty()) return verdicts;
  std::vector<Result<profiler::KernelImage>> images =
      compile_batch(nvrtc, kernels, cases.front().device.architecture());
  std::size_t next = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!plans[i]) continue;
    std::vector<profiler::KernelImage> own;
    for (std::size_t k = 0; k < plans[i]->kernels.size(); ++k) {
      Result<profiler::KernelImage>& image = images[next++];
      if (image)
        own.push_back(std::move(*image));
      else
        blame(verdicts[i], image.error(), "compile");
    }
    if (verdicts[i].outcome != Outcome::right) continue;
    note_contents(*plans[i], verdicts[i]);
    judge(*plans[i], own, cases[i], verdicts[i]);
  }
  return verdicts;
}

std::string fault_class(const CaseVerdict& verdict) {
  // "result 1 at …" → "result", "kernel 0: race: …" → "kernel race", "compile: compile: …" → "compile compile".
  const std::string reason = reason_of(verdict.why);
  if (reason.starts_with("result ")) return "result";
  const std::size_t first = reason.find(": "), second = reason.find_first_of(": ", first + 2);
  return first == std::string::npos ? reason : reason.substr(0, second);
}

void BreadthReport::add(std::int64_t number, const CaseVerdict& verdict) {
  ++graphs;
  kernels += verdict.kernels;
  elements += verdict.elements;
  compared += verdict.compared;
  lab::add(operators, verdict.operators);
  lab::add(features, verdict.features);
  switch (verdict.outcome) {
    case Outcome::right: ++right; break;
    case Outcome::refused:
      ++refused;
      ++refusals[reason_of(verdict.why)];
      break;
    case Outcome::wrong: failures.emplace(number, verdict.why); break;
  }
}

void BreadthReport::add(const BreadthReport& other) {
  graphs += other.graphs;
  right += other.right;
  refused += other.refused;
  kernels += other.kernels;
  elements += other.elements;
  compared += other.compared;
  lab::add(operators, other.operators);
  lab::add(features, other.features);
  lab::add(refusals, other.refusals);
  failures.insert(other.failures.begin(), other.failures.end());
}

nlohmann::ordered_json to_document(const BreadthReport& report) {
  nlohmann::ordered_json failures = nlohmann::ordered_json::object();
  for (const auto& [number, why] : report.failures) failures[std::to_string(number)] = why;
  return {{"graphs", report.graphs},      {"right", report.right},       {"refused", report.refused},
          {"kernels", report.kernels},    {"elements", report.elements}, {"compared", report.compared},
          {"failures", failures},         {"refusals", report.refusals}, {"features", report.features},
          {"operators", report.operators}};
}

Result<BreadthReport> report_from_document(const nlohmann::json& document) {
  try {
    BreadthReport report;
    document.at("graphs").get_to(report.graphs);
    document.at("right").get_to(report.right);
    document.at("refused").get_to(report.refused);
    document.at("kernels").get_to(report.kernels);
    document.at("elements").get_to(report.elements);
    document.at("compared").get_to(report.compared);
    document.at("refusals").get_to(report.refusals);
    document.at("features").get_to(report.features);
    document.at("operators").get_to(report.operators);
    for (const auto& [number, why] : document.at("failures").items())
      report.failures.emplace(std::stoll(number), why.get<std::string>());
    return report;
  } catch (const std::exception& error) {
    return make_error(ErrorKind::parse, "a breadth report that cannot be read: {}", error.what());
  }
}

BreadthReport check_range(const codegen::Nvrtc& nvrtc, std::uint64_t seed, std::int64_t from, std::int64_t count) {
  BreadthReport report;
  for (std::int64_t at = from; at < from + count;) {
    const std::int64_t until = std::min(from + count, (at / cases_per_device + 1) * cases_per_device);
    std::vector<BreadthCase> cases;
    for (std::int64_t number = at; number < until; ++number) cases.push_back(breadth_case(seed, number));
    const std::vector<CaseVerdict> verdicts = check_cases(nvrtc, cases);
    for (std::size_t i = 0; i < verdicts.size(); ++i) report.add(at + static_cast<std::int64_t>(i), verdicts[i]);
    at = until;
  }
  return report;
}

}  // namespace stitch::lab
