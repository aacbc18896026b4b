#include <algorithm>

#include "emulator/run/interpreter.h"

namespace stitch::emulator {
namespace {

/// Lane-major bytes to rows of one register width and back: element j of a lane's access belongs to row j.
template <class Element, class Register>
void spread(const std::byte* staging, Register* to, std::uint32_t j, std::uint32_t stride, std::uint32_t lanes,
            bool full) {
  const auto* from = reinterpret_cast<const Element*>(staging) + j;
  if (full) {
    for (std::uint32_t lane = 0; lane < 32; ++lane) to[lane] = from[lane * stride];
    return;
  }
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) != 0) to[lane] = from[lane * stride];
  }
}

template <class Element>
void spread_to(Width width, const std::byte* staging, std::byte* row, std::uint32_t j, std::uint32_t stride,
               std::uint32_t lanes, bool full) {
  switch (width) {
    case Width::b16: spread<Element>(staging, reinterpret_cast<std::int16_t*>(row), j, stride, lanes, full); break;
    case Width::b32: spread<Element>(staging, reinterpret_cast<std::int32_t*>(row), j, stride, lanes, full); break;
    case Width::b64: spread<Element>(staging, reinterpret_cast<std::int64_t*>(row), j, stride, lanes, full); break;
    default: break;
  }
}

template <class Element, class Register>
void collect(std::byte* staging, const Register* from, std::uint32_t j, std::uint32_t stride) {
  auto* to = reinterpret_cast<Element*>(staging) + j;
  for (std::uint32_t lane = 0; lane < 32; ++lane) to[lane * stride] = from[lane];
}

template <class Element>
void collect_from(Width width, std::byte* staging, const std::byte* row, std::uint32_t j, std::uint32_t stride) {
  switch (width) {
    case Width::b16: collect<Element>(staging, reinterpret_cast<const std::uint16_t*>(row), j, stride); break;
    case Width::b32: collect<Element>(staging, reinterpret_cast<const std::uint32_t*>(row), j, stride); break;
    case Width::b64: collect<Element>(staging, reinterpret_cast<const std::uint64_t*>(row), j, stride); break;
    default: break;
  }
}

struct Wide {
  std::uint64_t low;
  std::uint64_t high;
};

}  // namespace

void Interpreter::move_to_registers(const Instruction& in, const MemoryAccess& access, std::uint32_t lanes) {
  const bool whole = full(lanes);
  const std::uint32_t n = access.elements;
  for (std::uint32_t j = 0; j < n; ++j) {
    std::byte* to = row(code_.lists[in.list + j]);
    switch (access.element_bytes) {
      case 1:
        if (access.sign_extend) {
          spread_to<std::int8_t>(access.register_width, staging_.data(), to, j, n, lanes, whole);
        } else {
          spread_to<std::uint8_t>(access.register_width, staging_.data(), to, j, n, lanes, whole);
        }
        break;
      case 2:
        if (access.sign_extend) {
          spread_to<std::int16_t>(access.register_width, staging_.data(), to, j, n, lanes, whole);
        } else {
          spread_to<std::uint16_t>(access.register_width, staging_.data(), to, j, n, lanes, whole);
        }
        break;
      case 4:
        if (access.sign_extend) {
          spread_to<std::int32_t>(access.register_width, staging_.data(), to, j, n, lanes, whole);
        } else {
          spread_to<std::uint32_t>(access.register_width, staging_.data(), to, j, n, lanes, whole);
        }
        break;
      case 8: spread_to<std::uint64_t>(access.register_width, staging_.data(), to, j, n, lanes, whole); break;
      default:
        for (std::uint32_t lane = 0; lane < 32; ++lane) {
          if (((lanes >> lane) & 1) == 0) continue;
          reinterpret_cast<Wide*>(to)[lane] = reinterpret_cast<const Wide*>(staging_.data())[lane * n + j];
        }
    }
  }
}

void Interpreter::move_to_staging(const Instruction& in, const MemoryAccess& access) {
  const std::uint32_t n = access.elements;
  for (std::uint32_t j = 0; j < n; ++j) {
    const std::byte* from = row(code_.lists[in.list + j]);
    switch (access.element_bytes) {
      case 1: collect_from<std::uint8_t>(access.register_width, staging_.data(), from, j, n); break;
      case 2: collect_from<std::uint16_t>(access.register_width, staging_.data(), from, j, n); break;
      case 4: collect_from<std::uint32_t>(access.register_width, staging_.data(), from, j, n); break;
      case 8: collect_from<std::uint64_t>(access.register_width, staging_.data(), from, j, n); break;
      default:
        for (std::uint32_t lane = 0; lane < 32; ++lane) {
          reinterpret_cast<Wide*>(staging_.data())[lane * n + j] = reinterpret_cast<const Wide*>(from)[lane];
        }
    }
  }
}

