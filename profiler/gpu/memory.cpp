#include "profiler/gpu/memory.h"

#include <tbb/parallel_for.h>

#include <algorithm>

namespace stitch::profiler {
namespace {

constexpr std::size_t zone_bytes = std::size_t{64} << 10;
constexpr unsigned char zone_pattern = 0xA5;
constexpr std::int64_t chunk_bytes = std::int64_t{16} << 20;
/// A read-only buffer is read back after every launch; larger ones are not worth that: over the bus a few of them take
/// as long as all samples of a candidate. The emulated device sees every write.
constexpr std::int64_t most_watched_bytes = std::int64_t{64} << 20;

void make_values(const Filler& filler, std::int64_t from, std::span<std::byte> bytes) {
  constexpr std::size_t piece = std::size_t{64} << 10;
  tbb::parallel_for(std::size_t{0}, (bytes.size() + piece - 1) / piece, [&](std::size_t i) {
    const auto part = bytes.subspan(i * piece, std::min(piece, bytes.size() - i * piece));
    filler(from + i * piece, part);
  });
}

}  // namespace

CUdeviceptr GpuMemory::Buffer::start() const { return base + zone_bytes; }

GpuMemory::~GpuMemory() {
  if (gpu_->lost()) return;
  for (const auto& [id, buffer] : buffers_) (void)gpu_->free(buffer.base);
}

Result<BufferHandle> GpuMemory::allocate(std::string name, std::int64_t bytes, const Fill& fill, Access access) {
  if (bytes < 0) return make_error(ErrorKind::invalid_argument, "buffer '{}' of {} bytes", name, bytes);
  if (access == Access::read_only && std::holds_alternative<Poison>(fill)) {
    return make_error(ErrorKind::invalid_argument, "buffer '{}' is read only and has no contents", name);
  }
  Buffer buffer{std::move(name), 0, bytes, {}};
  const std::size_t total = bytes + 2 * zone_bytes;
  const auto made = gpu_->allocate(total);
  if (!made) return made.error().within(fmt::format("buffer '{}' of {} bytes", buffer.name, bytes));
  buffer.base = *made;
  // Kept from here on, so that an error frees it with the session.
  Buffer& kept = buffers_[next_] = std::move(buffer);
  STITCH_TRY(fill_zone(kept.base));
  STITCH_TRY(fill_zone(kept.end()));
  STITCH_TRY(fill_buffer(kept, fill, access));
  return BufferHandle{next_++, bytes, kept.start()};
}

Status GpuMemory::fill_zone(CUdeviceptr zone) {
  return gpu_->check(gpu_->driver->fill(zone, zone_pattern, zone_bytes), "cuMemsetD8");
}

Status GpuMemory::fill_buffer(Buffer& buffer, const Fill& fill, Access access) {
  if (buffer.bytes == 0) return {};
  if (const auto* filler = std::get_if<Filler>(&fill)) {
    std::vector<std::byte> chunk;
    for (std::int64_t at = 0; at < buffer.bytes; at += chunk_bytes) {
      chunk.resize(std::min(chunk_bytes, buffer.bytes - at));
      make_values(*filler, at, chunk);
      STITCH_TRY(
          gpu_->check(gpu_->driver->copy_to_device(buffer.start() + at, chunk.data(), chunk.size()), "cuMemcpyHtoD"));
    }
  } else {
    const auto* poison = std::get_if<Poison>(&fill);
    const unsigned char pattern = poison != nullptr ? std::to_integer<unsigned char>(poison->pattern) : 0;
    STITCH_TRY(gpu_->check(gpu_->driver->fill(buffer.start(), pattern, buffer.bytes), "cuMemsetD8"));
  }
  if (access != Access::read_only || buffer.bytes > most_watched_bytes) return {};
  STITCH_ASSIGN(buffer.contents, hash_of(buffer));
  return {};
}

Status GpuMemory::free(BufferHandle buffer) {
  STITCH_ASSIGN(const Buffer* known, find(buffer));
  const CUdeviceptr base = known->base;
  buffers_.erase(buffer.id);
  return gpu_->free(base);
}

Result<const GpuMemory::Buffer*> GpuMemory::find(BufferHandle buffer) const {
  const auto found = buffers_.find(buffer.id);
  if (found == buffers_.end()) {
    return make_error(ErrorKind::invalid_argument, "buffer handle {} is not allocated", buffer.id);
  }
  return &found->second;
}

Result<CUdeviceptr> GpuMemory::address(BufferHandle buffer) const {
  STITCH_ASSIGN(const Buffer* known, find(buffer));
  return known->start();
}

Result<std::int64_t> GpuMemory::bytes(BufferHandle buffer) const {
  STITCH_ASSIGN(const Buffer* known, find(buffer));
  return known->bytes;
}

Result<CUdeviceptr> GpuMemory::range(BufferHandle buffer, std::int64_t offset, std::size_t bytes) const {
  STITCH_ASSIGN(const Buffer* known, find(buffer));
  if (offset < 0 || offset > known->bytes || bytes > static_cast<std::size_t>(known->bytes - offset)) {
    return make_error(ErrorKind::invalid_argument, "bytes {} and {} following of buffer '{}', which has {}", offset,
                      bytes, known->name, known->bytes);
  }
  return known->start() + offset;
}

Status GpuMemory::read(BufferHandle buffer, std::int64_t offset, std::span<std::byte> into) {
  STITCH_ASSIGN(const CUdeviceptr from, range(buffer, offset, into.size()));
  if (into.empty()) return {};
  return gpu_->check(gpu_->driver->copy_to_host(into.data(), from, into.size()), "cuMemcpyDtoH");
}

Status GpuMemory::write(BufferHandle buffer, std::int64_t offset, std::span<const std::byte> from) {
  STITCH_ASSIGN(const CUdeviceptr to, range(buffer, offset, from.size()));
  if (from.empty()) return {};
  buffers_[buffer.id].contents.reset();
  return gpu_->check(gpu_->driver->copy_to_device(to, from.data(), from.size()), "cuMemcpyHtoD");
}

Result<Hash128> GpuMemory::hash_of(const Buffer& buffer) {
  Hasher hasher;
  std::vector<std::byte> chunk;
  for (std::int64_t at = 0; at < buffer.bytes; at += chunk_bytes) {
    chunk.resize(std::min(chunk_bytes, buffer.bytes - at));
    STITCH_TRY(
        gpu_->check(gpu_->driver->copy_to_host(chunk.data(), buffer.start() + at, chunk.size()), "cuMemcpyDtoH"));
    hasher.bytes(chunk);
  }
  return hasher.finish();
}

Result<std::optional<std::string>> GpuMemory::zone_damage(const Buffer& buffer, bool before) {
  const CUdeviceptr zone = before ? buffer.base : buffer.end();
  std::vector<unsigned char> bytes(zone_bytes);
  STITCH_TRY(gpu_->check(gpu_->driver->copy_to_host(bytes.data(), zone, bytes.size()), "cuMemcpyDtoH"));
  const auto damaged = [](unsigned char byte) { return byte != zone_pattern; };
  const auto count = std::count_if(bytes.begin(), bytes.end(), damaged);
  if (count == 0) return std::optional<std::string>();
  STITCH_TRY(fill_zone(zone));
  if (before) {
    const auto last = std::find_if(bytes.rbegin(), bytes.rend(), damaged) - bytes.rbegin();
    return std::optional(fmt::format("out_of_bounds: {} bytes written before '{}', the nearest {} bytes from its start",
                                     count, buffer.name, last + 1));
  }
  const auto first = std::find_if(bytes.begin(), bytes.end(), damaged) - bytes.begin();
  return std::optional(fmt::format("out_of_bounds: {} bytes written behind '{}' (of {} bytes), the first at byte {}",
                                   count, buffer.name, buffer.bytes, buffer.bytes + first));
}

Result<std::vector<std::string>> GpuMemory::damage() {
  std::vector<std::string> lines;
  for (auto& [id, buffer] : buffers_) {
    for (const bool before : {true, false}) {
      STITCH_ASSIGN(auto line, zone_damage(buffer, before));
      if (line) lines.push_back(std::move(*line));
    }
    if (!buffer.contents) continue;
    STITCH_ASSIGN(const Hash128 now, hash_of(buffer));
    if (now == *buffer.contents) continue;
    lines.push_back(fmt::format("read_only_write: '{}' was written to", buffer.name));
    buffer.contents = now;
  }
  return lines;
}

}  // namespace stitch::profiler
