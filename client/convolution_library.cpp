#include "client/convolution_library.h"

#include <algorithm>
#include <array>

#include "client/library_workspace.h"

namespace stitch::client {
namespace {

namespace dnn = cuda::dnn;
using dnn::Attribute;
using dnn::AttributeType;
using dnn::Descriptor;
using dnn::DescriptorType;
using graph::StridedConvolution;

/// What a call does not allow in how it is computed; empty: it allows all of it. Winograd and Fourier transforms, which
/// sum in the same type but in another way, are what frameworks allow, too.
const char* forbidden_by(const StridedConvolution& how, dnn::NumericalNote note) {
  switch (note) {
    case dnn::NumericalNote::tensor_core:
    case dnn::NumericalNote::down_convert_inputs: {
      const bool singles = how.input.dtype == graph::DType::f32 && how.accumulation == graph::DType::f32;
      return singles && !how.tf32 ? "rounds f32 to TF32" : "";
    }
    case dnn::NumericalNote::reduced_precision_reduction: return "sums in fewer bits than f32";
    case dnn::NumericalNote::nondeterministic: return how.deterministic ? "sums in no order" : "";
  }
  return "";
}

constexpr int the_result = -1, of_zeros = -2;  ///< tensors' parameters; the latter is memory of the library's

StridedConvolution::Tensor bias_of_zeros(const StridedConvolution& how) {
  const graph::Dims& made = how.result().extents;
  StridedConvolution::Tensor bias{of_zeros, how.result().dtype, 0, graph::Dims(made.size(), 1), {}};
  bias.extents[1] = made[1];
  bias.strides.assign(made.size(), made[1]);
  bias.strides[1] = 1;
  return bias;
}

/// Whether a copy of all bytes makes one the other: elements in the same places, and nothing between them.
bool lies_alike(const StridedConvolution::Tensor& one, const StridedConvolution::Tensor& other) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < one.extents.size(); ++d) last += (one.extents[d] - 1) * one.strides[d];
  return one.dtype == other.dtype && one.extents == other.extents && one.strides == other.strides &&
         last + 1 == graph::element_count(one.extents);
}

}  // namespace

ConvolutionLibrary::ConvolutionLibrary(std::shared_ptr<const CudaContext> context, std::shared_ptr<const dnn::Api> api)
    : context_(std::move(context)), api_(std::move(api)), zeros_(*context_->driver) {}

ConvolutionLibrary::~ConvolutionLibrary() {
  convolutions_.clear();
  if (handle_ != nullptr) api_->destroy(handle_);
}

Result<std::unique_ptr<ConvolutionLibrary>> ConvolutionLibrary::open(std::shared_ptr<const CudaContext> context,
                                                                     const std::vector<std::string>& libraries) {
  STITCH_ASSIGN(auto api, dnn::Api::load(libraries));
  std::unique_ptr<ConvolutionLibrary> opened(new ConvolutionLibrary(std::move(context), std::move(api)));
  STITCH_TRY(opened->api_->check(opened->api_->create(&opened->handle_), "cudnnCreate"));
  return opened;
}

