#include "driver/state/memory_map.h"

#include <algorithm>
#include <utility>

#include "emulator/run/launch.h"

namespace stitch::driver {

Result<CUdeviceptr> MemoryMap::allocate(Allocation details, std::uint64_t bytes, std::string_view call) {
  const std::lock_guard bytes_guard(bytes_mutex_);
  const std::lock_guard guard(table_mutex_);
  std::string name = fmt::format("{} {}", call, allocations_ + 1);
  STITCH_ASSIGN(const emulator::Buffer buffer, bytes_.allocate(name, bytes));
  return keep(std::move(details), buffer, std::move(name));
}

Result<CUdeviceptr> MemoryMap::attach(Allocation details, std::span<std::byte> host, std::string_view call) {
  const std::lock_guard bytes_guard(bytes_mutex_);
  const std::lock_guard guard(table_mutex_);
  std::string name = fmt::format("{} {}", call, allocations_ + 1);
  STITCH_ASSIGN(const emulator::Buffer buffer, bytes_.attach(name, host));
  return keep(std::move(details), buffer, std::move(name));
}

Result<std::vector<emulator::Buffer>> MemoryMap::place(const Hash128& module,
                                                       std::span<const emulator::ModuleVariable> variables,
                                                       const Allocation& details) {
  const std::lock_guard bytes_guard(bytes_mutex_);
  const std::lock_guard guard(table_mutex_);
  STITCH_ASSIGN(auto buffers, emulator::place_variables(module, variables, bytes_));
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (!live_.contains(buffers[i].address)) keep(details, buffers[i], "variable " + variables[i].name);
  }
  return buffers;
}

CUdeviceptr MemoryMap::keep(Allocation details, const emulator::Buffer& buffer, std::string name) {
  details.buffer = buffer;
  details.number = ++allocations_;
  details.name = std::move(name);
  if (details.is_managed()) details.advice = std::make_shared<std::map<std::uint64_t, ManagedAdvice>>();
  // Addresses of host memory come back.
  std::erase_if(freed_, [&](const auto& entry) {
    return entry.first < buffer.address + buffer.bytes && buffer.address < entry.first + entry.second.first;
  });
  live_.insert_or_assign(buffer.address, std::move(details));
  return buffer.address;
}

std::uint64_t MemoryMap::allocations() {
  const std::lock_guard guard(table_mutex_);
  return allocations_;
}

Result<std::vector<CUdeviceptr>> MemoryMap::reattach(std::span<const CUdeviceptr> old, std::vector<HostRange> ranges,
                                                     std::string_view call) {
  const std::lock_guard bytes_guard(bytes_mutex_);
  const std::lock_guard guard(table_mutex_);
  for (const CUdeviceptr address : old) STITCH_TRY(free_locked(address));
  std::vector<CUdeviceptr> starts;
  for (HostRange& range : ranges) {
    std::string name = fmt::format("{} {}", call, allocations_ + 1);
    STITCH_ASSIGN(const emulator::Buffer buffer, bytes_.attach(name, range.host));
    starts.push_back(keep(std::move(range.details), buffer, std::move(name)));
  }
  return starts;
}

Status MemoryMap::free(CUdeviceptr address) {
  const std::lock_guard bytes_guard(bytes_mutex_);
  const std::lock_guard guard(table_mutex_);
  return free_locked(address);
}

Status MemoryMap::free_locked(CUdeviceptr address) {
  const auto found = live_.find(address);
  if (found == live_.end()) return make_error(ErrorKind::not_found, "no allocation begins at 0x{:x}", address);
  STITCH_TRY(bytes_.free(found->second.buffer));
  freed_.insert_or_assign(address, std::pair(found->second.buffer.bytes, std::move(found->second.name)));
  live_.erase(found);
  return {};
}

Allocation* MemoryMap::find_locked(CUdeviceptr address) {
  const auto next = live_.upper_bound(address);
  if (next == live_.begin()) return nullptr;
  Allocation& candidate = std::prev(next)->second;
  // An empty one, and the byte behind the last, are found by the start alone.
  const std::uint64_t offset = address - candidate.buffer.address;
  return offset < candidate.buffer.bytes || offset == 0 ? &candidate : nullptr;
}

