#include <algorithm>
#include <cstring>

#include "emulator/run/interpreter.h"
#include "emulator/tensor_map.h"

/// Copies of tiles by tensor maps (cp.async.bulk.tensor), and instructions that make such maps.
namespace stitch::emulator {

/// A box's rows: runs along the contiguous dimension, of which a part lies inside the tensor.
struct Interpreter::TensorBox {
  const TensorMap& map;
  std::array<std::int64_t, TensorMap::most_dimensions> corner{};

  [[nodiscard]] std::uint32_t rows() const {
    std::uint32_t product = 1;
    for (std::uint32_t d = 1; d < map.rank; ++d) product *= map.moved(d);
    return product;
  }

  struct Run {
    std::uint32_t box_offset = 0;  ///< bytes from the box's begin, not swizzled
    std::uint64_t address = 0;     ///< in global memory
    std::uint32_t bytes = 0;       ///< 0: all of it is outside
  };

  /// Calls use(run) for what lies inside the tensor of row `index`: one run, or with element strides one an element.
  template <class F>
  void for_runs(std::uint32_t index, F&& use) const {
    const std::uint32_t size = element_bytes(map.type);
    const std::uint32_t row_bytes = map.moved(0) * size;
    std::uint64_t base = map.address;
    std::uint32_t rest = index;
    for (std::uint32_t d = 1; d < map.rank; ++d) {
      const std::int64_t at = corner[d] + std::int64_t{rest % map.moved(d)} * map.element_strides[d];
      rest /= map.moved(d);
      if (at < 0 || at >= static_cast<std::int64_t>(map.sizes[d])) return;
      base += static_cast<std::uint64_t>(at) * map.strides[d];
    }
    const std::int64_t step = map.element_strides[0];
    const auto width = static_cast<std::int64_t>(map.sizes[0]);
    // Elements [first, last) of the row are inside.
    const std::int64_t first = corner[0] >= 0 ? 0 : (-corner[0] + step - 1) / step;
    const std::int64_t reach = width - corner[0];
    const std::int64_t last = std::min<std::int64_t>(map.moved(0), reach <= 0 ? 0 : (reach + step - 1) / step);
    if (first >= last) return;
    const auto run = [&](std::int64_t from, std::int64_t count) {
      use(Run{static_cast<std::uint32_t>(index * row_bytes + from * size),
              base + static_cast<std::uint64_t>((corner[0] + from * step) * size),
              static_cast<std::uint32_t>(count * size)});
    };
    if (step == 1) {
      run(first, last - first);
      return;
    }
    for (std::int64_t i = first; i < last; ++i) run(i, 1);
  }
};

/// The 128 bytes at a generic address, read as the lane's; false after a finding.
bool Interpreter::read_tensor_map(std::uint64_t address, std::uint32_t lane, TensorMap& map) {
  std::array<std::byte, TensorMap::bytes> bytes{};
  if (address % 64 != 0 && address >= global_base) {
    report(Detector::misaligned, lane,
           [&] { return fmt::format("a tensor map at {}, no multiple of 64", context_.memory->describe(address)); });
    return false;
  }
  if (const std::uint64_t within = address - parameter_window; within < window_bytes) {
    if (within + bytes.size() > context_.parameters.size()) {
      report(Detector::out_of_bounds, lane, [&] {
        return fmt::format("a tensor map at offset {} of {} bytes of parameters", within, context_.parameters.size());
      });
      return false;
    }
    std::memcpy(bytes.data(), context_.parameters.data() + within, bytes.size());
  } else {
    MemoryRegion* region = region_of(address, bytes.size(), lane, Touch::read, "read of a tensor map");
    if (region == nullptr) return false;
    MemoryAccess access;
    global_run(*region, address, bytes.size(), 0, Touch::read, access);
    std::memcpy(bytes.data(), staging_.data(), bytes.size());
  }
  map = decode_tensor_map(bytes);
  const Status sound = check(map);
  if (!sound) report(Detector::invalid_use, lane, [&] { return "tensor map: " + sound.error().message; });
  return sound.ok();
}

/// a = place in shared memory, b = tensor map, e = mbarrier, list = block mask of a multicast, coordinates.
Interpreter::Step Interpreter::tensor_copy(const Instruction& in, std::uint32_t lanes) {
  const BulkAccess& access = code_.bulks[in.detail];
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    TensorMap map;
    if (!read_tensor_map(row_of<std::uint64_t>(in.b)[lane], lane, map)) continue;
    if (map.rank != access.tensor_rank) {
      report(Detector::invalid_use, lane, [&] {
        return fmt::format("a tensor copy of {} dimensions with a map of {}", access.tensor_rank, map.rank);
      });
      continue;
    }
    TensorBox box{map};
    for (std::uint32_t d = 0; d < map.rank; ++d) {
      box.corner[d] = row_of<std::int32_t>(code_.lists[in.list + 1 + d])[lane];
    }
    const std::uint64_t shared = row_of<std::uint64_t>(in.a)[lane];
    if (shared % 128 != 0) {
      report(Detector::misaligned, lane,
             [&] { return fmt::format("a tensor copy at shared address 0x{:x}, no multiple of 128", shared); });
      continue;
    }
    counters_.bulk_copy_bytes += map.box_bytes();
    if (access.kind == BulkKind::global_to_shared) {
      load_box(in, box, shared, lane);
    } else {
      store_box(in, box, shared, lane);
    }
  }
  ++unit_->events;
  return Step::next;
}