/// [base + immediate]; form says how wide the base is: 0 (none), 4 or 8 bytes.
void Interpreter::gather_addresses(const Instruction& in, Addresses& addresses) const {
  if (in.form == 8) {
    const auto* base = row_of<std::uint64_t>(in.a);
    for (std::size_t lane = 0; lane < 32; ++lane) addresses.at[lane] = base[lane] + in.immediate;
  } else if (in.form == 4) {
    const auto* base = row_of<std::uint32_t>(in.a);
    for (std::size_t lane = 0; lane < 32; ++lane) {
      addresses.at[lane] = static_cast<std::uint32_t>(base[lane] + static_cast<std::uint32_t>(in.immediate));
    }
  } else {
    addresses.at.fill(in.immediate);
  }
}

/// Reports misaligned lanes and returns the others.
std::uint32_t Interpreter::drop_misaligned(const Addresses& addresses, std::uint32_t lanes, std::uint32_t bytes) {
  std::uint64_t any = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) any |= addresses.at[lane];
  if ((any & (bytes - 1)) == 0) return lanes;
  any = 0;  // lanes that do not take part may hold anything
  for (std::uint32_t lane = 0; lane < 32; ++lane) any |= ((lanes >> lane) & 1) != 0 ? addresses.at[lane] : 0;
  if ((any & (bytes - 1)) == 0) return lanes;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0 || (addresses.at[lane] & (bytes - 1)) == 0) continue;
    report(Detector::misaligned, lane, [&] {
      const std::uint64_t address = addresses.at[lane];
      const std::string where =
          address >= global_base ? context_.memory->describe(address) : fmt::format("address 0x{:x}", address);
      return fmt::format("{}-byte access at {}, {} bytes off its alignment", bytes, where, address & (bytes - 1));
    });
    std::memset(staging_.data() + std::size_t{lane} * bytes, 0xCD, bytes);
    lanes &= ~(1U << lane);
  }
  return lanes;
}

void Interpreter::load_space(Space space, const MemoryAccess& access, const Addresses& addresses, std::uint32_t lanes) {
  switch (space) {
    case Space::global: access_global(access, addresses, lanes, Touch::read, true); break;
    case Space::constant: access_global(access, addresses, lanes, Touch::read, false); break;
    case Space::shared: access_shared(access, addresses, lanes, Touch::read, false); break;
    case Space::shared_cluster: access_shared(access, addresses, lanes, Touch::read, true); break;
    case Space::local: access_local(access, addresses, lanes, Touch::read, true); break;
    case Space::frame: access_local(access, addresses, lanes, Touch::read, false); break;
    case Space::parameter: access_parameters(access, addresses, lanes); break;
    case Space::generic: break;
  }
}

void Interpreter::store_space(Space space, const MemoryAccess& access, const Addresses& addresses,
                              std::uint32_t lanes) {
  switch (space) {
    case Space::global: access_global(access, addresses, lanes, Touch::write, true); break;
    case Space::shared: access_shared(access, addresses, lanes, Touch::write, false); break;
    case Space::shared_cluster: access_shared(access, addresses, lanes, Touch::write, true); break;
    case Space::local: access_local(access, addresses, lanes, Touch::write, true); break;
    case Space::frame: access_local(access, addresses, lanes, Touch::write, false); break;
    case Space::constant:
    case Space::parameter:
      report(Detector::out_of_bounds, std::countr_zero(lanes),
             [] { return std::string("store to a read-only space"); });
      break;
    case Space::generic: break;
  }
}

/// A kernel parameter at a fixed place: the same for every lane.
bool Interpreter::load_parameter(const Instruction& in, const MemoryAccess& access, std::uint32_t lanes) {
  const std::uint64_t at = in.immediate;
  const std::size_t width = access.element_bytes;
  if (at + access.bytes() > context_.parameters.size() || at % access.bytes() != 0 || access.sign_extend ||
      (width != 4 && width != 8) || row_bytes(access.register_width) != width * 32)
    return false;
  for (std::uint32_t j = 0; j < access.elements; ++j) {
    const std::byte* value = context_.parameters.data() + at + j * width;
    const Slot to = code_.lists[in.list + j];
    if (width == 4) {
      std::array<std::uint32_t, 32> values;
      std::uint32_t word = 0;
      std::memcpy(&word, value, sizeof(word));
      values.fill(word);
      set_row(to, lanes, values.data());
    } else {
      std::array<std::uint64_t, 32> values;
      std::uint64_t word = 0;
      std::memcpy(&word, value, sizeof(word));
      values.fill(word);
      set_row(to, lanes, values.data());
    }
  }
  return true;
}

