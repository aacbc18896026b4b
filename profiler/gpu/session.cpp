#include "profiler/gpu/session.h"

#include <array>

#include "profiler/gpu/measure.h"

namespace stitch::profiler {
namespace {

/// Errors of a launch itself that say something of its shape; the context survives them.
ErrorKind launch_error_kind(CUresult result) {
  switch (result) {
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
    case CUDA_ERROR_INVALID_CLUSTER_SIZE: return ErrorKind::constraint;
    default: return ErrorKind::runtime;
  }
}

/// The compiler's words without the zeros that fill its buffer.
std::string first_lines(const std::array<char, 4096>& log) { return log.data(); }

}  // namespace

GpuSession::~GpuSession() {
  if (gpu_->lost()) {
    (void)calls_.release();  // libraries have been seen to wait for a lost device, and the process ends
    return;
  }
  for (const auto& [id, kernel] : kernels_) gpu_->driver->unload_module(kernel.module);
}

Result<CUmodule> GpuSession::load_ptx(const KernelImage& image) {
  std::array<char, 4096> log{};
  std::array<CUjit_option, 2> options = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
  CUmodule module = nullptr;
  const CUresult result =
      gpu_->driver->load_module_with(&module, image.ptx.c_str(), options.size(), options.data(), values.data());
  const ErrorKind kind = result == CUDA_ERROR_INVALID_PTX ? ErrorKind::parse : ErrorKind::unsupported;
  if (Status loaded = gpu_->check(result, "cuModuleLoadDataEx", kind); !loaded) {
    return make_error(loaded.error().kind, "{}\n{}", loaded.error().message, first_lines(log));
  }
  return module;
}

Result<CUmodule> GpuSession::load_module(const KernelImage& image) {
  if (image.cubin.empty()) return load_ptx(image);
  CUmodule module = nullptr;
  const CUresult result = gpu_->driver->load_module_with(&module, image.cubin.data(), 0, nullptr, nullptr);
  if (result == CUDA_ERROR_NO_BINARY_FOR_GPU && !image.ptx.empty()) return load_ptx(image);
  if (result == CUDA_ERROR_NO_BINARY_FOR_GPU) {
    return make_error(ErrorKind::unsupported, "compiled for {}, this GPU is {}", image.architecture,
                      gpu_->identity.architecture);
  }
  STITCH_TRY(gpu_->check(result, "cuModuleLoadDataEx"));
  return module;
}

Result<KernelHandle> GpuSession::load(const KernelImage& image) {
  auto module = load_module(image);
  if (!module) return module.error().within(fmt::format("kernel {}", image.name));
  // Kept from here on, so that an error unloads it with the session.
  const int id = next_++;
  Kernel& kernel = kernels_[id] = {image.name, *module, nullptr};
  STITCH_TRY(gpu_->check(gpu_->driver->get_function(&kernel.function, kernel.module, image.name.c_str()),
                         "cuModuleGetFunction"));
  return KernelHandle{id};
}

Result<BufferHandle> GpuSession::allocate(std::string name, std::int64_t bytes, Fill fill, Access access) {
  return memory_.allocate(std::move(name), bytes, fill, access);
}

Result<const GpuSession::Kernel*> GpuSession::find(KernelHandle kernel) const {
  const auto found = kernels_.find(kernel.id);
  if (found == kernels_.end()) {
    return make_error(ErrorKind::invalid_argument, "kernel handle {} is not loaded", kernel.id);
  }
  return &found->second;
}

Status GpuSession::enqueue(const PlannedLaunch& launch) {
  STITCH_TRY(check_shape(launch.shape));
  STITCH_ASSIGN(const Kernel* kernel, find(launch.kernel));
  std::vector<std::uint64_t> values;
  for (const LaunchValue& value : launch.arguments) {
    if (const auto* buffer = std::get_if<BufferHandle>(&value)) {
      STITCH_ASSIGN(const CUdeviceptr address, memory_.address(*buffer));
      values.push_back(address);
    } else {
      values.push_back(std::get<std::int64_t>(value));
    }
  }
  std::vector<void*> pointers;
  for (std::uint64_t& value : values) pointers.push_back(&value);
  const LaunchShape& shape = launch.shape;
  const auto set = [&](CUfunction_attribute attribute, int value) {
    return gpu_->check(gpu_->driver->set_attribute(kernel->function, attribute, value), "cuFuncSetAttribute",
                       ErrorKind::constraint);
  };
  if (shape.shared_bytes > 0) {
    STITCH_TRY(set(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shape.shared_bytes));
  }
  constexpr int portable_cluster = 8;
  if (shape.cluster > portable_cluster) STITCH_TRY(set(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
  std::array<CUlaunchAttribute, 3> attributes{};
  CUlaunchConfig config{};
  config.gridDimX = shape.blocks;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = shape.threads;
  config.sharedMemBytes = shape.shared_bytes;
  config.hStream = gpu_->stream;
  config.attrs = attributes.data();
  if (shape.cluster > 1) {
    CUlaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim.x = shape.cluster;
    cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
  }
  if (shape.cooperative) {
    CUlaunchAttribute& cooperative = attributes[config.numAttrs++];
    cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    cooperative.value.cooperative = 1;
  }
  if (launch.dependent) {
    CUlaunchAttribute& dependent = attributes[config.numAttrs++];
    dependent.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    dependent.value.programmaticStreamSerializationAllowed = 1;
  }
  const CUresult result = gpu_->driver->launch(&config, kernel->function, pointers.data(), nullptr);
  return gpu_->check(result, "cuLaunchKernelEx", launch_error_kind(result));
}

Status GpuSession::enqueue(const PlanStep& step) {
  return std::visit([this](const auto& each) { return enqueue(each); }, step);
}

Status GpuSession::enqueue(const PlannedCall& call) {
  const auto found = prepared_.find(call.call.id);
  if (found == prepared_.end()) {
    return make_error(ErrorKind::invalid_argument, "call handle {} was not made ready", call.call.id);
  }
  const Call& wanted = found->second;
  if (call.parameters.size() != wanted.parameters.size()) {
    return make_error(ErrorKind::invalid_argument, "a call of {} parameters was given {}", wanted.parameters.size(),
                      call.parameters.size());
  }
  // The library reads and writes what the graph says, whatever was allocated.
  const auto address_of = [&](BufferHandle buffer, std::int64_t bytes) -> Result<CUdeviceptr> {
    STITCH_ASSIGN(const std::int64_t allocated, memory_.bytes(buffer));
    if (allocated >= bytes) return memory_.address(buffer);
    return make_error(ErrorKind::invalid_argument, "{} bytes of a buffer that has {}", bytes, allocated);
  };
  std::vector<std::uint64_t> parameters;
  for (std::size_t p = 0; p < wanted.parameters.size(); ++p) {
    const auto address = address_of(call.parameters[p], wanted.parameters[p]);
    if (!address) return address.error().within(fmt::format("parameter {} of call {}", p, call.call.id));
    parameters.push_back(*address);
  }
  const auto result = address_of(call.result, wanted.result);
  if (!result) return result.error().within(fmt::format("result of call {}", call.call.id));
  return calls_->launch(call.call.id, parameters, *result, gpu_->stream);
}

Result<PreparedCall> GpuSession::prepare(const graph::Graph& call) {
  if (!calls_) calls_ = std::make_unique<library::GraphCalls>(gpu_->driver, gpu_->libraries);
  Result<int> made = calls_->prepare(call);
  if (made) {
    if (const Status memory = calls_->make_memory(); !memory) made = memory.error();
  }
  if (!made) {
    // Libraries try plans on the device: whether that took the context with it, only the driver says.
    (void)gpu_->synchronize();
    return made.error();
  }
  const int number = *made;
  Call needed;
  for (const graph::NodeId parameter : call.parameters())
    needed.parameters.push_back(call.node(parameter).type().bytes());
  needed.result = call.type(call.results().front()).bytes();
  prepared_.insert_or_assign(number, std::move(needed));
  return PreparedCall{{number}, calls_->name_of(number), calls_->copies(number)};
}

Status GpuSession::enqueue(const PlannedCopy& copy) {
  STITCH_ASSIGN(const CUdeviceptr from, memory_.address(copy.from));
  STITCH_ASSIGN(const CUdeviceptr to, memory_.address(copy.to));
  STITCH_ASSIGN(const std::int64_t readable, memory_.bytes(copy.from));
  STITCH_ASSIGN(const std::int64_t writable, memory_.bytes(copy.to));
  if (copy.bytes < 0 || copy.bytes > readable || copy.bytes > writable) {
    return make_error(ErrorKind::invalid_argument, "a copy of {} bytes between buffers of {} and {}", copy.bytes,
                      readable, writable);
  }
  return gpu_->check(gpu_->driver->copy_on_device(to, from, copy.bytes, gpu_->stream), "cuMemcpyDtoDAsync");
}

Result<LaunchResult> GpuSession::launch(KernelHandle kernel, const LaunchShape& shape,
                                        std::span<const LaunchValue> arguments, std::span<const std::uint64_t> blocks) {
  if (!blocks.empty()) return make_error(ErrorKind::unsupported, "a GPU runs all blocks of a kernel");
  STITCH_ASSIGN(const Kernel* known, find(kernel));
  Status done = enqueue(PlannedLaunch{kernel, shape, {arguments.begin(), arguments.end()}});
  if (done) done = gpu_->synchronize();
  if (!done) return done.error().within(fmt::format("kernel {}", known->name));
  LaunchResult result;
  STITCH_ASSIGN(result.findings, memory_.damage());
  return result;
}

Result<Measurement> GpuSession::measure(const MeasureTask& task) {
  STITCH_TRY(check_task(task));
  GpuWork work;
  for (const auto& steps : task.rotations) {
    work.emplace_back([this, &steps]() -> Status {
      for (const PlanStep& step : steps) STITCH_TRY(enqueue(step));
      return {};
    });
  }
  auto measured = measure_work(*gpu_, work, task);
  if (!measured) {
    (void)gpu_->synchronize();  // a library's words do not tell whether the context is lost
    return measured;
  }
  Measurement& measurement = *measured;
  STITCH_ASSIGN(const auto damage, memory_.damage());
  if (!damage.empty()) return make_error(ErrorKind::runtime, "{}", damage.front());
  return std::move(measurement);
}

Result<std::unique_ptr<TimedDevice>> GpuDevice::create(const GpuOptions& options) {
  STITCH_ASSIGN(auto gpu, GpuContext::open(options));
  return std::unique_ptr<TimedDevice>(new GpuDevice(std::move(gpu)));
}

Result<std::unique_ptr<TimedSession>> GpuDevice::timed_session() {
  return std::unique_ptr<TimedSession>(std::make_unique<GpuSession>(gpu_));
}

}  // namespace stitch::profiler
