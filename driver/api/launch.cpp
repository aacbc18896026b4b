// Launches of kernels, and what fits on a device.
#include <algorithm>
#include <cstring>

#include "driver/api/entry.h"
#include "driver/api/kernel_launch.h"

namespace stitch::driver {
namespace {

emulator::Dim3 dimensions(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }

/// The parameter block, from one pointer per parameter, or from a buffer that the caller has laid out.
CUresult gather_parameters(Call& call, const Kernel& kernel, void** parameters, void** extra,
                           std::vector<std::byte>& block) {
  const std::uint32_t bytes = kernel.program.parameter_bytes();
  block.resize(bytes);
  if (parameters != nullptr) {
    for (const emulator::KernelParameter& parameter : kernel.program.parameters()) {
      const void* value = parameters[&parameter - kernel.program.parameters().data()];
      if (value == nullptr)
        return call.refuse(CUDA_ERROR_INVALID_VALUE,
                           fmt::format("kernel {}: parameter {} is null", kernel.name(), parameter.name));
      std::memcpy(block.data() + parameter.offset, value, parameter.bytes);
    }
    return CUDA_SUCCESS;
  }
  const void* buffer = nullptr;
  const std::size_t* size = nullptr;
  for (; extra != nullptr && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = extra[1];
    if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) size = static_cast<const std::size_t*>(extra[1]);
  }
  const std::size_t given = buffer != nullptr && size != nullptr ? *size : 0;
  // A buffer may be padded to its alignment at the end.
  if (given < bytes || given > bytes + 15U) {
    return call.refuse(CUDA_ERROR_INVALID_VALUE,
                       fmt::format("kernel {} takes {} bytes of parameters, and gets {}", kernel.name(), bytes, given));
  }
  if (bytes > 0) std::memcpy(block.data(), buffer, bytes);
  return CUDA_SUCCESS;
}

CUresult check_dimensions(Call& call, const Kernel& kernel, const KernelWork& work, const EmulatedDevice& device) {
  const auto refuse = [&](CUresult result, const std::string& why) {
    return call.refuse(result, fmt::format("kernel {}: {}", kernel.name(), why));
  };
  const emulator::LaunchConfig& config = work.config;
  const auto [gx, gy, gz] = config.grid;
  const auto [bx, by, bz] = config.block;
  if (gx == 0 || gy == 0 || gz == 0 || bx == 0 || by == 0 || bz == 0) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "a dimension of the launch is 0");
  }
  if (gx > 0x7FFFFFFFU || gy > 65535 || gz > 65535) {
    return refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("a grid of {} x {} x {} blocks", gx, gy, gz));
  }
  const std::uint64_t threads = config.block.count();
  if (bx > 1024 || by > 1024 || bz > 64 || threads > static_cast<std::uint64_t>(device.spec.max_threads_per_block)) {
    return refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("a block of {} x {} x {} threads", bx, by, bz));
  }
  const auto most = attribute_of(kernel, device, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  if (threads > static_cast<std::uint64_t>(most.value_or(1024))) {
    return refuse(CUDA_ERROR_INVALID_VALUE,
                  fmt::format("{} threads per block, its launch bounds allow {}", threads, *most));
  }
  if (config.dynamic_shared_bytes > kernel.shared_limit(device)) {
    return refuse(
        CUDA_ERROR_INVALID_VALUE,
        fmt::format("{} bytes of dynamic shared memory; allowed are {} (cuFuncSetAttribute), the device has {}",
                    config.dynamic_shared_bytes, kernel.shared_limit(device), device.spec.shared_per_block));
  }
  return CUDA_SUCCESS;
}

