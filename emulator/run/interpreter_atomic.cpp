#include <algorithm>
#include <bit>
#include <cmath>

#include "emulator/lanes/float_format.h"
#include "emulator/run/interpreter.h"

namespace stitch::emulator {
namespace {

template <class T>
T load_as(const std::byte* from) {
  T value{};
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <class T>
T combine_integer(AtomicOperation operation, T old, T value) {
  using U = std::make_unsigned_t<T>;
  switch (operation) {
    case AtomicOperation::add: return static_cast<T>(static_cast<U>(old) + static_cast<U>(value));
    case AtomicOperation::min: return std::min(old, value);
    case AtomicOperation::max: return std::max(old, value);
    case AtomicOperation::bit_and: return static_cast<T>(old & value);
    case AtomicOperation::bit_or: return static_cast<T>(old | value);
    case AtomicOperation::bit_xor: return static_cast<T>(old ^ value);
    case AtomicOperation::increment: return old >= value ? T{0} : static_cast<T>(old + 1);
    case AtomicOperation::decrement: return old == 0 || old > value ? value : static_cast<T>(old - 1);
    case AtomicOperation::exchange:
    case AtomicOperation::compare_swap: return value;
  }
  return value;
}

float flushed(float value) { return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value; }

template <class T>
T combine_float(AtomicOperation operation, T old, T value) {
  switch (operation) {
    case AtomicOperation::min: return smaller(old, value);
    case AtomicOperation::max: return larger(old, value);
    default: return canonical(old + value);
  }
}

std::uint16_t combine_half(AtomicType type, AtomicOperation operation, std::uint16_t old, std::uint16_t value) {
  const bool brain = type == AtomicType::bf16 || type == AtomicType::bf16x2;
  const float a = brain ? bfloat_to_float(old) : half_to_float(old);
  const float b = brain ? bfloat_to_float(value) : half_to_float(value);
  const float result = combine_float(operation, a, b);
  return brain ? float_to_bfloat(result) : float_to_half(result);
}

}  // namespace

void combine_element(AtomicType type, AtomicOperation operation, bool flush, std::byte* memory,
                     const std::byte* value) {
  const auto put = [memory](auto result) { std::memcpy(memory, &result, sizeof(result)); };
  if (operation == AtomicOperation::exchange) {
    constexpr std::size_t sizes[] = {4, 4, 8, 8, 4, 8, 2, 2, 4, 4, 2, 4, 8, 16};
    std::memcpy(memory, value, sizes[static_cast<int>(type)]);
    return;
  }
  switch (type) {
    case AtomicType::u32:
    case AtomicType::b32:
      put(combine_integer(operation, load_as<std::uint32_t>(memory), load_as<std::uint32_t>(value)));
      break;
    case AtomicType::s32:
      put(combine_integer(operation, load_as<std::int32_t>(memory), load_as<std::int32_t>(value)));
      break;
    case AtomicType::u64:
    case AtomicType::b64:
      put(combine_integer(operation, load_as<std::uint64_t>(memory), load_as<std::uint64_t>(value)));
      break;
    case AtomicType::s64:
      put(combine_integer(operation, load_as<std::int64_t>(memory), load_as<std::int64_t>(value)));
      break;
    case AtomicType::f32: {
      const float old = load_as<float>(memory);
      const float with = load_as<float>(value);
      put(flush ? flushed(combine_float(operation, flushed(old), flushed(with))) : combine_float(operation, old, with));
      break;
    }
    case AtomicType::f64: put(combine_float(operation, load_as<double>(memory), load_as<double>(value))); break;
    case AtomicType::f16:
    case AtomicType::bf16:
      put(combine_half(type, operation, load_as<std::uint16_t>(memory), load_as<std::uint16_t>(value)));
      break;
    case AtomicType::f16x2:
    case AtomicType::bf16x2:
      for (std::size_t i = 0; i < 4; i += 2) {
        const std::uint16_t half =
            combine_half(type, operation, load_as<std::uint16_t>(memory + i), load_as<std::uint16_t>(value + i));
        std::memcpy(memory + i, &half, sizeof(half));
      }
      break;
    case AtomicType::b16: put(load_as<std::uint16_t>(value)); break;
    case AtomicType::b128: std::memcpy(memory, value, 16); break;
  }
}

/// Applies one lane's operation to `memory`: list holds the result rows (if any), then the value rows; b the
/// replacement of a compare-and-swap. Whether memory changed.
bool Interpreter::update_memory(std::byte* memory, const Instruction& in, const AtomicAccess& access,
                                std::uint32_t lane, bool global) {
  const std::size_t width = access.element_bytes;
  const std::size_t bytes = width * access.elements;
  std::array<std::byte, 32> old{};
  std::array<std::byte, 32> values{};
  std::memcpy(old.data(), memory, bytes);
  const std::uint32_t first_value = access.returns ? access.elements : 0;
  for (std::uint32_t j = 0; j < access.elements; ++j) {
    std::memcpy(values.data() + j * width, row(code_.lists[in.list + first_value + j]) + lane * width, width);
  }
  if (access.operation == AtomicOperation::compare_swap) {
    if (std::memcmp(memory, values.data(), width) == 0) std::memcpy(memory, row(in.b) + lane * width, width);
  } else {
    // Additions of f32 in global memory flush subnormals, those in shared memory do not (PTX ISA, atom).
    const bool flush = global && access.type == AtomicType::f32 && access.operation == AtomicOperation::add;
    for (std::size_t j = 0; j < access.elements; ++j) {
      combine_element(access.type, access.operation, flush, memory + j * width, values.data() + j * width);
    }
  }
  if (access.returns) {
    for (std::uint32_t j = 0; j < access.elements; ++j) {
      std::memcpy(row(code_.lists[in.list + j]) + lane * width, old.data() + j * width, width);
    }
  }
  return std::memcmp(memory, old.data(), bytes) != 0;
}

Interpreter::Step Interpreter::atomic(const Instruction& in, std::uint32_t lanes) {
  const AtomicAccess& access = code_.atomics[in.detail];
  Addresses addresses;
  gather_addresses(in, addresses);
  const std::uint32_t bytes = std::uint32_t{access.element_bytes} * access.elements;
  const std::uint32_t usable = drop_misaligned(addresses, lanes, bytes);
  const std::uint64_t events = unit_->events;
  const auto run = [&](Space space, const Addresses& within, std::uint32_t together) {
    switch (space) {
      case Space::global: atomic_global(in, access, within, together); break;
      case Space::shared: atomic_shared(in, access, within, together, false); break;
      case Space::shared_cluster: atomic_shared(in, access, within, together, true); break;
      default:
        report(Detector::out_of_bounds, std::countr_zero(together),
               [] { return std::string("atomic on local or parameter memory"); });
    }
  };
  if (access.space == Space::generic) {
    for_each_space(addresses, usable, run);
  } else if (usable != 0) {
    run(access.space, addresses, usable);
  }
  if (unit_->events != events || !access.returns) return Step::next;
  // Nothing changed, and the same was seen before: a lock that is taken, a counter that is looked at.
  std::uint64_t fingerprint = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    std::uint64_t old = 0;
    std::memcpy(&old, row(code_.lists[in.list]) + lane * access.element_bytes,
                std::min<std::size_t>(access.element_bytes, 8));
    fingerprint = mix(mix(fingerprint, addresses.at[lane]), old);
  }
  if (!is_polling(fingerprint)) return Step::next;
  warp_->poll.of_host = reads_host(access.space, addresses, usable);
  return Step::poll;
}

void Interpreter::atomic_global(const Instruction& in, const AtomicAccess& access, const Addresses& addresses,
                                std::uint32_t lanes) {
  const std::uint32_t bytes = std::uint32_t{access.element_bytes} * access.elements;
  const GlobalAccessor who = global_accessor(true, false);
  // Sums of floats are no synchronisation, and there may be very many of them.
  const bool orders = access.type != AtomicType::f32 && access.type != AtomicType::f64 &&
                      access.type != AtomicType::f16 && access.type != AtomicType::bf16 &&
                      access.type != AtomicType::f16x2 && access.type != AtomicType::bf16x2;
  if (acquires(access.semantics)) acquired(access.scope);
  counters_.global_atomics += std::popcount(lanes);
  counters_.global_atomic_sectors += count_sectors(addresses, lanes, bytes);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    const std::uint64_t address = addresses.at[lane];
    MemoryRegion* region = region_of(address, bytes, lane, Touch::update, "atomic");
    if (region == nullptr) {
      for (std::uint32_t j = 0; access.returns && j < access.elements; ++j) {
        std::memset(row(code_.lists[in.list + j]) + lane * access.element_bytes, 0xCD, access.element_bytes);
      }
      continue;
    }
    const std::uint64_t offset = address - region->buffer.address;
    const std::uint64_t page = offset / Memory::page_bytes;
    GlobalOutcome outcome;
    bool changed = false;
    {
      SpinLock& lock = region->lock_of(page);
      if (!context_.single_threaded) lock.lock();
      region->touch(page, context_.generation);
      check_global_read(*region, offset, bytes, who, outcome);
      check_global_write(*region, offset, bytes, who, outcome);
      // The order is taken over in the same step as the value.
      if (orders && context_.times_matter)
        order_global(address, access.semantics, access.scope, access.returns, true, false);
      changed = update_memory(region->data + offset, in, access, lane, true);
      if (!context_.single_threaded) lock.unlock();
    }
    if (changed) {
      ++unit_->events;
      ++unit_->global_events;
    }
    BufferTraffic& traffic = traffic_of(*region);
    counters_.global_loads.unique_sectors += outcome.new_read_sectors;
    counters_.global_stores.unique_sectors += outcome.new_written_sectors;
    traffic.loads.unique_sectors += outcome.new_read_sectors;
    traffic.stores.unique_sectors += outcome.new_written_sectors;
    if (outcome.faults != 0) report_global(outcome, *region, lane, Touch::update);
  }
}