std::string ConvolutionLibrary::name() const {
  const std::size_t version = api_->version();  // 90800 of 9.8.0 (cudnn_version.h)
  return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Result<int> ConvolutionLibrary::prepare(const StridedConvolution& convolution) {
  Convolution made;
  if (!convolution.is_empty()) {
    Status ready = make_ready(made, convolution);
    // If no other words help, what was wrong with those of the call is the reason.
    if (!ready && ready.error().kind == ErrorKind::unsupported && make_ready_otherwise(made, convolution)) ready = {};
    STITCH_TRY(ready);
  }
  workspace_bytes_ = std::max(workspace_bytes_, made.workspace_bytes);
  convolutions_.push_back(std::move(made));
  return static_cast<int>(convolutions_.size()) - 1;
}

Status ConvolutionLibrary::make_ready(Convolution& made, const StridedConvolution& how, bool onto_result) const {
  STITCH_ASSIGN(ConvolutionOperations operations, describe_operations(*api_, handle_, how, onto_result));
  made.tensors = std::move(operations.tensors);
  return choose_plan(made, operations.graph, how);
}

bool ConvolutionLibrary::make_ready_otherwise(Convolution& made, const StridedConvolution& how) {
  if (how.bias || (!how.addend && !how.relu)) return false;
  if (how.kind == StridedConvolution::Kind::forward) {
    StridedConvolution biased = how;
    biased.bias = bias_of_zeros(how);
    if (!make_ready(made, biased)) return false;
    zero_bytes_ = std::max(zero_bytes_, biased.bias->extents[1] * byte_size(biased.bias->dtype));
    return true;
  }
  if (how.relu || !lies_alike(*how.addend, how.result()) || !make_ready(made, how, true)) return false;
  made.copied = how.addend;
  return true;
}

std::int64_t ConvolutionLibrary::calls(int convolution) const {
  const Convolution& made = convolutions_[convolution];
  return (made.plan ? 1 : 0) + (made.copied ? 1 : 0);
}

Status ConvolutionLibrary::make_constants() {
  if (zero_bytes_ == 0 || zeros_.address() != 0) return {};
  STITCH_TRY(zeros_.make(zero_bytes_));
  const std::vector<std::byte> zeros(zero_bytes_);
  const cuda::DriverApi& driver = *context_->driver;
  return driver.check(driver.copy_to_device(zeros_.address(), zeros.data(), zeros.size()), "cuMemcpyHtoD");
}

Status ConvolutionLibrary::choose_plan(Convolution& made, const Descriptor& graph,
                                       const StridedConvolution& how) const {
  std::string why;
  for (const dnn::HeuristicMode mode : {dnn::HeuristicMode::a, dnn::HeuristicMode::fallback}) {
    STITCH_ASSIGN(Descriptor heuristics, Descriptor::make(*api_, DescriptorType::engine_heuristics));
    STITCH_TRY(heuristics.set(Attribute::heuristics_graph, graph));
    STITCH_TRY(heuristics.set(Attribute::heuristics_mode, AttributeType::heuristic_mode, 1, &mode));
    if (const Status done = heuristics.finalize(); !done) {
      if (done.error().kind != ErrorKind::unsupported) return done.error();
      why = done.error().message;
      continue;
    }
    STITCH_ASSIGN(const std::int64_t most,
                  heuristics.get(Attribute::heuristics_results, AttributeType::descriptor, 0, nullptr));
    std::vector<Descriptor> configurations;
    std::vector<dnn::DescriptorPointer> pointers;
    for (std::int64_t i = 0; i < most; ++i) {
      STITCH_ASSIGN(Descriptor each, Descriptor::make(*api_, DescriptorType::engine_configuration));
      pointers.push_back(each.pointer());
      configurations.push_back(std::move(each));
    }
    if (most == 0) continue;
    STITCH_ASSIGN(const std::int64_t found,
                  heuristics.get(Attribute::heuristics_results, AttributeType::descriptor, most, pointers.data()));
    for (std::int64_t i = 0; i < std::min(found, most); ++i) {
      STITCH_ASSIGN(const bool taken, take_plan(made, configurations[i], how, why));
      if (taken) return {};
    }
  }
  return make_error(ErrorKind::unsupported, "cuDNN has no plan for it{}{}", why.empty() ? "" : ": ", why);
}

Result<bool> ConvolutionLibrary::take_plan(Convolution& made, const Descriptor& configuration,
                                           const StridedConvolution& how, std::string& why) const {
  STITCH_ASSIGN(Descriptor engine, Descriptor::make(*api_, DescriptorType::engine));
  dnn::DescriptorPointer pointer = engine.pointer();
  STITCH_TRY(configuration.get(Attribute::configuration_engine, AttributeType::descriptor, 1, &pointer));
  std::array<dnn::NumericalNote, 16> notes{};
  STITCH_ASSIGN(const std::int64_t count, engine.get(Attribute::engine_numerical_notes, AttributeType::numerical_note,
                                                     std::ssize(notes), notes.data()));
  for (std::int64_t n = 0; n < std::min<std::int64_t>(count, std::ssize(notes)); ++n) {
    if (const std::string forbidden = forbidden_by(how, notes[n]); !forbidden.empty()) {
      why = "what it has " + forbidden;
      return false;
    }
  }
  STITCH_ASSIGN(Descriptor plan, Descriptor::make(*api_, DescriptorType::execution_plan));
  STITCH_TRY(plan.set(Attribute::plan_handle, handle_));
  STITCH_TRY(plan.set(Attribute::plan_configuration, configuration));
  if (const Status done = plan.finalize(); !done) {  // what heuristics suggest need not be there for this device
    why = done.error().message;
    return false;
  }
  std::int64_t bytes = 0;
  STITCH_TRY(plan.get(Attribute::plan_workspace_size, AttributeType::int64, 1, &bytes));
  if (bytes > most_library_workspace_bytes) {
    why = fmt::format("what it has wants a workspace of {} bytes", bytes);
    return false;
  }
  made.plan = std::move(plan);
  made.workspace_bytes = bytes;
  return true;
}

Status ConvolutionLibrary::make_pack(Convolution& convolution, std::vector<std::uint64_t> addresses) const {
  convolution.pack.reset();
  std::vector<std::int64_t> ids;
  for (const ConvolutionOperations::Tensor& tensor : convolution.tensors) ids.push_back(tensor.id);
  STITCH_ASSIGN(Descriptor pack, Descriptor::make(*api_, DescriptorType::variant_pack));
  STITCH_TRY(pack.set(Attribute::pack_unique_ids, ids));
  STITCH_TRY(pack.set(Attribute::pack_pointers, AttributeType::pointer, std::ssize(ids), addresses.data()));
  STITCH_TRY(pack.set(Attribute::pack_workspace, AttributeType::pointer, 1, &addresses.back()));
  STITCH_TRY(pack.finalize());
  convolution.pack = std::move(pack);
  convolution.addresses = std::move(addresses);
  return {};
}

Status ConvolutionLibrary::launch(int number, const std::vector<std::uint64_t>& parameters, std::uint64_t result,
                                  std::uint64_t workspace, CUstream stream) {
  Convolution& convolution = convolutions_[number];
  if (!convolution.plan) return {};
  std::vector<std::uint64_t> addresses;
  std::uint64_t to = result;
  for (const ConvolutionOperations::Tensor& tensor : convolution.tensors) {
    const std::uint64_t base = tensor.parameter >= 0          ? parameters[tensor.parameter]
                               : tensor.parameter == of_zeros ? zeros_.address()
                                                              : result;
    addresses.push_back(base + tensor.offset);
    if (tensor.parameter == the_result) to = addresses.back();
  }
  if (const auto& copied = convolution.copied) {
    const cuda::DriverApi& driver = *context_->driver;
    const std::int64_t bytes = graph::element_count(copied->extents) * byte_size(copied->dtype);
    const std::uint64_t from = parameters[copied->parameter] + copied->offset_bytes();
    STITCH_TRY(driver.check(driver.copy_on_device(to, from, bytes, stream), "cuMemcpyDtoDAsync"));
  }
  addresses.push_back(convolution.workspace_bytes > 0 ? workspace : 0);
  if (!convolution.pack || addresses != convolution.addresses) STITCH_TRY(make_pack(convolution, std::move(addresses)));
  STITCH_TRY(api_->check(api_->set_stream(handle_, stream), "cudnnSetStream"));
  return api_->check(api_->execute(handle_, convolution.plan->pointer(), convolution.pack->pointer()),
                     "cudnnBackendExecute");
}

}  // namespace stitch::client
