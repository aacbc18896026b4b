#include "library/convolution_library.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "library/call_memory.h"
#include "library/device_events.h"

namespace stitch::library {
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

constexpr int convolution_result = -1, of_zeros = -2;  ///< tensors' parameters; the latter is memory of the library's

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

/// Of those that are timed: what comes later in a library's list is rarely faster.
constexpr std::size_t most_timed_plans = 8;

/// Bytes of the memory behind each tensor's parameter.
std::map<int, std::int64_t> bytes_of_parameters(const StridedConvolution& how) {
  std::map<int, std::int64_t> bytes;
  const auto add = [&](const StridedConvolution::Tensor& tensor) {
    std::int64_t last = tensor.offset;
    for (std::size_t d = 0; d < tensor.extents.size(); ++d) last += (tensor.extents[d] - 1) * tensor.strides[d];
    std::int64_t& most = bytes[tensor.parameter];
    most = std::max(most, (last + 1) * byte_size(tensor.dtype));
  };
  for (const StridedConvolution::Tensor* tensor : {&how.input, &how.filter, &how.output}) add(*tensor);
  for (const auto* tensor : {&how.addend, &how.bias}) {
    if (*tensor) add(**tensor);
  }
  return bytes;
}

/// By the device's events: once for nothing, then the mean of a few, on a stream of its own.
Result<double> time_by_events(const cuda::DriverApi& driver, const std::function<Status(CUstream)>& run) {
  constexpr int runs = 3;
  DeviceEvents events(driver);
  STITCH_TRY(events.make(2));
  DeviceStream stream(driver);
  STITCH_TRY(stream.make());
  STITCH_TRY(run(stream.get()));
  STITCH_TRY(events.record(0, stream.get()));
  for (int i = 0; i < runs; ++i) STITCH_TRY(run(stream.get()));
  STITCH_TRY(events.record(1, stream.get()));
  STITCH_TRY(stream.wait());
  STITCH_ASSIGN(const double us, events.after(0));
  return us / runs;
}

}  // namespace

ConvolutionLibrary::ConvolutionLibrary(std::shared_ptr<const cuda::DriverApi> driver,
                                       std::shared_ptr<const dnn::Api> api)
    : driver_(std::move(driver)), api_(std::move(api)), zeros_(*driver_) {
  if (driver_->emulated) return;
  timer_ = [this](const std::function<Status(CUstream)>& run) { return time_by_events(*driver_, run); };
}

ConvolutionLibrary::~ConvolutionLibrary() {
  convolutions_.clear();
  if (handle_ != nullptr) api_->destroy(handle_);
}

Result<std::unique_ptr<ConvolutionLibrary>> ConvolutionLibrary::open(std::shared_ptr<const cuda::DriverApi> driver,
                                                                     const std::vector<std::string>& libraries) {
  STITCH_ASSIGN(auto api, dnn::Api::load(libraries));
  std::unique_ptr<ConvolutionLibrary> opened(new ConvolutionLibrary(std::move(driver), std::move(api)));
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
    if (!ready) return ready.error();
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
  if (zero_bytes_ <= zeros_.bytes()) return {};
  STITCH_TRY(zeros_.make(zero_bytes_));
  const std::vector<std::byte> zeros(zero_bytes_);
  const cuda::DriverApi& driver = *driver_;
  return driver.check(driver.copy_to_device(zeros_.address(), zeros.data(), zeros.size()), "cuMemcpyHtoD");
}

Status ConvolutionLibrary::choose_plan(Convolution& made, const Descriptor& graph,
                                       const StridedConvolution& how) const {
  const std::size_t wanted = timer_ ? most_timed_plans : 1;
  std::vector<Plan> plans;
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
    for (std::int64_t i = 0; i < std::min(found, most) && plans.size() < wanted; ++i) {
      STITCH_ASSIGN(std::optional<Plan> plan, plan_of(configurations[i], how, why));
      if (plan) plans.push_back(*std::move(plan));
    }
  }
  if (plans.empty())
    return make_error(ErrorKind::unsupported, "cuDNN has no plan for it{}{}", why.empty() ? "" : ": ", why);
  Plan& taken = plans[fastest(plans, made.tensors, how)];
  made.plan = std::move(taken.plan);
  made.workspace_bytes = taken.workspace_bytes;
  return {};
}

