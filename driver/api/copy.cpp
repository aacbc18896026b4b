// Copies and fills.
#include "driver/api/copy.h"

#include <algorithm>
#include <cstring>

namespace stitch::driver {
namespace {

constexpr CUdeviceptr host_end = CUdeviceptr{1} << 47;

CUDA_MEMCPY3D linear(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  CUDA_MEMCPY3D shape{};
  shape.srcMemoryType = shape.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  shape.srcDevice = from;
  shape.dstDevice = to;
  shape.WidthInBytes = bytes;
  shape.Height = shape.Depth = 1;
  return shape;
}

/// One end of a copy: its first byte, and how many it spans.
struct Extent {
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  std::size_t pitch = 0, slice = 0;
};

Extent extent_of(const CUDA_MEMCPY3D& shape, bool source) {
  const auto type = source ? shape.srcMemoryType : shape.dstMemoryType;
  const void* host = source ? shape.srcHost : shape.dstHost;
  const CUdeviceptr base = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<std::uintptr_t>(host)
                                                      : (source ? shape.srcDevice : shape.dstDevice);
  Extent extent;
  extent.pitch = source ? shape.srcPitch : shape.dstPitch;
  if (extent.pitch == 0) extent.pitch = shape.WidthInBytes;
  extent.slice = extent.pitch * std::max(source ? shape.srcHeight : shape.dstHeight, shape.Height);
  const std::size_t x = source ? shape.srcXInBytes : shape.dstXInBytes;
  extent.start =
      base + (source ? shape.srcZ : shape.dstZ) * extent.slice + (source ? shape.srcY : shape.dstY) * extent.pitch + x;
  extent.bytes = (shape.Depth - 1) * extent.slice + (shape.Height - 1) * extent.pitch + shape.WidthInBytes;
  return extent;
}

enum class Place : std::uint8_t { device, pinned, pageable };

CUresult check_extent(Call& call, const Extent& extent, bool source, Place& place) {
  const char* what = source ? "reads" : "writes";
  const auto found = call.driver.memory.find(extent.start);
  if (!found) {
    const std::string freed = call.driver.memory.freed_name(extent.start);
    if (!freed.empty() && extent.start >= host_end) {
      return call.refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("a copy {} {}, which was freed", what, freed),
                         MisuseKind::freed_memory);
    }
    if (extent.start == 0 || extent.start >= host_end) {
      return call.refuse(CUDA_ERROR_INVALID_VALUE,
                         fmt::format("a copy {} 0x{:x}, where no memory is", what, extent.start));
    }
    if (is_reserved(call.driver, extent.start)) {
      return call.refuse(CUDA_ERROR_INVALID_VALUE,
                         fmt::format("a copy {} 0x{:x}, which is reserved, but has no memory that may be accessed",
                                     what, extent.start));
    }
    place = Place::pageable;
    return CUDA_SUCCESS;
  }
  place = found->on_host() ? Place::pinned : Place::device;
  const std::uint64_t offset = extent.start - found->buffer.address;
  if (offset + extent.bytes <= found->buffer.bytes) return CUDA_SUCCESS;
  return call.refuse(CUDA_ERROR_INVALID_VALUE,
                     fmt::format("a copy {} {} bytes from byte {} of {} on, which has {}", what, extent.bytes, offset,
                                 found->name, found->buffer.bytes));
}

std::shared_ptr<const std::vector<std::byte>> stage(const CUDA_MEMCPY3D& shape, const Extent& from) {
  auto staged = std::make_shared<std::vector<std::byte>>(shape.WidthInBytes * shape.Height * shape.Depth);
  std::byte* into = staged->data();
  for (std::size_t z = 0; z < shape.Depth; ++z) {
    for (std::size_t y = 0; y < shape.Height; ++y, into += shape.WidthInBytes) {
      std::memcpy(into, reinterpret_cast<const void*>(from.start + z * from.slice + y * from.pitch),
                  shape.WidthInBytes);
    }
  }
  return staged;
}

}  // namespace

