// Tensor maps: what cp.async.bulk.tensor takes, in the emulator's own encoding.
#include <algorithm>
#include <optional>

#include "driver/api/entry.h"
#include "emulator/tensor_map.h"

namespace stitch::driver {
namespace {

using emulator::TensorMap;
using emulator::TensorMapType;

static_assert(sizeof(CUtensorMap) == TensorMap::bytes);

std::optional<TensorMapType> type_of(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8: return TensorMapType::u8;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16: return TensorMapType::u16;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32: return TensorMapType::u32;
    case CU_TENSOR_MAP_DATA_TYPE_INT32: return TensorMapType::s32;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64: return TensorMapType::u64;
    case CU_TENSOR_MAP_DATA_TYPE_INT64: return TensorMapType::s64;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16: return TensorMapType::f16;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32: return TensorMapType::f32;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return TensorMapType::f64;
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return TensorMapType::bf16;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ: return TensorMapType::f32_ftz;
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32: return TensorMapType::tf32;
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ: return TensorMapType::tf32_ftz;
    default: return std::nullopt;
  }
}

bool is_floating(TensorMapType type) {
  switch (type) {
    case TensorMapType::u8:
    case TensorMapType::u16:
    case TensorMapType::u32:
    case TensorMapType::s32:
    case TensorMapType::u64:
    case TensorMapType::s64: return false;
    default: return true;
  }
}

/// Whether any of the devices has tensor maps: encoding one needs no context.
bool has_tensor_maps(const Driver& driver) {
  return std::ranges::any_of(driver.devices, [](const EmulatedDevice& device) {
    return device.attribute(CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED).value_or(0) != 0;
  });
}

CUresult encode(Call& call, const TensorMap& map, CUtensorMap* into) {
  if (const Status sound = emulator::check(map); !sound) {
    const bool lacks = sound.error().kind == ErrorKind::unsupported;
    return call.refuse(lacks ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE,
                       fmt::format("a tensor map: {}", sound.error().message),
                       lacks ? MisuseKind::unsupported : MisuseKind::invalid_call);
  }
  emulator::encode_tensor_map(map, std::as_writable_bytes(std::span(into, 1)).first<TensorMap::bytes>());
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace stitch::driver

using namespace stitch::driver;
namespace emulator = stitch::emulator;

CUresult CUDAAPI cuTensorMapEncodeTiled(CUtensorMap* into, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                        const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                                        const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                                        CUtensorMapFloatOOBfill fill) {
  return entry([&](Call& call) -> CUresult {
    // CUtensorMap asks for 64 bytes of alignment of C++ programs; programs in other languages do without.
    if (!all_given(into, sizes, box, element_strides)) return CUDA_ERROR_INVALID_VALUE;
    if (!has_tensor_maps(call.driver)) return CUDA_ERROR_NOT_SUPPORTED;
    if (rank < 1 || rank > TensorMap::most_dimensions || (rank > 1 && strides == nullptr)) {
      return call.refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("a tensor map of {} dimensions", rank));
    }
    const auto known = type_of(type);
    if (!known) {
      return call.refuse(CUDA_ERROR_NOT_SUPPORTED, fmt::format("tensor maps of type {}", static_cast<int>(type)),
                         MisuseKind::unsupported);
    }
    TensorMap map;
    map.type = *known;
    map.rank = rank;
    map.address = reinterpret_cast<std::uintptr_t>(address);
    map.strides[0] = emulator::element_bytes(*known);
    for (cuuint32_t d = 0; d < rank; ++d) {
      map.sizes[d] = sizes[d];
      if (d > 0) map.strides[d] = strides[d - 1];
      map.box[d] = box[d];
      map.element_strides[d] = element_strides[d];
    }
    map.interleave = static_cast<std::uint32_t>(interleave);
    map.swizzle = static_cast<emulator::TensorMapSwizzle>(swizzle);
    map.fills_nan = fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
    if (map.fills_nan && !is_floating(*known)) {
      return call.refuse(CUDA_ERROR_INVALID_VALUE, "a tensor map of integers that is filled with NaN");
    }
    return encode(call, map, into);
  });
}

CUresult CUDAAPI cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  return entry([&](Call& call) -> CUresult {
    if (map == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto bytes = std::as_bytes(std::span(map, 1)).first<TensorMap::bytes>();
    TensorMap changed = emulator::decode_tensor_map(bytes);
    changed.address = reinterpret_cast<std::uintptr_t>(address);
    return encode(call, changed, map);
  });
}