Interpreter::Step Interpreter::load(const Instruction& in, std::uint32_t lanes) {
  const MemoryAccess& access = code_.accesses[in.detail];
  if (access.space == Space::parameter && in.form == 0 && load_parameter(in, access, lanes)) return Step::next;
  Addresses addresses;
  gather_addresses(in, addresses);
  const std::uint32_t usable = drop_misaligned(addresses, lanes, access.bytes());
  if (access.space == Space::generic) {
    for_each_space(addresses, usable, [&](Space space, const Addresses& within, std::uint32_t together) {
      load_space(space, access, within, together);
    });
  } else if (usable != 0) {
    load_space(access.space, access, addresses, usable);
  }
  move_to_registers(in, access, lanes);
  if (!access.strong()) return Step::next;
  std::uint64_t fingerprint = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    std::uint64_t value = 0;
    std::memcpy(&value, staging_.data() + std::size_t{lane} * access.bytes(), std::min<std::size_t>(access.bytes(), 8));
    fingerprint = mix(mix(fingerprint, addresses.at[lane]), value);
  }
  if (is_polling(fingerprint)) {
    warp_->poll.of_host = reads_host(access.space, addresses, usable);
    return Step::poll;
  }
  // Whoever passes a barrier of the grid lets the others pass it too before going on: were one to run ahead and arrive
  // at the next, the others would see that arrival at once, and its order would hide what they should have waited for.
  const bool from_other_units = access.scope == Scope::device || access.scope == Scope::system;
  // Larger grids than any GPU holds at once have no such barrier (blocks may wait for earlier ones only), and all of
  // them suspended would take much memory.
  constexpr std::size_t most_resident = 8192;
  const std::size_t blocks = context_.blocks.size();
  if (!acquires(access.semantics) || !from_other_units || blocks == unit_->blocks.size() || blocks > most_resident)
    return Step::next;
  unit_->yields = true;
  return Step::poll;
}

Interpreter::Step Interpreter::store(const Instruction& in, std::uint32_t lanes) {
  const MemoryAccess& access = code_.accesses[in.detail];
  Addresses addresses;
  gather_addresses(in, addresses);
  const std::uint32_t usable = drop_misaligned(addresses, lanes, access.bytes());
  move_to_staging(in, access);
  if (access.space == Space::generic) {
    for_each_space(addresses, usable, [&](Space space, const Addresses& within, std::uint32_t together) {
      store_space(space, access, within, together);
    });
  } else if (usable != 0) {
    store_space(access.space, access, addresses, usable);
  }
  return Step::next;
}

/// Whether a split looks at the same values as the last time it was at this instruction.
bool Interpreter::is_polling(std::uint64_t fingerprint) {
  fingerprint = mix(fingerprint, active_);
  Warp::Poll& poll = warp_->poll;
  poll.unchanged = poll.pc == pc_ && poll.fingerprint == fingerprint;
  if (!poll.unchanged) {
    poll.pc = pc_;
    poll.fingerprint = fingerprint;
    poll.of_host = false;
    ++unit_->events;
  }
  return poll.unchanged;
}

bool Interpreter::reads_host(Space space, const Addresses& addresses, std::uint32_t lanes) const {
  if (space != Space::generic && space != Space::global) return false;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    const std::uint64_t address = addresses.at[lane];
    if (address < global_base && context_.memory->region_at(address) != nullptr) return true;
  }
  return false;
}

void Interpreter::access_parameters(const MemoryAccess& access, const Addresses& addresses, std::uint32_t lanes) {
  const std::uint32_t bytes = access.bytes();
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    const std::uint64_t at = addresses.at[lane];
    std::byte* to = staging_.data() + std::size_t{lane} * bytes;
    if (at > context_.parameters.size() || bytes > context_.parameters.size() - at) {
      report(Detector::out_of_bounds, lane, [&] {
        return fmt::format("{} bytes at offset {} of {} bytes of parameters", bytes, at, context_.parameters.size());
      });
      std::memset(to, 0xCD, bytes);
      continue;
    }
    std::memcpy(to, context_.parameters.data() + at, bytes);
  }
}

void Interpreter::access_local(const MemoryAccess& access, const Addresses& addresses, std::uint32_t lanes, Touch touch,
                               bool counted) {
  const std::uint32_t bytes = access.bytes();
  const std::uint64_t count = std::popcount(lanes);
  if (counted) (touch == Touch::read ? counters_.local_load_lanes : counters_.local_store_lanes) += count;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    const std::uint64_t at = addresses.at[lane];
    std::byte* staged = staging_.data() + std::size_t{lane} * bytes;
    if (at > code_.local_bytes || bytes > code_.local_bytes - at) {
      report(Detector::out_of_bounds, lane, [&] {
        return fmt::format("{} bytes at offset {} of {} bytes of local memory", bytes, at, code_.local_bytes);
      });
      if (touch == Touch::read) std::memset(staged, 0xCD, bytes);
      continue;
    }
    const std::size_t index = std::size_t{lane} * code_.local_bytes + at;
    if (touch == Touch::write) {
      std::memcpy(warp_->local + index, staged, bytes);
      std::memset(warp_->local_written + index, 1, bytes);
      continue;
    }
    std::memcpy(staged, warp_->local + index, bytes);
    if (std::find(warp_->local_written + index, warp_->local_written + index + bytes, 0) ==
        warp_->local_written + index + bytes)
      continue;
    report(Detector::uninitialised_read, lane,
           [&] { return fmt::format("{} bytes at offset {} of local memory, not all written", bytes, at); });
  }
}

}  // namespace stitch::emulator