CUresult prepare_copy(Call& call, const CUDA_MEMCPY3D& shape, bool waits, CopyWork& work, bool& to_pageable) {
  to_pageable = false;
  work.shape = shape;
  for (const CUmemorytype type : {shape.srcMemoryType, shape.dstMemoryType}) {
    if (type == CU_MEMORYTYPE_ARRAY) {
      return call.refuse(CUDA_ERROR_NOT_SUPPORTED, "copies of arrays", MisuseKind::unsupported);
    }
    if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (shape.WidthInBytes == 0 || shape.Height == 0 || shape.Depth == 0) return CUDA_SUCCESS;
  const Extent from = extent_of(shape, true), to = extent_of(shape, false);
  if (from.pitch < shape.WidthInBytes || to.pitch < shape.WidthInBytes) return CUDA_ERROR_INVALID_VALUE;
  Place source{}, target{};
  STITCH_CU_TRY(check_extent(call, from, true, source));
  STITCH_CU_TRY(check_extent(call, to, false, target));
  // Pageable memory is read before the call returns, and written before it returns (CUDA driver API, "API
  // synchronization behavior").
  if (source == Place::pageable && !waits) work.staged = stage(shape, from);
  to_pageable = target == Place::pageable;
  return CUDA_SUCCESS;
}

CUresult copy(CUstream handle, const CUDA_MEMCPY3D& shape, bool asynchronous) {
  return entry([&](Call& call) -> CUresult {
    CUstream stream = nullptr;
    STITCH_CU_TRY(call.stream(handle, stream));
    CopyWork work;
    bool to_pageable = false;
    STITCH_CU_TRY(prepare_copy(call, shape, !asynchronous, work, to_pageable));
    if (shape.WidthInBytes == 0 || shape.Height == 0 || shape.Depth == 0) return CUDA_SUCCESS;
    if (!asynchronous) return call.issue_and_wait(stream, std::move(work));
    STITCH_CU_TRY(call.issue(stream, std::move(work)));
    if (!to_pageable || stream->capture != nullptr) return CUDA_SUCCESS;
    return call.wait(stream->context, StreamClock(stream->known));
  });
}

CUresult prepare_fill(Call& call, const CUDA_MEMSET_NODE_PARAMS& shape) {
  if (shape.elementSize != 1 && shape.elementSize != 2 && shape.elementSize != 4) return CUDA_ERROR_INVALID_VALUE;
  if (shape.dst % shape.elementSize != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t row = shape.width * shape.elementSize;
  if (row == 0 || shape.height == 0) return CUDA_SUCCESS;
  if (shape.height > 1 && shape.pitch < row) return CUDA_ERROR_INVALID_VALUE;
  Place place{};
  STITCH_CU_TRY(check_extent(call, {shape.dst, (shape.height - 1) * shape.pitch + row, shape.pitch, 0}, false, place));
  return place == Place::pageable
             ? call.refuse(CUDA_ERROR_INVALID_VALUE, "a fill of memory that the device cannot reach")
             : CUDA_SUCCESS;
}

CUresult fill(CUstream handle, CUdeviceptr address, std::size_t pitch, unsigned value, unsigned element,
              std::size_t width, std::size_t height, bool asynchronous) {
  return entry([&](Call& call) -> CUresult {
    CUstream stream = nullptr;
    STITCH_CU_TRY(call.stream(handle, stream));
    FillWork work;
    work.shape.dst = address;
    work.shape.pitch = pitch;
    work.shape.value = value;
    work.shape.elementSize = element;
    work.shape.width = width;
    work.shape.height = height;
    STITCH_CU_TRY(prepare_fill(call, work.shape));
    if (width == 0 || height == 0) return CUDA_SUCCESS;
    // A fill of device memory is asynchronous even without Async; but it is in order, and nobody can tell.
    if (!asynchronous) STITCH_CU_TRY(call.not_while_capturing());
    return call.issue(stream, std::move(work));
  });
}

CUresult copy_linear(CUstream stream, CUdeviceptr to, CUdeviceptr from, std::size_t bytes, bool asynchronous) {
  return copy(stream, linear(to, from, bytes), asynchronous);
}

}  // namespace stitch::driver

using namespace stitch::driver;

namespace {

CUdeviceptr at(const void* host) { return reinterpret_cast<std::uintptr_t>(host); }

CUDA_MEMCPY3D volume_of(const CUDA_MEMCPY2D& plane) {
  CUDA_MEMCPY3D shape{};
  shape.srcXInBytes = plane.srcXInBytes;
  shape.srcY = plane.srcY;
  shape.srcMemoryType = plane.srcMemoryType;
  shape.srcHost = plane.srcHost;
  shape.srcDevice = plane.srcDevice;
  shape.srcArray = plane.srcArray;
  shape.srcPitch = plane.srcPitch;
  shape.dstXInBytes = plane.dstXInBytes;
  shape.dstY = plane.dstY;
  shape.dstMemoryType = plane.dstMemoryType;
  shape.dstHost = plane.dstHost;
  shape.dstDevice = plane.dstDevice;
  shape.dstArray = plane.dstArray;
  shape.dstPitch = plane.dstPitch;
  shape.WidthInBytes = plane.WidthInBytes;
  shape.Height = plane.Height;
  shape.Depth = 1;
  return shape;
}

}  // namespace

CUresult CUDAAPI cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_linear(nullptr, to, from, bytes, false);
}
CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_linear(stream, to, from, bytes, true);
}
CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  return copy_linear(nullptr, to, at(from), bytes, false);
}
CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return copy_linear(stream, to, at(from), bytes, true);
}
CUresult CUDAAPI cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  return copy_linear(nullptr, at(to), from, bytes, false);
}
CUresult CUDAAPI cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_linear(stream, at(to), from, bytes, true);
}
CUresult CUDAAPI cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_linear(nullptr, to, from, bytes, false);
}
CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_linear(stream, to, from, bytes, true);
}
CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes) {
  return copy_linear(nullptr, to, from, bytes, false);
}
CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes,
                                   CUstream stream) {
  return copy_linear(stream, to, from, bytes, true);
}
CUresult CUDAAPI cuMemcpy2D(const CUDA_MEMCPY2D* plane) {
  return plane == nullptr ? CUDA_ERROR_INVALID_VALUE : copy(nullptr, volume_of(*plane), false);
}
CUresult CUDAAPI cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* plane) { return cuMemcpy2D(plane); }
CUresult CUDAAPI cuMemcpy2DAsync(const CUDA_MEMCPY2D* plane, CUstream stream) {
  return plane == nullptr ? CUDA_ERROR_INVALID_VALUE : copy(stream, volume_of(*plane), true);
}
CUresult CUDAAPI cuMemcpy3D(const CUDA_MEMCPY3D* shape) {
  return shape == nullptr ? CUDA_ERROR_INVALID_VALUE : copy(nullptr, *shape, false);
}
CUresult CUDAAPI cuMemcpy3DAsync(const CUDA_MEMCPY3D* shape, CUstream stream) {
  return shape == nullptr ? CUDA_ERROR_INVALID_VALUE : copy(stream, *shape, true);
}

