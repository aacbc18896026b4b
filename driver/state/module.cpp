#include "driver/state/module.h"

#include <algorithm>

namespace stitch::driver {
namespace {

constexpr int assumed_registers = 32;
constexpr int shared_without_asking = 48 * 1024;

std::uint32_t threads_allowed(const Kernel& kernel) {
  if (const auto required = kernel.program.required_block()) return required->count();
  if (const auto most = kernel.program.maximum_block()) return most->count();
  return 1024;
}

}  // namespace

Result<std::shared_ptr<LoadedText>> LoadedText::load(std::string ptx, std::uint64_t serial) {
  auto text = std::make_shared<LoadedText>();
  text->ptx_ = std::move(ptx) + fmt::format("\n// load {}\n", serial);
  STITCH_ASSIGN(text->contents_, emulator::read_module(text->ptx_));
  return text;
}

const emulator::DeclaredKernel* LoadedText::kernel(std::string_view name) const {
  const auto found = std::ranges::find(contents_.kernels, name, &emulator::DeclaredKernel::name);
  return found == contents_.kernels.end() ? nullptr : &*found;
}

Result<emulator::Program> LoadedText::program(const std::string& name) {
  const std::lock_guard guard(mutex_);
  if (const auto known = programs_.find(name); known != programs_.end()) return known->second;
  STITCH_ASSIGN(emulator::Program program, emulator::Program::load(ptx_, name));
  return programs_.emplace(name, std::move(program)).first->second;
}

std::int64_t Kernel::shared_limit(const EmulatedDevice& device) const {
  const std::int64_t static_bytes = program.static_shared_bytes();
  const std::int64_t free = std::max<std::int64_t>(shared_without_asking - static_bytes, 0);
  return std::min(std::max<std::int64_t>(dynamic_shared, free), device.spec.shared_per_block - static_bytes);
}

std::optional<int> attribute_of(const Kernel& kernel, const EmulatedDevice& device, CUfunction_attribute which) {
  const DeviceSpec& spec = device.spec;
  const auto required = kernel.program.required_cluster();
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return threads_allowed(kernel);
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: return kernel.program.static_shared_bytes();
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: return 0;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: return kernel.program.local_bytes();
    case CU_FUNC_ATTRIBUTE_NUM_REGS: return assumed_registers;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: return kernel.text->contents().version;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: return spec.compute_major * 10 + spec.compute_minor;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: return 0;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: return kernel.shared_limit(device);
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: return kernel.carveout;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET: return 0;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: return required ? required->x : kernel.cluster[0];
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: return required ? required->y : kernel.cluster[1];
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: return required ? required->z : kernel.cluster[2];
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: return kernel.large_clusters ? 1 : 0;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: return 0;
    default: return std::nullopt;
  }
}

CUresult set_attribute(Kernel& kernel, const EmulatedDevice& device, CUfunction_attribute which, int value) {
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      if (value < 0 || value + kernel.program.static_shared_bytes() > device.spec.shared_per_block) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      kernel.dynamic_shared = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      kernel.carveout = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: kernel.large_clusters = value != 0; return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: kernel.cluster[0] = value; return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: kernel.cluster[1] = value; return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: kernel.cluster[2] = value; return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

int resident_blocks(const Kernel& kernel, const EmulatedDevice& device, std::uint64_t threads,
                    std::uint64_t dynamic_shared) {
  const DeviceSpec& spec = device.spec;
  if (threads == 0 || threads > threads_allowed(kernel)) return 0;
  const std::uint64_t shared = kernel.program.static_shared_bytes() + dynamic_shared;
  if (shared > static_cast<std::uint64_t>(spec.shared_per_block)) return 0;
  const std::uint64_t whole_warps = (threads + 31) / 32 * 32;
  std::uint64_t blocks = std::min<std::uint64_t>(spec.blocks_per_sm, spec.threads_per_sm / whole_warps);
  blocks = std::min<std::uint64_t>(blocks, spec.registers_per_sm / (whole_warps * assumed_registers));
  constexpr std::uint64_t shared_unit = 128;
  const std::uint64_t per_block =
      (shared + spec.shared_reserved_per_block + shared_unit - 1) / shared_unit * shared_unit;
  if (per_block > 0) blocks = std::min<std::uint64_t>(blocks, spec.shared_per_sm / per_block);
  return static_cast<int>(blocks);
}

}  // namespace stitch::driver
