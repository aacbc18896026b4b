#include "emulator/memory/memory.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "emulator/decode/address_space.h"
#include "emulator/memory/memory_region.h"

namespace stitch::emulator {
namespace {

constexpr std::uint64_t region_bytes = std::uint64_t{1} << region_shift;
constexpr std::uint64_t largest_buffer = region_bytes / 2;
/// Where a buffer begins inside its window: far from both neighbours.
constexpr std::uint64_t region_margin = region_bytes / 4;

/// Calls visit(record, mask) for every sector of the range.
template <class F>
void for_each_sector(const MemoryRegion& region, std::uint64_t offset, std::uint64_t bytes, F&& visit) {
  if (bytes == 0) return;
  for (std::uint64_t sector = offset / sector_bytes; sector <= (offset + bytes - 1) / sector_bytes; ++sector) {
    const std::int64_t begin = offset - sector * sector_bytes;
    visit(region.sectors[sector], sector_mask(begin, begin + bytes));
  }
}

/// The bytes that `mask_of` names in the sectors that the launch `generation` touched, merged and ascending.
template <class F>
std::vector<ByteRange> ranges_of(const MemoryRegion* region, std::uint32_t generation, F&& mask_of) {
  std::vector<ByteRange> ranges;
  if (region == nullptr || region->read_only) return ranges;
  const auto add = [&ranges](std::uint64_t offset, std::uint64_t bytes) {
    if (!ranges.empty() && ranges.back().offset + ranges.back().bytes == offset) {
      ranges.back().bytes += bytes;
    } else {
      ranges.push_back({offset, bytes});
    }
  };
  const std::uint64_t pages = region->page_count();
  for (std::uint64_t page = 0; page < pages; ++page) {
    const std::uint64_t group = page / MemoryRegion::pages_per_group;
    if (region->group_stamp[group].load(std::memory_order_relaxed) != generation) {
      page = (group + 1) * MemoryRegion::pages_per_group - 1;
      continue;
    }
    if (region->page_stamp[page] != generation) continue;
    for (std::uint32_t i = 0; i < sectors_per_page; ++i) {
      const std::uint64_t sector = page * sectors_per_page + i;
      const SectorRecord& record = region->sectors[sector];
      if (record.generation() != generation) continue;
      for (std::uint32_t rest = mask_of(record); rest != 0;) {
        const int first = __builtin_ctz(rest);
        const std::uint32_t run = ~(rest >> first);
        const int length = run == 0 ? 32 - first : std::min(__builtin_ctz(run), 32 - first);
        add(sector * sector_bytes + first, length);
        rest &= first + length >= 32 ? 0 : ~0U << (first + length);
      }
    }
  }
  return ranges;
}

}  // namespace

Contents Contents::poison(std::byte pattern) {
  Contents contents;
  contents.kind_ = Kind::poison;
  contents.pattern_ = pattern;
  return contents;
}

Contents Contents::zero() { return {}; }

Contents Contents::bytes(std::span<const std::byte> bytes) {
  Contents contents;
  contents.kind_ = Kind::bytes;
  contents.bytes_ = bytes;
  return contents;
}

Contents Contents::lazy(PageFiller filler) {
  Contents contents;
  contents.kind_ = Kind::lazy;
  contents.filler_ = std::move(filler);
  return contents;
}

struct Memory::State {
  std::vector<std::unique_ptr<MemoryRegion>> regions;  ///< by window; null once freed
  std::map<std::uint64_t, MemoryRegion*> attached;     ///< by address; they have a window too, which stays empty
  struct Freed {
    Buffer buffer;
    std::string name;
  };
  std::map<std::uint64_t, Freed> freed;  ///< by address
  std::uint32_t generation = 0;
  std::map<std::pair<Hash128, std::string>, Buffer, std::less<>> variables;