CUresult CUDAAPI cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                                    CUmemcpyAttributes*, size_t*, size_t, CUstream stream) {
  if (!all_given(to, from, bytes) || stream == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) STITCH_CU_TRY(copy_linear(stream, to[i], from[i], bytes[i], true));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
  return fill(nullptr, to, 0, value, 1, count, 1, false);
}
CUresult CUDAAPI cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count) {
  return fill(nullptr, to, 0, value, 2, count, 1, false);
}
CUresult CUDAAPI cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) {
  return fill(nullptr, to, 0, value, 4, count, 1, false);
}
CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return fill(stream, to, 0, value, 1, count, 1, true);
}
CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return fill(stream, to, 0, value, 2, count, 1, true);
}
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return fill(stream, to, 0, value, 4, count, 1, true);
}
CUresult CUDAAPI cuMemsetD2D8(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height) {
  return fill(nullptr, to, pitch, value, 1, width, height, false);
}
CUresult CUDAAPI cuMemsetD2D16(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height) {
  return fill(nullptr, to, pitch, value, 2, width, height, false);
}
CUresult CUDAAPI cuMemsetD2D32(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height) {
  return fill(nullptr, to, pitch, value, 4, width, height, false);
}
CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
                                   CUstream stream) {
  return fill(stream, to, pitch, value, 1, width, height, true);
}
CUresult CUDAAPI cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height,
                                    CUstream stream) {
  return fill(stream, to, pitch, value, 2, width, height, true);
}
CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height,
                                    CUstream stream) {
  return fill(stream, to, pitch, value, 4, width, height, true);
}