/// Clusters, and all blocks at once where they have to be.
CUresult check_residence(Call& call, const Kernel& kernel, const KernelWork& work, const EmulatedDevice& device) {
  const auto refuse = [&](CUresult result, const std::string& why) {
    return call.refuse(result, fmt::format("kernel {}: {}", kernel.name(), why));
  };
  const emulator::LaunchConfig& config = work.config;
  const std::uint64_t cluster = config.cluster.count();
  if (cluster > 1) {
    const auto [x, y, z] = config.cluster;
    if (!device.spec.has_clusters())
      return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, device.spec.name + " has no clusters");
    if (config.grid.x % x != 0 || config.grid.y % y != 0 || config.grid.z % z != 0) {
      return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, "the grid is not a multiple of the cluster");
    }
    const std::uint64_t portable = device.spec.max_cluster_blocks;
    if (cluster > 16 || (cluster > portable && !kernel.large_clusters)) {
      return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, fmt::format("a cluster of {} blocks", cluster));
    }
  }
  const int resident = resident_blocks(kernel, device, config.block.count(), config.dynamic_shared_bytes);
  if (resident == 0) return refuse(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "not one block fits an SM");
  const std::uint64_t at_once = std::uint64_t{static_cast<unsigned>(resident)} * device.spec.sm_count;
  if (config.cooperative && config.grid.count() > at_once) {
    return refuse(
        CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
        fmt::format("a cooperative launch of {} blocks, of which {} can be resident", config.grid.count(), at_once));
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult prepare_launch(Call& call, const LaunchRequest& request, KernelWork& work) {
  const auto found = call.driver.kernels.find(request.handle);
  if (found == call.driver.kernels.end()) {
    return call.refuse(CUDA_ERROR_INVALID_HANDLE,
                       "a launch of a function that does not exist, or whose module was unloaded");
  }
  const Kernel& kernel = *found->second;
  work.kernel = found->second;
  work.config.grid = dimensions(request.config.gridDimX, request.config.gridDimY, request.config.gridDimZ);
  work.config.block = dimensions(request.config.blockDimX, request.config.blockDimY, request.config.blockDimZ);
  work.config.dynamic_shared_bytes = request.config.sharedMemBytes;
  const auto required = kernel.program.required_cluster();
  if (required) work.config.cluster = *required;
  if (kernel.cluster[0] > 0) {
    work.config.cluster = dimensions(kernel.cluster[0], std::max(kernel.cluster[1], 1), std::max(kernel.cluster[2], 1));
  }
  for (unsigned i = 0; i < request.config.numAttrs; ++i) {
    const CUlaunchAttribute& attribute = request.config.attrs[i];
    work.attributes.push_back(attribute);
    apply_attribute(work, attribute.id, attribute.value);
  }
  const EmulatedDevice& device = call.driver.devices[request.context->device];
  STITCH_CU_TRY(check_dimensions(call, kernel, work, device));
  STITCH_CU_TRY(check_residence(call, kernel, work, device));
  return gather_parameters(call, kernel, request.parameters, request.extra, work.parameters);
}

void apply_attribute(KernelWork& work, CUlaunchAttributeID id, const CUlaunchAttributeValue& value) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: work.config.cooperative = value.cooperative != 0; break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      if (value.clusterDim.x != 0) work.config.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
      break;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      work.overlaps = value.programmaticStreamSerializationAllowed != 0;
      break;
    default: break;  // hints
  }
}

namespace {

CUresult launch(const void* handle, const CUlaunchConfig& config, void** parameters, void** extra) {
  return entry([&](Call& call) -> CUresult {
    CUstream stream = nullptr;
    STITCH_CU_TRY(call.stream(config.hStream, stream));
    KernelWork work;
    STITCH_CU_TRY(prepare_launch(call, {handle, stream->context, config, parameters, extra}, work));
    // Events that a launch triggers on its way: at its end, which is no earlier.
    std::vector<CUevent> triggered;
    for (const CUlaunchAttribute& attribute : work.attributes) {
      if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
        triggered.push_back(attribute.value.programmaticEvent.event);
      if (attribute.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
        triggered.push_back(attribute.value.launchCompletionEvent.event);
    }
    STITCH_CU_TRY(call.issue(stream, std::move(work)));
    for (CUevent event : triggered) {
      if (!call.driver.events.contains(event)) continue;
      event->recorded = true;
      event->at = stream->known;
    }
    return CUDA_SUCCESS;
  });
}

template <class Body>
CUresult occupancy_entry(CUfunction function, Body&& body) {
  return entry([&](Call& call) -> CUresult {
    CUcontext context = nullptr;
    STITCH_CU_TRY(call.context(context));
    const auto found = call.driver.kernels.find(function);
    if (found == call.driver.kernels.end()) return CUDA_ERROR_INVALID_HANDLE;
    return body(*found->second, call.driver.devices[context->device]);
  });
}

}  // namespace
}  // namespace stitch::driver

