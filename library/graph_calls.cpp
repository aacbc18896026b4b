#include "library/graph_calls.h"

#include <algorithm>

namespace stitch::library {
namespace {

/// Loads a library when it is first needed; where there is none, that is found out once.
template <class Library, class Open>
Status load_once(std::unique_ptr<Library>& library, std::optional<Error>& why_none, const Open& open) {
  if (library) return {};
  if (why_none) return *why_none;
  auto opened = open();
  if (!opened) return why_none.emplace(opened.error());
  library = *std::move(opened);
  return {};
}

}  // namespace

Result<int> GraphCalls::prepare(const graph::Graph& call) {
  const auto made = [&]() -> Result<Computed> {
    const auto matmul = graph::describe_matmul(call);
    if (matmul) return prepare_matmul(*matmul);
    if (matmul.error().kind != ErrorKind::unsupported) return matmul.error();
    const bool convolves =
        std::ranges::any_of(call.nodes(), [](const graph::Node& node) { return node.op == graph::Op::convolution; });
    if (!convolves) return matmul.error();
    STITCH_ASSIGN(const graph::StridedConvolution convolution, graph::describe_convolution(call));
    return prepare_convolution(convolution);
  }();
  if (!made) return made.error();
  computed_.push_back(*made);
  return static_cast<int>(computed_.size()) - 1;
}

Result<GraphCalls::Computed> GraphCalls::prepare_matmul(const graph::StridedMatmul& matmul) {
  STITCH_TRY(load_once(matmuls_, no_matmuls_, [&] { return MatmulLibrary::open(libraries_.cublas_lt); }));
  STITCH_ASSIGN(const int number, matmuls_->prepare(matmul));
  return Computed{Computed::By::matmuls, number};
}

Result<GraphCalls::Computed> GraphCalls::prepare_convolution(const graph::StridedConvolution& convolution) {
  STITCH_TRY(
      load_once(convolutions_, no_convolutions_, [&] { return ConvolutionLibrary::open(driver_, libraries_.cudnn); }));
  STITCH_ASSIGN(const int number, convolutions_->prepare(convolution));
  return Computed{Computed::By::convolutions, number};
}

std::int64_t GraphCalls::launches(int call) const {
  const Computed& computed = computed_[call];
  return computed.by == Computed::By::matmuls ? matmuls_->calls(computed.number)
                                              : convolutions_->calls(computed.number);
}

int GraphCalls::copies(int call) const {
  const Computed& computed = computed_[call];
  return computed.by == Computed::By::matmuls ? 0 : convolutions_->copies(computed.number);
}

std::string GraphCalls::name_of(int call) const {
  return computed_[call].by == Computed::By::matmuls ? matmuls_->name() : convolutions_->name();
}

std::string GraphCalls::name() const {
  if (!matmuls_ && !convolutions_) return "no library calls";
  if (!matmuls_) return convolutions_->name();
  return convolutions_ ? matmuls_->name() + ", " + convolutions_->name() : matmuls_->name();
}

std::int64_t GraphCalls::workspace_bytes() const {
  return std::max(matmuls_ ? matmuls_->workspace_bytes() : 0, convolutions_ ? convolutions_->workspace_bytes() : 0);
}

Status GraphCalls::make_memory() {
  if (convolutions_) STITCH_TRY(convolutions_->make_constants());
  if (workspace_bytes() <= workspace_.bytes()) return {};
  if (const Status made = workspace_.make(workspace_bytes()); !made)
    return made.error().within(fmt::format("a workspace of {} bytes", workspace_bytes()));
  return {};
}

Status GraphCalls::launch(int call, const std::vector<std::uint64_t>& parameters, std::uint64_t result,
                          CUstream stream) {
  const Computed& computed = computed_[call];
  if (computed.by == Computed::By::matmuls)
    return matmuls_->launch(computed.number, parameters, result, workspace_.address(), stream);
  return convolutions_->launch(computed.number, parameters, result, workspace_.address(), stream);
}

}  // namespace stitch::library