std::optional<Allocation> MemoryMap::find(CUdeviceptr address) {
  const std::lock_guard guard(table_mutex_);
  const Allocation* found = find_locked(address);
  if (found == nullptr) return std::nullopt;
  Allocation copy;
  copy.buffer = found->buffer;
  copy.kind = found->kind;
  copy.context = found->context;
  copy.device = found->device;
  copy.pool = found->pool;
  copy.flags = found->flags;
  copy.number = found->number;
  copy.name = found->name;
  copy.file_offset = found->file_offset;
  copy.advice = found->advice;
  copy.ending = found->ending;
  return copy;
}

std::string MemoryMap::freed_name(CUdeviceptr address) {
  const std::lock_guard guard(table_mutex_);
  const auto next = freed_.upper_bound(address);
  if (next == freed_.begin()) return {};
  const auto& [start, freed] = *std::prev(next);
  return address - start < std::max<std::uint64_t>(freed.first, 1) ? freed.second : std::string();
}

bool MemoryMap::mark_ending(CUdeviceptr address) {
  const std::lock_guard guard(table_mutex_);
  const auto found = live_.find(address);
  return found != live_.end() && std::exchange(found->second.ending, true);
}

std::vector<Allocation> MemoryMap::all() {
  const std::lock_guard guard(table_mutex_);
  std::vector<Allocation> result;
  for (const auto& [address, allocation] : live_) result.push_back(allocation);
  return result;
}

std::uint64_t MemoryMap::bytes_in_use(CUdevice device) {
  const std::lock_guard guard(table_mutex_);
  std::uint64_t sum = 0;
  for (const auto& [address, allocation] : live_) {
    if (!allocation.on_host() && allocation.kind != MemoryKind::mapped && allocation.device == device)
      sum += allocation.buffer.bytes;
  }
  return sum;
}

std::uint64_t MemoryMap::bytes_in_pool(CUmemoryPool pool) {
  const std::lock_guard guard(table_mutex_);
  std::uint64_t sum = 0;
  for (const auto& [address, allocation] : live_) {
    if (allocation.pool == pool && !allocation.ending) sum += allocation.buffer.bytes;
  }
  return sum;
}

void MemoryMap::report(const Allocation& allocation, const Conflict& conflict, bool writes, const Actor& who) {
  log_.add(MisuseKind::unordered_access,
           fmt::format("{} {} byte {} of {} ({} bytes), which {} {}, and nothing orders the two", who.what,
                       writes ? "writes" : "reads", conflict.offset, allocation.name, allocation.buffer.bytes,
                       conflict.before.what, conflict.before.writes ? "writes" : "reads"));
}

void MemoryMap::touch(CUdeviceptr address, std::vector<emulator::ByteRange> ranges, bool writes, const Actor& who) {
  if (ranges.empty()) return;
  const std::lock_guard guard(table_mutex_);
  Allocation* allocation = find_locked(address);
  if (allocation == nullptr) return;
  const auto conflict = allocation->history.add({who.queue, who.time, writes, who.what, std::move(ranges)}, *who.clock);
  if (conflict) report(*allocation, *conflict, writes, who);
}

void MemoryMap::touch_launch(const Actor& who) {
  struct Touched {
    CUdeviceptr address;
    std::vector<emulator::ByteRange> reads, writes;
  };
  std::vector<Touched> touched;
  for (const emulator::Buffer& buffer : bytes_.buffers()) {
    Touched one = {buffer.address, bytes_.read_ranges(buffer), bytes_.written_ranges(buffer)};
    if (!one.reads.empty() || !one.writes.empty()) touched.push_back(std::move(one));
  }
  for (Touched& one : touched) {
    touch(one.address, std::move(one.reads), false, who);
    touch(one.address, std::move(one.writes), true, who);
  }
}

void MemoryMap::forget(const StreamClock& known) {
  const std::lock_guard guard(table_mutex_);
  for (auto& [address, allocation] : live_) allocation.history.forget(known);
}

}  // namespace stitch::driver
