#include "profiler/gpu/context.h"

#include <algorithm>
#include <array>

#include "cuda/device_traits.h"

namespace stitch::profiler {
namespace {

/// As nvidia-smi and NVML write it.
std::string uuid_text(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

}  // namespace

Result<std::shared_ptr<GpuContext>> GpuContext::open(const GpuOptions& options) {
  std::shared_ptr<GpuContext> gpu(new GpuContext);
  gpu->ordinal = options.ordinal;
  gpu->most_bytes_ = options.most_bytes;
  STITCH_ASSIGN(gpu->driver, cuda::DriverApi::load(cuda::DriverUse::measure, options.driver));
  STITCH_TRY(gpu->find_device());
  if (gpu->driver->emulated) {
    gpu->no_cupti = "the CUDA driver is emulated: it tells no times";
  } else if (auto cupti = CuptiApi::load(options.cupti)) {
    gpu->cupti = std::move(*cupti);
  } else {
    gpu->no_cupti = cupti.error().message;
  }
  STITCH_TRY(gpu->identify());
  if (auto monitor = GpuMonitor::open(gpu->identity.key, options.nvml)) gpu->monitor = std::move(*monitor);
  // Records of a slice are not the whole GPU's, whose UUID drivers may give for both.
  if (!gpu->identity.traits.mig_profile.empty()) gpu->identity.key += " " + gpu->identity.traits.mig_profile;
  if (gpu->monitor && !gpu->monitor->driver_version().empty()) {
    gpu->identity.driver = fmt::format("{} ({})", gpu->monitor->driver_version(), gpu->identity.driver);
  }
  const cuda::DriverApi& driver = *gpu->driver;
  STITCH_TRY(driver.check(driver.retain_primary(&gpu->context, gpu->device_), "cuDevicePrimaryCtxRetain",
                          ErrorKind::unavailable));
  STITCH_TRY(driver.check(driver.set_current(gpu->context), "cuCtxSetCurrent", ErrorKind::unavailable));
  STITCH_TRY(
      driver.check(driver.create_stream(&gpu->stream, CU_STREAM_DEFAULT), "cuStreamCreate", ErrorKind::unavailable));
  return gpu;
}

GpuContext::~GpuContext() {
  if (context == nullptr || lost_) return;
  if (flush_buffer_ != 0) (void)free(flush_buffer_);
  if (stream != nullptr) driver->destroy_stream(stream);
  driver->release_primary(device_);
}

Status GpuContext::find_device() {
  int count = 0;
  STITCH_TRY(driver->check(driver->device_count(&count), "cuDeviceGetCount", ErrorKind::unavailable));
  if (ordinal < 0 || ordinal >= count) {
    return make_error(ErrorKind::unavailable, "no GPU {}: the driver sees {}", ordinal, count);
  }
  return driver->check(driver->device_get(&device_, ordinal), "cuDeviceGet", ErrorKind::unavailable);
}

Result<int> GpuContext::attribute(CUdevice_attribute which) const {
  int value = 0;
  STITCH_TRY(
      driver->check(driver->device_attribute(&value, which, device_), "cuDeviceGetAttribute", ErrorKind::unavailable));
  return value;
}

Status GpuContext::identify() {
  std::array<char, 256> name{};
  CUuuid uuid{};
  std::size_t memory = 0;
  int version = 0;
  STITCH_TRY(
      driver->check(driver->device_name(name.data(), name.size(), device_), "cuDeviceGetName", ErrorKind::unavailable));
  STITCH_TRY(driver->check(driver->device_uuid(&uuid, device_), "cuDeviceGetUuid", ErrorKind::unavailable));
  STITCH_TRY(driver->check(driver->device_memory(&memory, device_), "cuDeviceTotalMem", ErrorKind::unavailable));
  STITCH_TRY(driver->check(driver->version(&version), "cuDriverGetVersion", ErrorKind::unavailable));
  STITCH_ASSIGN(const int major, attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  STITCH_ASSIGN(const int minor, attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  STITCH_ASSIGN(identity.sm_count, attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  STITCH_ASSIGN(const int l2, attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
  l2_bytes_ = std::max(l2, 0);
  identity.key = uuid_text(uuid);
  identity.kind = "gpu";
  identity.name = name.data();
  // From Hopper on, what a chip alone has is in its architecture-specific target.
  identity.architecture = fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : "");
  identity.driver = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
  identity.memory_bytes = memory;
  identity.traits = cuda::read_traits(*driver, device_);
  identity.emulated = driver->emulated;
  if (identity.emulated) identity.driver += ", emulated";
  return {};
}

Status GpuContext::check(CUresult result, const char* call, ErrorKind kind) {
  if (cuda::loses_context(result)) lost_ = true;
  return driver->check(result, call, kind);
}

Result<CUdeviceptr> GpuContext::allocate(std::size_t bytes) {
  const auto wanted = static_cast<std::int64_t>(bytes);
  if (most_bytes_ > 0 && wanted > most_bytes_ - taken_bytes_) {
    return make_error(ErrorKind::resource_exhausted,
                      "{} bytes are wanted, and the runner may take {} (STITCH_RUNNER_MEMORY), of which {} are in use",
                      wanted, most_bytes_, taken_bytes_);
  }
  CUdeviceptr memory = 0;
  STITCH_TRY(check(driver->allocate(&memory, bytes), "cuMemAlloc"));
  taken_.emplace(memory, wanted);
  taken_bytes_ += wanted;
  return memory;
}

Status GpuContext::free(CUdeviceptr memory) {
  const auto found = taken_.find(memory);
  if (found != taken_.end()) {
    taken_bytes_ -= found->second;
    taken_.erase(found);
  }
  return check(driver->free(memory), "cuMemFree");
}

Status GpuContext::flush_l2() {
  if (l2_bytes_ == 0) return {};
  if (flush_buffer_ == 0) {
    STITCH_ASSIGN(flush_buffer_, allocate(2 * l2_bytes_));
  }
  return check(driver->fill_async(flush_buffer_, 0, 2 * l2_bytes_, stream), "cuMemsetD8Async");
}

}  // namespace stitch::profiler
