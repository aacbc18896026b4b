#include <algorithm>
#include <optional>

#include "emulator/run/interpreter.h"
#include "emulator/run/matrix_element.h"
#include "emulator/run/narrow_sum.h"
#include "emulator/run/sparse_matrix.h"

namespace stitch::emulator {
/// Checks that the operand may be read asynchronously, as accesses of the warp's first lane, and notes it as being
/// read.
void Interpreter::check_tile(std::uint64_t descriptor, bool transposed, std::uint32_t rows, std::uint32_t k_count,
                             MatrixType type) {
  const TileDescriptor tile = TileDescriptor::of_warp_group(descriptor);
  const std::uint32_t width = element_bits(type);
  SharedMemory& shared = block_->shared;
  const SharedAccessor who = shared_accessor(*block_, 0, false);
  bool unfenced = false;
  if (!tile.covers(k_count * width / 8, transposed)) {
    report(Detector::invalid_use, 0, [&] {
      return fmt::format("wgmma reads rows of {} bytes by a descriptor whose swizzle has {}", k_count * width / 8,
                         tile.swizzle_bytes);
    });
    return;
  }
  bool inside = true;
  tile.for_each_piece(rows, k_count, width, transposed, [&](std::uint32_t address) {
    SharedTarget target;
    inside = shared_target(address, 16, false, 0, target);
    if (!inside) return false;
    const SharedOutcome outcome = shared.read(target.offset, 16, who);
    if (outcome.fault != SharedFault::none) report_shared(outcome, 0, false);
    unfenced |= shared.written_since(target.offset, 16, block_->proxy_fence);
    shared.begin_async_read(target.offset, 16);
    warp_->product_reads.push_back({target.offset, 16, warp_->product_groups});
    return true;
  });
  if (!unfenced || !inside) return;
  report(Detector::missing_fence, 0,
         [] { return std::string("wgmma reads shared memory that was written without a fence.proxy.async since"); });
}

/// The element (row, column) of a tile in the shared memory of `block`; 0 outside it.
double Interpreter::tile_element(Block& block, const TileDescriptor& tile, bool transposed, std::uint32_t row,
                                 std::uint32_t column, MatrixType type) {
  const std::uint32_t width = element_bits(type);
  const std::uint32_t address = tile.address(row, column, width, transposed);
  const std::uint32_t bytes = std::max(width / 8, 1U);
  if (address < shared_base || !block.shared.contains(address - shared_base, bytes)) return 0;
  std::uint32_t bits = 0;
  std::memcpy(&bits, block.shared.data() + (address - shared_base), bytes);
  return element_value(type, width < 8 ? bits >> (column * width % 8) : bits);
}

/// wgmma.mma_async m64nN, k of 32 bytes (kept bytes, of a sparse A): the warp computes its 16 of the 64 rows; warps of
/// a group agree on everything else. list: accumulators, A's registers if it is not in shared memory, metadata; a, b =
/// descriptors; c = predicate: add to what is there. The result is in the registers at once, and guarded until the
/// wait.
Interpreter::Step Interpreter::wgmma(const Instruction& in, std::uint32_t lanes) {
  if (awaits_warp()) return Step::wait;
  if (lanes != 0xFFFFFFFF) {
    report(Detector::invalid_use, std::countr_zero(lanes),
           [&] { return fmt::format("wgmma by lanes 0x{:08x} only", lanes); });
    return Step::next;
  }
  const MatrixForm& form = code_.matrices[in.detail];
  const bool half = form.accumulator == MatrixType::f16;
  const std::uint32_t d_count = half ? form.n / 4U : form.n / 2U;
  const std::uint32_t width = element_bits(form.a);
  const Slot* d_slots = code_.lists.data() + in.list;
  const std::uint64_t b_descriptor = row_of<std::uint64_t>(in.b)[0];
  const std::uint32_t row_base = warp_->index % 4 * 16;
  using Row = std::array<double, 256>;
  std::vector<Row> a(16);
  std::vector<Row> b(form.n);
  if (form.a_in_registers) {
    const std::uint32_t e = 32 / width;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      for (std::uint32_t i = 0; i < 4; ++i) {
        const std::uint32_t bits = row_of<std::uint32_t>(d_slots[d_count + i])[lane];
        double* to = a[lane / 4 + 8 * (i % 2)].data() + 4 * e * (i / 2) + lane % 4 * e;
        for (std::uint32_t j = 0; j < e; ++j) to[j] = element_value(form.a, bits >> (width * j));
      }
    }
  } else {
    const std::uint64_t a_descriptor = row_of<std::uint64_t>(in.a)[0];
    const TileDescriptor tile = TileDescriptor::of_warp_group(a_descriptor);
    if (warp_->index % 4 == 0) check_tile(a_descriptor, form.transpose_a, 64, form.stored_k(), form.a);
    for (std::uint32_t r = 0; r < 16; ++r) {
      for (std::uint32_t k = 0; k < form.stored_k(); ++k) {
        a[r][k] = tile_element(*block_, tile, form.transpose_a, row_base + r, k, form.a);
      }
    }
  }
  const TileDescriptor b_tile = TileDescriptor::of_warp_group(b_descriptor);
  if (warp_->index % 4 == 0) check_tile(b_descriptor, form.transpose_b, form.n, form.k, form.b);
  for (std::uint32_t n = 0; n < form.n; ++n) {
    for (std::uint32_t k = 0; k < form.k; ++k) b[n][k] = tile_element(*block_, b_tile, form.transpose_b, n, k, form.b);
  }
  std::optional<KeptColumns> kept;
  if (form.sparse) kept.emplace(form, sparse_metadata(form, d_slots[d_count + (form.a_in_registers ? 4 : 0)]));
  const auto is_small = [](MatrixType type) { return type == MatrixType::e4m3 || type == MatrixType::e5m2; };
  const bool narrow = is_small(form.a) && is_small(form.b) && !half;
  const double sign = form.negate_a != form.negate_b ? -1.0 : 1.0;
  const std::uint32_t accumulate = mask_of(in.c);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    for (std::uint32_t i = 0; i < form.n / 2U; ++i) {
      // Accumulators come in groups of four per 8 columns: (row, col), (row, col + 1), (row + 8, …).
      const std::uint32_t r = lane / 4 + 8 * (i % 4 / 2);
      const std::uint32_t n = i / 4 * 8 + lane % 4 * 2 + i % 2;
      auto* slot = row_of<std::uint32_t>(d_slots[half ? i / 2 : i]);
      const std::uint32_t shift = half ? 16 * (i % 2) : 0;
      const double* column = kept ? kept->select(r, b[n].data()) : b[n].data();
      const bool adds = ((accumulate >> lane) & 1) != 0;
      const double before = adds ? element_value(form.accumulator, slot[lane] >> shift) : 0;
      const double sum = narrow ? sign * narrow_sum(a[r].data(), column, form.stored_k(), sign * before)
                                : before + sign * add_products(form, a[r].data(), column, 0);
      const auto bits = static_cast<std::uint32_t>(accumulator_bits(form, sum));
      slot[lane] = half ? (slot[lane] & ~(0xFFFFU << shift)) | bits << shift : bits;
    }
  }
  for (std::uint32_t i = 0; i < d_count; ++i) warp_->products.push_back({d_slots[i], warp_->product_groups, in.detail});
  return Step::next;
}

Interpreter::Step Interpreter::wgmma_fence(const Instruction&, std::uint32_t) { return Step::next; }

Interpreter::Step Interpreter::wgmma_commit(const Instruction&, std::uint32_t) {
  ++warp_->product_groups;
  return Step::next;
}

/// wgmma.wait_group immediate: all but the latest so many groups are complete.
Interpreter::Step Interpreter::wgmma_wait(const Instruction& in, std::uint32_t) {
  const std::uint32_t pending = std::min<std::uint64_t>(in.immediate, warp_->product_groups);
  const std::uint32_t complete = warp_->product_groups - pending;
  std::erase_if(warp_->products, [&](const Warp::InFlightRegister& product) { return product.group < complete; });
  std::erase_if(warp_->product_reads, [&](const Warp::SharedRange& range) {
    if (range.group >= complete) return false;
    block_->shared.end_async_read(range.offset, range.bytes);
    return true;
  });
  ++unit_->events;
  return Step::next;
}

}  // namespace stitch::emulator