  [[nodiscard]] MemoryRegion* find(const Buffer& buffer) const {
    return buffer.id < regions.size() && regions[buffer.id] != nullptr && regions[buffer.id]->buffer == buffer
               ? regions[buffer.id].get()
               : nullptr;
  }
};

Memory::Memory() : state_(std::make_unique<State>()) {}
Memory::~Memory() = default;
Memory::Memory(Memory&&) noexcept = default;
Memory& Memory::operator=(Memory&&) noexcept = default;

Result<Buffer> Memory::allocate(std::string name, std::uint64_t bytes, Contents contents, Access access) {
  if (bytes > largest_buffer) {
    return make_error(ErrorKind::resource_exhausted, "buffer \"{}\" of {} bytes is larger than {}", name, bytes,
                      largest_buffer);
  }
  if (contents.kind_ == Contents::Kind::bytes && contents.bytes_.size() > bytes) {
    return make_error(ErrorKind::invalid_argument, "buffer \"{}\" has {} bytes, its contents {}", name, bytes,
                      contents.bytes_.size());
  }
  const bool initialised = contents.kind_ == Contents::Kind::zero || contents.kind_ == Contents::Kind::lazy;
  if (access == Access::read_only && !initialised &&
      (contents.kind_ != Contents::Kind::bytes || contents.bytes_.size() < bytes)) {
    return make_error(ErrorKind::invalid_argument, "buffer \"{}\" is read only and not initialised", name);
  }
  auto region = std::make_unique<MemoryRegion>();
  region->read_only = access == Access::read_only;
  const std::uint32_t id = state_->regions.size();
  region->name = std::move(name);
  region->buffer = {id, global_base + (std::uint64_t{id} << region_shift) + region_margin, bytes};
  STITCH_TRY(region->map());
  if (initialised) region->default_initialised = ~0U;
  if (contents.kind_ == Contents::Kind::lazy) region->filler = std::move(contents.filler_);
  if (contents.kind_ == Contents::Kind::poison) {
    region->filler = [pattern = contents.pattern_](std::uint64_t, std::span<std::byte> page) {
      std::ranges::fill(page, pattern);
    };
  }
  const Buffer buffer = region->buffer;
  state_->regions.push_back(std::move(region));
  if (contents.kind_ == Contents::Kind::bytes) STITCH_TRY(write(buffer.address, contents.bytes_));
  return buffer;
}

Result<Buffer> Memory::attach(std::string name, std::span<std::byte> host) {
  const std::uint64_t address = reinterpret_cast<std::uintptr_t>(host.data());
  const auto next = state_->attached.lower_bound(address);
  const bool meets_next = next != state_->attached.end() && next->first < address + host.size();
  const bool meets_previous = next != state_->attached.begin() && std::prev(next)->second->contains(address, 1);
  if (host.empty() || address + host.size() > global_base || meets_next || meets_previous) {
    return make_error(ErrorKind::invalid_argument, "host memory \"{}\" of {} bytes at 0x{:x} cannot be attached", name,
                      host.size(), address);
  }
  auto region = std::make_unique<MemoryRegion>();
  region->name = std::move(name);
  region->buffer = {static_cast<std::uint32_t>(state_->regions.size()), address, host.size()};
  region->default_initialised = ~0U;
  STITCH_TRY(region->map_shadow(host.data()));
  const Buffer buffer = region->buffer;
  state_->attached.emplace(address, region.get());
  state_->regions.push_back(std::move(region));
  return buffer;
}

Status Memory::free(const Buffer& buffer) {
  MemoryRegion* region = state_->find(buffer);
  if (region == nullptr) return make_error(ErrorKind::not_found, "no buffer at 0x{:x}", buffer.address);
  state_->attached.erase(buffer.address);
  state_->freed.insert_or_assign(buffer.address, State::Freed{buffer, std::move(region->name)});
  state_->regions[buffer.id] = nullptr;
  return {};
}

std::vector<Buffer> Memory::buffers() const {
  std::vector<Buffer> result;
  for (const auto& region : state_->regions) {
    if (region != nullptr) result.push_back(region->buffer);
  }
  return result;
}

std::string_view Memory::name(const Buffer& buffer) const {
  const MemoryRegion* region = state_->find(buffer);
  return region == nullptr ? std::string_view() : std::string_view(region->name);
}

MemoryRegion* Memory::region_at(std::uint64_t address) const {
  if (address < global_base) {
    const auto next = state_->attached.upper_bound(address);
    return next == state_->attached.begin() ? nullptr : std::prev(next)->second;
  }
  const std::uint64_t index = (address - global_base) >> region_shift;
  return address >= global_base && index < state_->regions.size() ? state_->regions[index].get() : nullptr;
}

Status Memory::read(std::uint64_t address, std::span<std::byte> into) const {
  MemoryRegion* region = region_at(address);
  if (region == nullptr || !region->contains(address, into.size())) {
    return make_error(ErrorKind::invalid_argument, "host read of {} bytes at {}", into.size(), describe(address));
  }
  if (into.empty()) return {};
  const std::uint64_t offset = address - region->buffer.address;
  for (std::uint64_t page = offset / page_bytes; page <= (offset + into.size() - 1) / page_bytes; ++page)
    region->prepare(page);
  std::memcpy(into.data(), region->data + offset, into.size());
  return {};
}

Status Memory::write(std::uint64_t address, std::span<const std::byte> from) {
  MemoryRegion* region = region_at(address);
  if (region == nullptr || !region->contains(address, from.size())) {
    return make_error(ErrorKind::invalid_argument, "host write of {} bytes at {}", from.size(), describe(address));
  }
  if (from.empty()) return {};
  const std::uint64_t offset = address - region->buffer.address;
  for (std::uint64_t page = offset / page_bytes; page <= (offset + from.size() - 1) / page_bytes; ++page)
    region->prepare(page);
  std::memcpy(region->data + offset, from.data(), from.size());
  if (region->read_only) return {};
  for_each_sector(*region, offset, from.size(),
                  [region](SectorRecord& record, std::uint32_t mask) { region->initialise(record, mask); });
  return {};
}

Status Memory::copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  std::vector<std::byte> held(bytes);
  STITCH_TRY(read(from, held));
  std::vector<bool> unknown;
  const MemoryRegion* source = region_at(from);
  if (bytes > 0 && !source->read_only) {
    std::uint64_t at = 0;
    for_each_sector(*source, from - source->buffer.address, bytes, [&](const SectorRecord& record, std::uint32_t mask) {
      const std::uint32_t missing = mask & ~source->initialised(record);
      if (missing != 0 && unknown.empty()) unknown.resize(bytes);
      for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1, ++at) {
        if ((missing & rest & -rest) != 0) unknown[at] = true;
      }
    });
  }
  STITCH_TRY(write(to, held));
  MemoryRegion* target = region_at(to);
  if (unknown.empty() || target->read_only) return {};
  std::uint64_t at = 0;
  for_each_sector(*target, to - target->buffer.address, bytes, [&](SectorRecord& record, std::uint32_t mask) {
    for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1, ++at) {
      if (unknown[at]) target->forget(record, rest & -rest);
    }
  });
  return {};
}