using namespace stitch::driver;

CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                CUstream stream, void** parameters, void** extra) {
  const CUlaunchConfig config = {grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, nullptr, 0};
  return launch(function, config, parameters, extra);
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  return config == nullptr ? CUDA_ERROR_INVALID_VALUE : launch(function, *config, parameters, extra);
}

CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                           unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                           CUstream stream, void** parameters) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  const CUlaunchConfig config = {grid_x,  grid_y,       grid_z, block_x,    block_y,
                                 block_z, shared_bytes, stream, &attribute, 1};
  return launch(function, config, parameters, nullptr);
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function, int threads,
                                                                      size_t dynamic_shared, unsigned) {
  return occupancy_entry(function, [&](const Kernel& kernel, const EmulatedDevice& device) -> CUresult {
    if (blocks == nullptr || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
    *blocks = resident_blocks(kernel, device, threads, dynamic_shared);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads,
                                                             size_t dynamic_shared) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, dynamic_shared, 0);
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction function,
                                                           CUoccupancyB2DSize shared_of, size_t dynamic_shared,
                                                           int limit, unsigned) {
  return occupancy_entry(function, [&](const Kernel& kernel, const EmulatedDevice& device) -> CUresult {
    if (!all_given(grid, block)) return CUDA_ERROR_INVALID_VALUE;
    const int most = attribute_of(kernel, device, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK).value_or(1024);
    if (limit <= 0 || limit > most) limit = most;
    int best = 0;
    for (int threads = limit; threads > 0; threads = (threads - 1) / 32 * 32) {
      const std::size_t shared = shared_of != nullptr ? shared_of(threads) : dynamic_shared;
      const int resident = resident_blocks(kernel, device, threads, shared);
      if (resident * threads <= best) continue;
      best = resident * threads;
      *block = threads;
      *grid = resident * device.spec.sm_count;
    }
    return best > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function,
                                                  CUoccupancyB2DSize shared_of, size_t dynamic_shared, int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_of, dynamic_shared, limit, 0);
}

CUresult CUDAAPI cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction function, int blocks, int threads) {
  return occupancy_entry(function, [&](const Kernel& kernel, const EmulatedDevice& device) -> CUresult {
    if (bytes == nullptr || blocks <= 0 || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
    const stitch::DeviceSpec& spec = device.spec;
    const std::int64_t used = kernel.program.static_shared_bytes() + spec.shared_reserved_per_block;
    // What a launch may have without having asked for more (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES).
    *bytes = std::max<std::int64_t>(std::min(spec.shared_per_sm / blocks - used, kernel.shared_limit(device)), 0);
    return CUDA_SUCCESS;
  });
}

namespace {

std::uint64_t cluster_of(const CUlaunchConfig& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config.attrs[i];
    if (attribute.id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    return std::uint64_t{attribute.value.clusterDim.x} * attribute.value.clusterDim.y * attribute.value.clusterDim.z;
  }
  return 1;
}

}  // namespace

CUresult CUDAAPI cuOccupancyMaxActiveClusters(int* clusters, CUfunction function, const CUlaunchConfig* config) {
  return occupancy_entry(function, [&](const Kernel& kernel, const EmulatedDevice& device) -> CUresult {
    if (!all_given(clusters, config)) return CUDA_ERROR_INVALID_VALUE;
    if (!device.spec.has_clusters()) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    const std::uint64_t threads = std::uint64_t{config->blockDimX} * config->blockDimY * config->blockDimZ;
    const int resident = resident_blocks(kernel, device, threads, config->sharedMemBytes);
    *clusters = static_cast<int>(std::uint64_t{static_cast<unsigned>(resident)} * device.spec.sm_count /
                                 std::max<std::uint64_t>(cluster_of(*config), 1));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuOccupancyMaxPotentialClusterSize(int* size, CUfunction function, const CUlaunchConfig* config) {
  return occupancy_entry(function, [&](const Kernel& kernel, const EmulatedDevice& device) -> CUresult {
    if (!all_given(size, config)) return CUDA_ERROR_INVALID_VALUE;
    if (!device.spec.has_clusters()) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    *size = kernel.large_clusters ? 16 : device.spec.max_cluster_blocks;
    return CUDA_SUCCESS;
  });
}