/// Hands knowledge on through a synchronisation variable in global memory.
void Interpreter::order_global(std::uint64_t address, Semantics semantics, Scope scope, bool reads, bool writes,
                               bool replaces) {
  if (!context_.times_matter) return;
  UnitClock& clock = *unit_->clock;
  context_.sync.with(address, writes, [&](SyncLocation& location) {
    if (reads) clock.acquire_from(location, warp_->agent, semantics, scope);
    if (writes) clock.release_to(location, warp_->agent, semantics, scope, replaces);
  });
}

void Interpreter::atomic_shared(const Instruction& in, const AtomicAccess& access, const Addresses& addresses,
                                std::uint32_t lanes, bool cluster) {
  const std::uint32_t bytes = std::uint32_t{access.element_bytes} * access.elements;
  counters_.shared_atomics += std::popcount(lanes);
  Block* remote = nullptr;
  SharedTarget target;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    if (!shared_target(addresses.at[lane], bytes, cluster, lane, target)) continue;
    if (target.block != block_ && target.block != remote) {
      remote = target.block;
      note_remote(*target.block);
      ++counters_.distributed_shared_requests;
    }
    const SharedAccessor who = shared_accessor(*target.block, lane, true);
    SharedMemory& shared = target.block->shared;
    SharedOutcome outcome = shared.read(target.offset, bytes, who);
    if (outcome.fault == SharedFault::none) outcome = shared.write(target.offset, bytes, who);
    if (outcome.fault != SharedFault::none) report_shared(outcome, lane, true);
    order_shared(target, access.semantics, access.returns, true);
    if (update_memory(shared.data() + target.offset, in, access, lane, false)) ++unit_->events;
  }
}

}  // namespace stitch::emulator