bool Memory::is_initialised(const Buffer& buffer, ByteRange range) const {
  const MemoryRegion* region = state_->find(buffer);
  if (region == nullptr || !region->contains(buffer.address + range.offset, range.bytes)) return false;
  if (region->read_only) return true;
  bool all = true;
  for_each_sector(*region, range.offset, range.bytes, [&](const SectorRecord& record, std::uint32_t mask) {
    all &= (region->initialised(record) & mask) == mask;
  });
  return all;
}

std::vector<ByteRange> Memory::written_ranges(const Buffer& buffer) const {
  return ranges_of(state_->find(buffer), state_->generation, [](const SectorRecord& record) { return record.written; });
}

std::vector<ByteRange> Memory::read_ranges(const Buffer& buffer) const {
  return ranges_of(state_->find(buffer), state_->generation,
                   [](const SectorRecord& record) { return record.read[0] | record.read[1]; });
}

std::string Memory::describe(std::uint64_t address) const {
  const MemoryRegion* nearest = nullptr;
  std::uint64_t distance = ~std::uint64_t{0};
  for (const auto& region : state_->regions) {
    if (region == nullptr) continue;
    const Buffer& buffer = region->buffer;
    const std::uint64_t end = buffer.address + buffer.bytes;
    const std::uint64_t gap = address < buffer.address ? buffer.address - address : address < end ? 0 : address - end;
    if (gap < distance || nearest == nullptr) {
      nearest = region.get();
      distance = gap;
    }
  }
  const auto later = state_->freed.upper_bound(address);
  if (later != state_->freed.begin() && (nearest == nullptr || distance != 0)) {
    const auto& [buffer, name] = std::prev(later)->second;
    if (address - buffer.address < buffer.bytes) {
      return fmt::format("offset {} of buffer \"{}\" ({} bytes), which was freed", address - buffer.address, name,
                         buffer.bytes);
    }
  }
  constexpr std::uint64_t related = std::uint64_t{1} << 40;
  if (nearest == nullptr || distance > related) return fmt::format("address 0x{:x}, near no buffer", address);
  const Buffer& buffer = nearest->buffer;
  if (address < buffer.address) {
    return fmt::format("{} bytes before the start of buffer \"{}\" ({} bytes)", distance, nearest->name, buffer.bytes);
  }
  if (address >= buffer.address + buffer.bytes) {
    return fmt::format("{} bytes past the end of buffer \"{}\" ({} bytes)", distance, nearest->name, buffer.bytes);
  }
  return fmt::format("offset {} of buffer \"{}\" ({} bytes)", address - buffer.address, nearest->name, buffer.bytes);
}

std::uint32_t Memory::begin_launch() {
  constexpr std::uint32_t generations = 1U << 24;
  for (const auto& region : state_->regions) {
    if (region == nullptr) continue;
    region->split_records.clear();
    // Old stamps would seem current once the counter has come round.
    if (state_->generation + 1 >= generations) {
      const std::uint64_t pages = region->page_count();
      std::fill_n(region->page_stamp, pages, 0);
      for (std::uint64_t i = 0; i * MemoryRegion::pages_per_group < pages; ++i) region->group_stamp[i] = 0;
      for (std::uint64_t i = 0; !region->read_only && i < pages * sectors_per_page; ++i) region->sectors[i].stamp = 0;
    }
  }
  state_->generation = state_->generation + 1 >= generations ? 1 : state_->generation + 1;
  return state_->generation;
}

const Buffer* Memory::module_variable(const Hash128& module, std::string_view name) const {
  const auto found = state_->variables.find(std::pair(module, std::string(name)));
  return found == state_->variables.end() ? nullptr : &found->second;
}

void Memory::keep_module_variable(const Hash128& module, std::string_view name, const Buffer& buffer) {
  state_->variables.insert_or_assign(std::pair(module, std::string(name)), buffer);
}

}  // namespace stitch::emulator
