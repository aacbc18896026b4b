#include "client/library_calls.h"

#include <algorithm>

namespace stitch::client {
namespace {

/// Loads a library when it is first needed; where there is none, that is found out once.
template <class Library>
Status load_once(std::unique_ptr<Library>& library, std::optional<Error>& why_none,
                 const std::shared_ptr<const CudaContext>& context, const std::vector<std::string>& files) {
  if (library) return {};
  if (why_none) return *why_none;
  auto opened = Library::open(context, files);
  if (!opened) return why_none.emplace(opened.error());
  library = *std::move(opened);
  return {};
}

}  // namespace

Status LibraryCalls::prepare(const std::vector<api::ProgramCall>& calls) {
  for (const api::ProgramCall& call : calls) {
    DeviceCall& made = calls_.emplace_back();
    computed_.emplace_back();
    const auto computed = prepare(call.graph);
    if (computed) {
      computed_.back() = *computed;
      made.launches = computed->by == Computed::By::matmuls ? matmuls_->calls(computed->number)
                                                            : convolutions_->calls(computed->number);
      continue;
    }
    const Error& why = computed.error();
    if (why.kind != ErrorKind::unsupported && why.kind != ErrorKind::unavailable) return why.within(call.description);
    // Programs for streams leave products of matrices to cuBLASLt, and nothing else to any library.
    const char* products = graph::describe_matmul(call.graph).ok() ? "ours" : "stream";
    made.covered =
        make_error(ErrorKind::unsupported, "{}; programs made with --products {} do without", why.message, products);
  }
  return {};
}

Result<LibraryCalls::Computed> LibraryCalls::prepare(const graph::Graph& call) {
  const auto matmul = graph::describe_matmul(call);
  if (matmul) return prepare_matmul(*matmul);
  if (matmul.error().kind != ErrorKind::unsupported) return matmul.error();
  const bool convolves =
      std::ranges::any_of(call.nodes(), [](const graph::Node& node) { return node.op == graph::Op::convolution; });
  if (!convolves) return matmul.error();
  STITCH_ASSIGN(const graph::StridedConvolution convolution, graph::describe_convolution(call));
  return prepare_convolution(convolution);
}

Result<LibraryCalls::Computed> LibraryCalls::prepare_matmul(const graph::StridedMatmul& matmul) {
  STITCH_TRY(load_once(matmuls_, no_matmuls_, context_, libraries_.cublas_lt));
  STITCH_ASSIGN(const int number, matmuls_->prepare(matmul));
  return Computed{Computed::By::matmuls, number};
}

Result<LibraryCalls::Computed> LibraryCalls::prepare_convolution(const graph::StridedConvolution& convolution) {
  STITCH_TRY(load_once(convolutions_, no_convolutions_, context_, libraries_.cudnn));
  STITCH_ASSIGN(const int number, convolutions_->prepare(convolution));
  return Computed{Computed::By::convolutions, number};
}

std::string LibraryCalls::name() const {
  if (!matmuls_ && !convolutions_) return "no library calls";
  if (!matmuls_) return convolutions_->name();
  return convolutions_ ? matmuls_->name() + ", " + convolutions_->name() : matmuls_->name();
}

std::int64_t LibraryCalls::workspace_bytes() const {
  return std::max(matmuls_ ? matmuls_->workspace_bytes() : 0, convolutions_ ? convolutions_->workspace_bytes() : 0);
}

Status LibraryCalls::make_memory() {
  if (convolutions_) STITCH_TRY(convolutions_->make_constants());
  if (workspace_bytes() == 0 || workspace_.address() != 0) return {};
  if (const Status made = workspace_.make(workspace_bytes()); !made)
    return made.error().within(fmt::format("a workspace of {} bytes", workspace_bytes()));
  return {};
}

Status LibraryCalls::launch(int call, const std::vector<std::uint64_t>& parameters, std::uint64_t result,
                            CUstream stream) {
  const Computed& computed = computed_[call];
  if (computed.by == Computed::By::matmuls)
    return matmuls_->launch(computed.number, parameters, result, workspace_.address(), stream);
  return convolutions_->launch(computed.number, parameters, result, workspace_.address(), stream);
}

}  // namespace stitch::client