Result<std::optional<ConvolutionLibrary::Plan>> ConvolutionLibrary::plan_of(const Descriptor& configuration,
                                                                            const StridedConvolution& how,
                                                                            std::string& why) const {
  STITCH_ASSIGN(Descriptor engine, Descriptor::make(*api_, DescriptorType::engine));
  dnn::DescriptorPointer pointer = engine.pointer();
  STITCH_TRY(configuration.get(Attribute::configuration_engine, AttributeType::descriptor, 1, &pointer));
  std::array<dnn::NumericalNote, 16> notes{};
  STITCH_ASSIGN(const std::int64_t count, engine.get(Attribute::engine_numerical_notes, AttributeType::numerical_note,
                                                     std::ssize(notes), notes.data()));
  for (std::int64_t n = 0; n < std::min<std::int64_t>(count, std::ssize(notes)); ++n) {
    if (const std::string forbidden = forbidden_by(how, notes[n]); !forbidden.empty()) {
      why = "what it has " + forbidden;
      return std::optional<Plan>();
    }
  }
  STITCH_ASSIGN(Descriptor plan, Descriptor::make(*api_, DescriptorType::execution_plan));
  STITCH_TRY(plan.set(Attribute::plan_handle, handle_));
  STITCH_TRY(plan.set(Attribute::plan_configuration, configuration));
  if (const Status done = plan.finalize(); !done) {  // what heuristics suggest need not be there for this device
    why = done.error().message;
    return std::optional<Plan>();
  }
  std::int64_t bytes = 0;
  STITCH_TRY(plan.get(Attribute::plan_workspace_size, AttributeType::int64, 1, &bytes));
  if (bytes > most_library_workspace_bytes) {
    why = fmt::format("what it has wants a workspace of {} bytes", bytes);
    return std::optional<Plan>();
  }
  return std::optional<Plan>(Plan{std::move(plan), bytes});
}

std::size_t ConvolutionLibrary::fastest(const std::vector<Plan>& plans,
                                        const std::vector<ConvolutionOperations::Tensor>& tensors,
                                        const StridedConvolution& how) const {
  if (!timer_ || plans.size() < 2) return 0;
  // Memory for each parameter and the result, and for the greediest plan: whatever is in it, a plan takes as long.
  std::map<int, DeviceMemory> memory;
  for (const auto& [parameter, bytes] : bytes_of_parameters(how)) {
    if (!memory.try_emplace(parameter, *driver_).first->second.make(bytes)) return 0;
  }
  DeviceMemory workspace(*driver_);
  const std::int64_t most = std::ranges::max_element(plans, {}, &Plan::workspace_bytes)->workspace_bytes;
  if (most > 0 && !workspace.make(most)) return 0;
  std::vector<std::uint64_t> addresses;
  for (const ConvolutionOperations::Tensor& tensor : tensors) {
    const auto found = memory.find(tensor.parameter);
    if (found == memory.end()) return 0;
    addresses.push_back(found->second.address() + tensor.offset);
  }
  addresses.push_back(workspace.address());
  const auto pack = make_pack(tensors, addresses);
  if (!pack) return 0;
  std::size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t p = 0; p < plans.size(); ++p) {
    const auto us = timer_([&](CUstream stream) -> Status {
      STITCH_TRY(api_->check(api_->set_stream(handle_, stream), "cudnnSetStream"));
      return api_->check(api_->execute(handle_, plans[p].plan.pointer(), pack->pointer()), "cudnnBackendExecute");
    });
    if (!us || *us >= least) continue;  // one that does not run is none
    least = *us;
    best = p;
  }
  return best;
}

Result<Descriptor> ConvolutionLibrary::make_pack(const std::vector<ConvolutionOperations::Tensor>& tensors,
                                                 std::vector<std::uint64_t> addresses) const {
  std::vector<std::int64_t> ids;
  for (const ConvolutionOperations::Tensor& tensor : tensors) ids.push_back(tensor.id);
  STITCH_ASSIGN(Descriptor pack, Descriptor::make(*api_, DescriptorType::variant_pack));
  STITCH_TRY(pack.set(Attribute::pack_unique_ids, ids));
  STITCH_TRY(pack.set(Attribute::pack_pointers, AttributeType::pointer, std::ssize(ids), addresses.data()));
  STITCH_TRY(pack.set(Attribute::pack_workspace, AttributeType::pointer, 1, &addresses.back()));
  STITCH_TRY(pack.finalize());
  return pack;
}

Status ConvolutionLibrary::launch(int convolution, const std::vector<std::uint64_t>& parameters, std::uint64_t result,
                                  std::uint64_t workspace, CUstream stream) {
  Convolution& made = convolutions_[convolution];
  if (!made.plan) return {};
  std::vector<std::uint64_t> addresses;
  std::uint64_t to = result;
  for (const ConvolutionOperations::Tensor& tensor : made.tensors) {
    const std::uint64_t base = tensor.parameter >= 0          ? parameters[tensor.parameter]
                               : tensor.parameter == of_zeros ? zeros_.address()
                                                              : result;
    addresses.push_back(base + tensor.offset);
    if (tensor.parameter == convolution_result) to = addresses.back();
  }
  if (const auto& copied = made.copied) {
    const cuda::DriverApi& driver = *driver_;
    const std::int64_t bytes = graph::element_count(copied->extents) * byte_size(copied->dtype);
    const std::uint64_t from = parameters[copied->parameter] + copied->offset_bytes();
    STITCH_TRY(driver.check(driver.copy_on_device(to, from, bytes, stream), "cuMemcpyDtoDAsync"));
  }
  addresses.push_back(made.workspace_bytes > 0 ? workspace : 0);
  if (!made.pack || addresses != made.addresses) {
    made.pack.reset();
    STITCH_ASSIGN(made.pack, make_pack(made.tensors, addresses));
    made.addresses = std::move(addresses);
  }
  STITCH_TRY(api_->check(api_->set_stream(handle_, stream), "cudnnSetStream"));
  return api_->check(api_->execute(handle_, made.plan->pointer(), made.pack->pointer()), "cudnnBackendExecute");
}

}  // namespace stitch::library
