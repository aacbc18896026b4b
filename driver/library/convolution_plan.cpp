#include "driver/library/convolution_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace stitch::driver {
namespace {

namespace dnn = cuda::dnn;

Outcome refused_pack(std::string why) { return {dnn::Status::bad_param, std::move(why)}; }

}  // namespace

std::vector<ConvolutionPlan> suggestions_for(const std::shared_ptr<const ConvolutionGraph>& graph,
                                             dnn::HeuristicMode mode) {
  using dnn::NumericalNote;
  const ConvolutionGraph& of = *graph;
  std::vector<ConvolutionPlan> all;
  const auto suggest = [&](std::vector<NumericalNote> notes, std::int64_t workspace, bool tf32 = false) {
    all.push_back({graph, {std::move(notes), workspace, tf32}});
  };
  if (mode == dnn::HeuristicMode::fallback) {
    if (of.behind.empty()) suggest({}, 0);
    return all;
  }
  const bool has_bias = std::ranges::any_of(
      of.behind, [](const PointwiseOperation& each) { return each.b && each.b->extents != each.y.extents; });
  const bool anywhere = of.behind.empty() || (has_bias && of.convolution.kind == ConvolutionOperation::Kind::forward);
  const bool singles = of.multiplies_f32(), halves = of.convolution.compute == dnn::DataType::f32 && !singles;
  if (singles) suggest({NumericalNote::tensor_core, NumericalNote::down_convert_inputs}, 4096, true);
  if (!anywhere && !halves) return all;
  suggest({}, std::int64_t{1} << 30);
  if (of.convolution.kind == ConvolutionOperation::Kind::backward_filter) return all;
  suggest({NumericalNote::nondeterministic}, 8192);
  suggest(halves ? std::vector{NumericalNote::tensor_core} : std::vector<NumericalNote>(), 4096);
  return all;
}

Outcome launchable(const ConvolutionPlan& plan, const VariantPack& pack, LibraryWork& work) {
  const std::vector<ConvolutionTensor> tensors = plan.graph->in_memory();
  for (const ConvolutionTensor& tensor : tensors) {
    const auto found = pack.addresses.find(tensor.id);
    if (found == pack.addresses.end() || found->second == 0)
      return refused_pack(fmt::format("tensor {} has no address", tensor.id));
    if (found->second % tensor.alignment != 0)
      return {dnn::Status::bad_param_misaligned_pointer,
              fmt::format("tensor {} at {:#x}, where {} bytes of alignment were promised", tensor.id, found->second,
                          tensor.alignment)};
  }
  const std::int64_t workspace = plan.engine.workspace_bytes;
  if (workspace > 0 && (pack.workspace == 0 || pack.workspace % 16 != 0))
    return refused_pack("a plan that takes a workspace, and none, or one that is not aligned by 16 bytes");
  struct Range {
    CUdeviceptr from = 0;
    std::int64_t bytes = 0;
    [[nodiscard]] bool meets(const Range& other) const {
      return from < other.from + other.bytes && other.from < from + bytes;
    }
  };
  const auto range_of = [&](const ConvolutionTensor& tensor) {
    return Range{pack.addresses.at(tensor.id), tensor.span_bytes()};
  };
  const Range result = range_of(tensors.back()), scratch = {pack.workspace, workspace};
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (t + 1 < tensors.size() && range_of(tensors[t]).meets(result))
      return refused_pack("the result lies where an operand does");
    if (workspace > 0 && range_of(tensors[t]).meets(scratch))
      return refused_pack("the workspace lies where a tensor does");
  }
  work = work_of(*plan.graph, pack.addresses, plan.engine.tf32);
  if (workspace > 0) {
    work.accesses.push_back({pack.workspace, static_cast<std::size_t>(workspace), 0, 1, true});
    work.run = [run = std::move(work.run)](std::span<std::vector<std::byte>> memory) {
      run(memory.first(memory.size() - 1));
    };
  }
  return {};
}

}  // namespace stitch::driver