namespace {

/// What elements outside the tensor read as.
void fill_outside(const TensorMap& map, std::vector<std::byte>& data) {
  if (!map.fills_nan) return;
  const auto fill = [&data](auto pattern) {
    for (std::size_t i = 0; i < data.size(); i += sizeof(pattern))
      std::memcpy(data.data() + i, &pattern, sizeof(pattern));
  };
  switch (map.type) {
    case TensorMapType::f16: fill(std::uint16_t{0x7FFF}); break;
    case TensorMapType::bf16: fill(std::uint16_t{0x7FFF}); break;
    case TensorMapType::f64: fill(std::uint64_t{0x7FFFFFFFFFFFFFFF}); break;
    case TensorMapType::f32:
    case TensorMapType::f32_ftz:
    case TensorMapType::tf32:
    case TensorMapType::tf32_ftz: fill(std::uint32_t{0x7FFFFFFF}); break;
    default: break;
  }
}

}  // namespace

void Interpreter::load_box(const Instruction& in, const TensorBox& box, std::uint64_t shared, std::uint32_t lane) {
  const TensorMap& map = box.map;
  std::vector<std::byte> dense(map.box_bytes());
  fill_outside(map, dense);
  bool sound = true;
  for (std::uint32_t row = 0; row < box.rows() && sound; ++row) {
    box.for_runs(row, [&](const TensorBox::Run& run) {
      std::vector<std::byte> data;
      sound = sound && read_run_for_bulk(run.address, run.bytes, lane, data, row == 0);
      if (sound) std::memcpy(dense.data() + run.box_offset, data.data(), run.bytes);
    });
  }
  if (!sound) return;
  SharedTarget target;
  if (!shared_target(shared, dense.size(), true, lane, target)) return;
  PendingBulk copy;
  copy.detail = in.detail;
  copy.instruction = pc_;
  copy.lane = lane;
  copy.data.resize(dense.size());
  for (std::uint32_t at = 0; at < dense.size(); at += 16) {
    std::memcpy(copy.data.data() + swizzled(map.swizzle, target.offset, at), dense.data() + at, 16);
  }
  send_to_shared(in, code_.bulks[in.detail], std::move(copy), target, lane);
}

void Interpreter::store_box(const Instruction& in, const TensorBox& box, std::uint64_t shared, std::uint32_t lane) {
  const TensorMap& map = box.map;
  const BulkAccess& access = code_.bulks[in.detail];
  std::vector<std::byte> data;
  const std::uint32_t bytes = map.box_bytes();
  if (!read_for_bulk(Space::shared, shared, bytes, lane, data)) return;
  SharedTarget source;
  if (!shared_target(shared, bytes, false, lane, source)) return;
  std::vector<std::byte> dense(bytes);
  for (std::uint32_t at = 0; at < bytes; at += 16) {
    std::memcpy(dense.data() + at, data.data() + swizzled(map.swizzle, source.offset, at), 16);
  }
  for (std::uint32_t row = 0; row < box.rows(); ++row) {
    box.for_runs(row, [&](const TensorBox::Run& run) {
      PendingBulk copy;
      copy.detail = in.detail;
      copy.instruction = pc_;
      copy.lane = lane;
      copy.to_global = true;
      copy.reduces = access.reduces;
      copy.reduction = reduction_type(map.type);
      copy.first_of_tile = row == 0;
      copy.target = run.address;
      copy.group = warp_->bulk_groups[lane];
      copy.source_offset = source.offset + run.box_offset;
      copy.data.assign(dense.begin() + run.box_offset, dense.begin() + run.box_offset + run.bytes);
      block_->shared.begin_async_read(copy.source_offset, run.bytes);
      warp_->bulk_stores.push_back(std::move(copy));
    });
  }
}

/// What a tensor's elements are to a reduction.
AtomicType Interpreter::reduction_type(TensorMapType type) {
  switch (type) {
    case TensorMapType::s32: return AtomicType::s32;
    case TensorMapType::u64: return AtomicType::u64;
    case TensorMapType::s64: return AtomicType::s64;
    case TensorMapType::f16: return AtomicType::f16;
    case TensorMapType::bf16: return AtomicType::bf16;
    case TensorMapType::f64: return AtomicType::f64;
    case TensorMapType::f32:
    case TensorMapType::f32_ftz:
    case TensorMapType::tf32:
    case TensorMapType::tf32_ftz: return AtomicType::f32;
    default: return AtomicType::u32;
  }
}

