#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "codegen/compile/compiler.h"
#include "codegen/kernel.h"
#include "graph/builder.h"
#include "profiler/device/emulated_device.h"
#include "profiler/verify/verify.h"
#include "search/schedule/stitch_explorer.h"

/// Graphs to kernels to verdicts, for the suites that verify on the emulated device.
namespace stitch::profiler::test {

/// Likes 64 blocks best, so that small graphs too have a grid.
class GridScorer final : public search::Scorer {
 public:
  GridScorer() = default;
  explicit GridScorer(DeviceSpec device) : device_(std::move(device)) {}

  [[nodiscard]] double predict_us(const graph::Graph&, const kernel::KernelProgram& program) const override {
    return 1 + std::abs(std::log2(static_cast<double>(program.blocks) / 64));
  }
  [[nodiscard]] search::Score explain(const graph::Graph&, const kernel::KernelProgram&) const override { return {}; }
  [[nodiscard]] const DeviceSpec& device() const override { return device_; }

 private:
  DeviceSpec device_ = *find_device("h100");
};

using Wish = std::function<bool(const kernel::KernelProgram&)>;

struct KernelCase {
  std::shared_ptr<const graph::Graph> graph;
  kernel::KernelProgram program;
  codegen::GeneratedKernel kernel;
  std::string architecture = "sm_90a";  ///< that it is compiled for
  std::int64_t narrow_part = 0;         ///< of what the reference grants (graph::ErrorModel)
};

/// What a schedule must be like.
inline bool any(const kernel::KernelProgram&) { return true; }
inline bool one_phase(const kernel::KernelProgram& p) { return p.phases.size() == 1; }
inline bool clustered(const kernel::KernelProgram& p) { return p.schedule.cluster > 1 && p.phases[0].tiles >= 8; }
inline Wish phases(std::size_t count, kernel::Sync sync, std::int64_t least_tiles = 8) {
  return [=](const kernel::KernelProgram& p) {
    return p.phases.size() == count && p.schedule.syncs.front() == sync && p.phases[0].tiles >= least_tiles;
  };
}

/// The first schedule of a space that is as wished; of the one that tuning looks at, unless another is asked for.
inline KernelCase make_case(Result<graph::Graph> graph, const Wish& wish = any,
                            const search::StitchOptions& space = {.keep = 1000},
                            const search::Scorer& scorer = GridScorer()) {
  if (!graph) {
    throw std::runtime_error(graph.error().message);
  }
  KernelCase made;
  made.graph = std::make_shared<const graph::Graph>(std::move(*graph));
  const auto found = search::explore_space(*made.graph, scorer, space);
  if (!found) {
    throw std::runtime_error(found.error().message);
  }
  for (const search::StitchCandidate& candidate : found->candidates) {
    if (!wish(candidate.program)) continue;
    made.program = candidate.program;
    auto kernel = codegen::generate(*made.graph, made.program, {});
    if (!kernel) {
      throw std::runtime_error(kernel.error().message);
    }
    made.kernel = std::move(*kernel);
    return made;
  }
  std::string all;
  for (const search::StitchCandidate& candidate : found->candidates) {
    const kernel::KernelProgram& p = candidate.program;
    all += fmt::format("cluster {} blocks {} phases", p.schedule.cluster, p.blocks);
    for (const kernel::PhaseProgram& phase : p.phases) all += fmt::format(" {} tiles", phase.tiles);
    for (const kernel::Scratch& scratch : p.scratch)
      all += scratch.kind == kernel::Scratch::Kind::value ? " value" : " partials";
    if (p.schedule.slabs.count > 1) all += fmt::format(" in {} slabs", p.schedule.slabs.count);
    for (const kernel::RetainedLoad& load : p.phases[0].groups[0].retained)
      all += fmt::format(" retains {:.2f}", load.share);
    all += "\n";
  }
  throw std::runtime_error("none of these schedules is as wished:\n" + all);
}

inline KernelImage compile(const codegen::GeneratedKernel& kernel, const std::string& architecture = "sm_90a") {
  static const auto compiler = codegen::NvrtcCompiler::create();
  if (!compiler) {
    throw std::runtime_error(compiler.error().message);
  }
  static std::map<std::string, KernelImage> known;
  KernelImage& image = known[architecture + kernel.source];
  if (!image.ptx.empty()) return image;
  codegen::CompileRequest request;
  request.source = kernel.source;
  request.architecture = architecture;
  request.options = kernel.compile_options;
  const auto compiled = (*compiler)->compile(request);
  if (!compiled) {
    throw std::runtime_error(compiled.error().message + "\n" + kernel.source);
  }
  return image = {kernel.name, compiled->ptx, compiled->cubin, compiled->architecture};
}

inline Verification verify(const KernelCase& each, const VerifyOptions& options = {}, EmulatedOptions device = {}) {
  EmulatedDevice emulated(device);
  auto verification =
      verify_kernel(emulated, *each.graph, each.program, each.kernel, compile(each.kernel, each.architecture), options);
  if (!verification) {
    ADD_FAILURE() << to_string(verification.error().kind) << ": " << verification.error().message << "\n"
                  << each.kernel.source;
    return {};
  }
  return *verification;
}

/// The kernel with one piece of its source replaced; the piece must be there.
inline KernelCase mutated(KernelCase each, const std::string& from, const std::string& to) {
  const std::size_t at = each.kernel.source.find(from);
  if (at == std::string::npos) {
    ADD_FAILURE() << "no '" << from << "' in\n" << each.kernel.source;
  } else {
    each.kernel.source.replace(at, from.size(), to);
  }
  return each;
}

}  // namespace stitch::profiler::test