/// tensormap.replace: a = map, b = value, immediate = dimension, form = field, detail = space, uniform: 64 bits.
Interpreter::Step Interpreter::tensor_map_replace(const Instruction& in, std::uint32_t lanes) {
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    const std::uint64_t value = in.uniform ? row_of<std::uint64_t>(in.b)[lane] : row_of<std::uint32_t>(in.b)[lane];
    const std::uint32_t d = in.immediate;
    change_tensor_map(row_of<std::uint64_t>(in.a)[lane], in.detail_as<Space>(), lane, [&](TensorMap& map) {
      switch (in.form_as<TensorMapField>()) {
        case TensorMapField::global_address: map.address = value; break;
        case TensorMapField::rank: map.rank = value + 1; break;
        case TensorMapField::box: map.box[d] = value; break;
        case TensorMapField::size: map.sizes[d] = value; break;
        // The strides are those of dimensions 1 and above.
        case TensorMapField::stride: map.strides[std::min(d + 1, TensorMap::most_dimensions - 1)] = value; break;
        case TensorMapField::element_stride: map.element_strides[d] = value; break;
        case TensorMapField::type: map.type = static_cast<TensorMapType>(value); break;
        case TensorMapField::interleave: map.interleave = value; break;
        case TensorMapField::swizzle: map.swizzle = static_cast<TensorMapSwizzle>(value); break;
        case TensorMapField::fill: map.fills_nan = value != 0; break;
        case TensorMapField::atomicity: break;
      }
    });
  }
  ++unit_->events;
  return Step::next;
}

/// Reads a map, lets `change` at it, and writes it back, as the lane's accesses.
template <class F>
void Interpreter::change_tensor_map(std::uint64_t address, Space space, std::uint32_t lane, F&& change) {
  if (space == Space::generic) {
    const bool is_shared = address - shared_window < window_bytes;
    space = is_shared ? Space::shared : Space::global;
    if (is_shared) address -= shared_window;
  }
  std::array<std::byte, TensorMap::bytes> bytes{};
  MemoryAccess access;
  if (space == Space::shared) {
    SharedTarget target;
    if (!shared_target(address, bytes.size(), false, lane, target)) return;
    const SharedAccessor who = shared_accessor(*block_, lane, false);
    const SharedOutcome read = block_->shared.read(target.offset, bytes.size(), who);
    if (read.fault != SharedFault::none) report_shared(read, lane, false);
    const SharedOutcome written = block_->shared.write(target.offset, bytes.size(), who);
    if (written.fault != SharedFault::none) report_shared(written, lane, true);
    std::byte* at = block_->shared.data() + target.offset;
    std::memcpy(bytes.data(), at, bytes.size());
    TensorMap map = decode_tensor_map(bytes);
    change(map);
    encode_tensor_map(map, std::span<std::byte, TensorMap::bytes>(at, bytes.size()));
    return;
  }
  MemoryRegion* region = region_of(address, bytes.size(), lane, Touch::write, "tensormap.replace");
  if (region == nullptr) return;
  global_run(*region, address, bytes.size(), 0, Touch::read, access);
  std::memcpy(bytes.data(), staging_.data(), bytes.size());
  TensorMap map = decode_tensor_map(bytes);
  change(map);
  encode_tensor_map(map, bytes);
  std::memcpy(staging_.data(), bytes.data(), bytes.size());
  global_run(*region, address, bytes.size(), 0, Touch::write, access);
  ++unit_->global_events;
}

/// tensormap.cp_fenceproxy: a = target in global memory, b = source in shared memory; the warp copies once.
Interpreter::Step Interpreter::tensor_map_copy(const Instruction& in, std::uint32_t lanes) {
  const std::uint32_t lane = std::countr_zero(lanes);
  const std::uint64_t to = row_of<std::uint64_t>(in.a)[lane];
  SharedTarget source;
  if (!shared_target(row_of<std::uint64_t>(in.b)[lane], TensorMap::bytes, false, lane, source)) return Step::next;
  const SharedOutcome outcome =
      block_->shared.read(source.offset, TensorMap::bytes, shared_accessor(*block_, lane, false));
  if (outcome.fault != SharedFault::none) report_shared(outcome, lane, false);
  MemoryRegion* region = region_of(to, TensorMap::bytes, lane, Touch::write, "tensormap.cp_fenceproxy");
  if (region == nullptr) return Step::next;
  std::memcpy(staging_.data(), block_->shared.data() + source.offset, TensorMap::bytes);
  MemoryAccess access;
  global_run(*region, to, TensorMap::bytes, 0, Touch::write, access);
  ++unit_->events;
  ++unit_->global_events;
  return Step::next;
}

}  // namespace stitch::emulator
